"""Looking for saved files, with --reload.

Owns:     Reloader: when to look, and when to report a change; reloading: a Reloader beside a worker's server.
Thread:   a worker's event loop; watchfiles has a thread of its own.
Not here: which files (sources.py), the reload (acts.py).

Without watchfiles the Reloader looks at all files four times a second. With watchfiles, the kernel reports folders with changed files; then, and
twice a second in any case, the Reloader looks in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Callable

from ...core.start_folder import real_folder
from ...lifecycle.loading import folder_of
from ..fleet.plan import Plan
from .sources import Sources, forget_compiled

logger = logging.getLogger("aserve")

# Measured 2026-11-23: a look at 500 files, among 2,500 modules, takes 1.1 ms of CPU time on CPython 3.11, and 6 ms on PyPy 3.9.
POLL_SECONDS = 0.25
AROUND_SECONDS = 0.5  # between two looks into folders for new files
# An editor, a formatter or git writes several files, and some twice: wait until none has changed for so long. Guess.
SETTLE_SECONDS = 0.1
MAX_SETTLE_SECONDS = 0.5


class Reloader:
    """Reports when the code has changed, until `stop`; to be made on an event loop."""

    def __init__(self, sources: Sources, say: Callable[[str], None]) -> None:
        """`say` is called with the reason for a reload."""
        self._sources = sources
        self._say = say
        self._stopped = asyncio.Event()
        self._now = asyncio.get_running_loop().time
        self._looked_around_at = self._now()

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stopped.set()

    def look_at_all(self) -> None:
        """See Sources."""
        self._sources.look_at_all()

    async def run(self) -> None:
        """Look for changes until `stop`."""
        if find_spec("watchfiles"):
            try:
                await self._look_when(self._on_alarm)
            except Exception as exc:  # the kernel has a limit of watches; a folder may be gone
                logger.warning("--reload: watchfiles fails (%s); looking at the files themselves", exc)
        await self._look_when(self._on_clock)

    async def _look_when(self, waits: Callable[[], AsyncIterator[object]]) -> None:
        while not self._stopped.is_set():
            folders, waiting = self._sources.folders(), waits()
            async for _ in waiting:
                if self._stopped.is_set():
                    break
                await self._look()
                if waits == self._on_alarm and self._sources.folders() != folders:
                    break  # the app has imported more
            await waiting.aclose()  # type: ignore[attr-defined]

    async def _on_clock(self) -> AsyncIterator[object]:
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), POLL_SECONDS)
            yield None

    def _on_alarm(self) -> AsyncIterator[object]:
        from watchfiles import awatch  # an optional dependency, for developers only

        folders = filter(os.path.isdir, self._sources.folders())
        changes: AsyncIterator[object] = awatch(
            *folders,
            watch_filter=None,
            stop_event=self._stopped,
            recursive=False,
            debounce=100,
            step=50,
            rust_timeout=int(AROUND_SECONDS * 1000),
            yield_on_timeout=True,
        )
        return changes

    async def _look(self) -> None:
        changed = self._sources.find_changed()
        if self._now() - self._looked_around_at >= AROUND_SECONDS:
            self._looked_around_at = self._now()
            changed += self._sources.look_around()
        if not changed:
            return
        deadline = self._now() + MAX_SETTLE_SECONDS
        while self._now() < deadline:
            await asyncio.sleep(SETTLE_SECONDS)
            further = self._sources.find_changed()
            if not further:
                break
            changed += further
        self._tell(changed)

    def _tell(self, changed: list[str]) -> None:
        self.look_at_all()  # before the import of the code: after a failed import, a file saved meanwhile may repair the code
        forget_compiled(changed)
        names = [os.path.relpath(path) if real_folder() else path for path in dict.fromkeys(changed)]
        more = f" and {len(names) - 1} more have" if names[1:] else " has"
        self._say(f"{names[0]}{more} changed")


@contextlib.asynccontextmanager
async def reloading(
    plan: Plan, slot: int, has_fault: bool, say: Callable[[str], None]
) -> AsyncIterator[Reloader | None]:
    """Report changes within the block, with --reload; only the first worker does: all have the same code."""
    if not plan.config.reload or slot != 1:
        yield None
        return
    # A removed working directory has no files to change.
    folders = [folder for folder in (real_folder(), folder_of(plan.spec) if plan.spec else "") if folder]
    reloader = Reloader(Sources(plan.config.reload_extra, folders), say)
    if has_fault:
        reloader.look_at_all()
    task = asyncio.ensure_future(reloader.run())
    try:
        yield reloader
    finally:
        reloader.stop()
        await asyncio.wait({task})
