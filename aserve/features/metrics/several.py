"""The metrics of a supervisor's workers, which the supervisor answers.

Owns:     Several: an Exporter in a supervisor, and the files of the app's own metrics.
Thread:   the supervisor's only one.
Not here: the metrics (exporter.py), one process (single.py), keeping those files (app_files.py), reading them (app.py).

A worker reads the app's own metrics: the one that has ticked last, since it does not hang.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from selectors import EVENT_READ
from typing import Any

from ...core.page import Field
from ...lifecycle.supervision import HandedDown, Supervision, SupervisorContext, Word, WorkerEnd
from .app import READ, TEXT
from .app_files import GIVEN, AppFiles, chosen_folder
from .exporter import Exporter
from .settings import MetricsSettings

# Limit of the app's metrics. Guess: a hundred thousand samples take 10 MiB.
MAX_APP_BYTES = 64 << 20


class Several(Supervision):
    """The metrics of one supervisor's workers."""

    def __init__(self, context: SupervisorContext, config: MetricsSettings) -> None:
        self._context = context
        # The folder of the app's metrics; "": to be made, None: not wanted, or made already.
        self._app_folder = chosen_folder(config, context.environ)
        self._app_files: AppFiles | None = None
        self._asked = 0  # the pid of the worker that reads the app's metrics; 0: none does
        self.exporter = Exporter(context.observed, context.bound, self._ask_app)
        if self.exporter.scrapes is not None:
            context.observed.statuses.counted = self.exporter.counted
            context.watch(self.exporter.scrapes.fileno(), self.exporter.scrapes.on_ready, EVENT_READ)

    def words(self) -> Mapping[str, Word]:
        """See Supervision."""
        return {TEXT: self._on_app_metrics}

    def share(self) -> Mapping[str, Any]:
        """Return the folder of the app's metrics, which is made before the first child."""
        if self._app_folder is not None:
            self._app_files, self._app_folder = AppFiles.open(self._app_folder), None
        return {GIVEN: self._app_files.folder} if self._app_files is not None else {}

    def on_second(self) -> None:
        """See Supervision."""
        self.exporter.on_second()

    def on_end(self, end: WorkerEnd) -> None:
        """Keep a worker's counts, and remove the live gauges; if it was reading the app's metrics, ask another worker."""
        if slot := end.page[Field.SLOT]:
            self.exporter.add_gone(slot, end.page)
            self.exporter.totals.add_lost(slot, end.lost)
        if self._app_files is not None:
            self._app_files.forget(end.page_number)
        if end.pid == self._asked and end.pid and not self._ask_app():
            self.exporter.on_app_metrics(b"", "")

    def hand_down(self) -> HandedDown:
        """Return the counts by name, and the clients without a complete request; send pending answers first."""
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
        """See Supervision; the previous supervisor may not have counted."""
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
        """Take the app's metrics from a worker, in a file; or the reason why it could not read them."""
        text, fault, self._asked = b"", message["fault"], 0
        for fd in fds:
            with open(fd, "rb"):
                if os.fstat(fd).st_size > MAX_APP_BYTES:
                    fault = f"they take more than {MAX_APP_BYTES >> 20} MiB"
                elif not fault:
                    text = os.pread(fd, MAX_APP_BYTES, 0)
        self.exporter.on_app_metrics(text, fault)
