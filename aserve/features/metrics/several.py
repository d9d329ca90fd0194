"""The metrics of a supervisor's workers, which the supervisor answers.

Owns:     Several: an Exporter in a supervisor, and the files in which the app counts.
Thread:   the supervisor's only one.
Not here: what is told (exporter.py), one process (single.py), how those files are kept (app_files.py), and read (app.py).

What the app itself counts a worker reads: the one that has ticked last, so that it is none that hangs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from selectors import EVENT_READ
from typing import Any

from ...core.page import Field
from ...lifecycle.supervision import HandedDown, Supervision, SupervisorContext, Word
from .app import READ, TEXT
from .app_files import GIVEN, AppFiles, chosen_folder
from .exporter import Exporter
from .settings import MetricsSettings

# Of the app's metrics: more is no text of metrics. Guess: a hundred thousand samples take ten.
MAX_APP_BYTES = 64 << 20


class Several(Supervision):
    """Those of one supervisor's workers."""

    def __init__(self, context: SupervisorContext, config: MetricsSettings) -> None:
        self._context = context
        # For what the app counts, "": one is to be made, None: there is none to be made, or none any more.
        self._app_folder = chosen_folder(config, context.environ)
        self._app_files: AppFiles | None = None
        self._asked = 0  # the pid of the worker that reads them; 0: none does
        self.exporter = Exporter(context.observed, context.bound, self._ask_app)
        if self.exporter.scrapes is not None:
            context.observed.statuses.counted = self.exporter.counted
            context.watch(self.exporter.scrapes.fileno(), self.exporter.scrapes.on_ready, EVENT_READ)

    def words(self) -> Mapping[str, Word]:
        """See Supervision."""
        return {TEXT: self._on_app_metrics}

    def share(self) -> Mapping[str, Any]:
        """Return where the app is to count; the folder is there before the first child."""
        if self._app_folder is not None:
            self._app_files, self._app_folder = AppFiles.open(self._app_folder), None
        return {GIVEN: self._app_files.folder} if self._app_files is not None else {}

    def on_second(self) -> None:
        """See Supervision."""
        self.exporter.on_second()

    def on_end(self, pid: int, page_number: int) -> None:
        """Remove what goes with a worker; what it was to read, another reads."""
        if self._app_files is not None:
            self._app_files.forget(page_number)
        if pid == self._asked and pid and not self._ask_app():
            self.exporter.on_app_metrics(b"", "")

    def on_page_end(self, slot: int, page: Sequence[int]) -> None:
        """See Supervision."""
        self.exporter.add_gone(slot, page)

    def on_lost(self, slot: int, count: int) -> None:
        """See Supervision."""
        self.exporter.totals.add_lost(slot, count)

    def hand_down(self) -> HandedDown:
        """Return what is counted, by names, and clients that have not asked yet; none waits for an answer that it would lose."""
        scrapes, files = self.exporter.scrapes, self._app_files
        if scrapes is not None:
            scrapes.finish()
        asking = scrapes.describe() if scrapes is not None else []
        state = {
            **self.exporter.describe_counted(), "app_files": files.describe() if files is not None else None, "scrapes": asking,
        }  # fmt: skip
        locks = [files.lock] if files is not None and files.lock is not None else []
        return HandedDown(state, self._context.bound, [*locks, *(each["fd"] for each in asking)])

    def take_over(self, state: Mapping[str, Any], has_children: bool) -> None:
        """See Supervision; code of before that has not counted says nothing of it."""
        self.exporter.started_at = state["started_at"]
        if "gone" in state:
            self.exporter.restore_counted(state, has_children)
        if has_children and state.get("app_files") is not None:
            self._app_files, self._app_folder = AppFiles.inherit(state["app_files"]), None
        if has_children and self.exporter.scrapes is not None:
            self.exporter.scrapes.restore(state.get("scrapes", ()))

    def close(self, is_end: bool) -> None:
        """See Supervision."""
        self.exporter.close(is_end)
        if is_end and self._app_files is not None:
            self._app_files.close()
            self._app_files = None

    def _ask_app(self) -> bool:
        ready, self._asked = [each for each in self._context.observed.processes() if each.state == "ready"], 0
        if self._app_files is None or not ready:
            return False
        self._asked = max(ready, key=lambda each: each.page[Field.TICKED_AT]).pid
        self._context.tell(self._asked, {"do": READ})
        return True

    def _on_app_metrics(self, pid: int, message: Mapping[str, Any], fds: list[int]) -> None:
        """Take what a worker has read of what the app counts, in a file; or why it could not."""
        text, fault, self._asked = b"", message["fault"], 0
        for fd in fds:
            with open(fd, "rb"):
                if os.fstat(fd).st_size > MAX_APP_BYTES:
                    fault = f"they take more than {MAX_APP_BYTES >> 20} MiB"
                elif not fault:
                    text = os.pread(fd, MAX_APP_BYTES, 0)
        self.exporter.on_app_metrics(text, fault)
