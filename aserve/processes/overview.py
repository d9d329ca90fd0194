"""All that is to be known of a supervisor and its workers, for those who look (--metrics).

Owns:     Overview: what is counted, over the ends of workers and the supervisor's own exec; the files in which the app counts; an Exporter.
Thread:   the supervisor's only one.
Not here: what is told of it, be it one process or many (features/metrics/exporter.py), how workers are (status.py).

Nobody asks a worker anything of this: its page, its table in flight and /proc say it all, also when it hangs. What the app itself
counts a worker reads (features/metrics/app.py): the one that has ticked last, so that it is none that hangs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from ..connections.listeners import Listener
from ..core import error_log
from ..core.page import Field, Process
from ..core.tally import Tally
from ..features.metrics.exporter import Exporter, Fleet
from ..settings import EngineSettings
from .app_files import AppFiles, name_of
from .channel import Message
from .child import Child, State
from .children import Children
from .slots import Slots
from .status import Status

# Of the app's metrics: more is no text of metrics. Guess: a hundred thousand samples take ten.
MAX_APP_BYTES = 64 << 20
PRESENT = (State.STARTING, State.READY, State.DRAINING, State.KILLED)


class Overview:
    """What is counted and found, by metrics."""

    def __init__(
        self,
        slots: Slots,
        children: Children,
        listeners: Sequence[Listener],
        status: Status,
        app_folder: str | None = None,
    ) -> None:
        """`app_folder`: for what the app counts, "": one is to be made, None: that is nobody's concern."""
        self.listeners = listeners  # of --metrics
        self.tally = Tally()
        self._children = children
        self._status = status
        self._lost_messages = 0  # of the supervisor's own
        self.statuses = status.statuses
        self.why_unready = ""  # as people have told it: `aserve balancers`
        # By who serves: its last tick, and for how many seconds it is the same.
        self._ticks: dict[tuple[int, int], tuple[int, int]] = {}
        self._app_folder = app_folder
        self._app_files: AppFiles | None = None
        self._asked: Child | None = None  # to read them
        self.exporter = Exporter(self, listeners, self._ask_app)
        slots.on_given_back = self.exporter.add_gone
        if listeners:
            self.statuses.counted = self.exporter.counted

    def on_second(self) -> None:
        """Called once a second."""
        self._lost_messages = error_log.on_second()
        if self.exporter.scrapes is not None:
            self._note_ticks()
        self.exporter.on_second()

    def close(self, is_end: bool) -> None:
        """Answer nobody any more; without `is_end`, others go on to."""
        self.exporter.close(is_end)
        if is_end and self._app_files is not None:
            self._app_files.close()
            self._app_files = None

    # What there is to see: exporter.Observed

    @property
    def config(self) -> EngineSettings:
        """The settings of workers that start now."""
        return self._status.known.config

    @property
    def process_count(self) -> int:
        """How many workers there are to be."""
        return self._status.known.size

    @property
    def ready_count(self) -> int:
        """How many serve."""
        return len(self._children.having(State.READY))

    @property
    def is_draining(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._status.known.is_ending

    @property
    def listening(self) -> list[dict[str, Any]]:
        """How many clients wait in the kernel."""
        return self._status.listening

    @property
    def fleet(self) -> Fleet:
        """What the supervisor has beside its workers, and counts itself."""
        return Fleet(self._status.attached, self._status.jobs, self.tally, self._lost_messages)

    def processes(self) -> list[Process]:
        """Return the workers that there are."""
        return [self._status.process_of(child) for child in self._children.having(*PRESENT)]

    def pages(self) -> list[tuple[int, memoryview]]:
        """Return the slots and the pages of the workers that there are."""
        return [(child.slot, self._children.page(child)) for child in self._children.having(*PRESENT)]

    def silent_seconds(self, process: Process) -> float:
        """Return for how many seconds the event loop of a worker has not turned."""
        _, seconds = self._ticks.get(process.key, (-1, 0))
        return seconds

    def _note_ticks(self) -> None:
        """
        Count for how many seconds the event loop of each worker has not turned.

        Only what this process has seen pass counts: after a stop of the whole machine, nobody hangs.
        """
        before, self._ticks = self._ticks, {}
        for child in self._children.having(State.READY, State.DRAINING):
            process = self._status.process_of(child)
            tick = process.page[Field.TICK]
            last, seconds = before.get(process.key, (-1, 0))
            self._ticks[process.key] = (tick, seconds + 1 if tick == last else 0)

    # What the app counts

    def app_files_of(self, page: int) -> tuple[str, str] | None:
        """Return in which folder, and under which name, a worker is to keep what the app counts; None: nowhere."""
        if self._app_folder is not None and self._app_files is None:
            self._app_files = AppFiles.open(self._app_folder)
            self._app_folder = None  # once
        return (self._app_files.folder, name_of(page)) if self._app_files is not None else None

    def forget(self, child: Child) -> None:
        """A worker has ended; what it was to read, another reads."""
        if self._app_files is not None:
            self._app_files.forget(child.page)
        if child is self._asked and not self._ask_app():
            self.exporter.on_app_metrics(b"", "")

    def _ask_app(self) -> bool:
        ready, self._asked = self._children.having(State.READY), None
        if self._app_files is None or not ready:
            return False
        self._asked = max(ready, key=lambda child: self._children.page(child)[Field.TICKED_AT])
        self._children.tell(self._asked, {"do": "read app"})
        return True

    def on_app_metrics(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker has read what the app counts, into a file; or why it could not."""
        text, fault, self._asked = b"", message["fault"], None
        for fd in fds:
            with open(fd, "rb"):
                if os.fstat(fd).st_size > MAX_APP_BYTES:
                    fault = f"they take more than {MAX_APP_BYTES >> 20} MiB"
                elif not fault:
                    text = os.pread(fd, MAX_APP_BYTES, 0)
        self.exporter.on_app_metrics(text, fault)

    # Over an exec

    def finish(self) -> None:
        """Let nobody wait for an answer who would lose it by that."""
        if self.exporter.scrapes is not None:
            self.exporter.scrapes.finish()

    def describe(self) -> dict[str, Any]:
        """Return what is counted, by names: for `restore`."""
        return {
            "started_at": self.exporter.started_at, "tally": self.tally.describe(), **self.exporter.describe_counted(),
            "app_files": self._app_files.describe() if self._app_files is not None else None,
            "why_unready": self.why_unready, "scrapes": self._scrapes_under_way(),
        }  # fmt: skip

    @property
    def fds(self) -> list[int]:
        """The descriptors that are described."""
        locks = [self._app_files.lock] if self._app_files is not None and self._app_files.lock is not None else []
        return [*locks, *(each["fd"] for each in self._scrapes_under_way())]

    def _scrapes_under_way(self) -> list[dict[str, Any]]:
        return self.exporter.scrapes.describe() if self.exporter.scrapes is not None else []

    def restore(self, state: dict[str, Any], has_children: bool) -> None:
        """Go on counting; without its children, what they had counted up to now is all that is known of them."""
        self.exporter.started_at, self.why_unready = state["started_at"], state.get("why_unready", "")
        self._status.began_before(max(time.time() - self.exporter.started_at, 0.0))
        self.tally.restore(state["tally"])
        self.exporter.restore_counted(state, has_children)
        if has_children and state["app_files"] is not None:
            self._app_files = AppFiles.inherit(state["app_files"])
        if has_children and self.exporter.scrapes is not None:
            self.exporter.scrapes.restore(state.get("scrapes", ()))
