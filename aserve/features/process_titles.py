"""The title of this process in ps and top: the number of requests, and the oldest one with the duration (--process-titles).

Owns:     Title: the text, once a second; ProcessTitles, the extension.
Thread:   event loop only.
Not here: counting requests (connections/monitoring/statistics.py).

The only user of setproctitle, an optional dependency. A title overwrites the command line, so the supervisor keeps its own: an upgrade needs the
supervisor's command line, and operators find the supervisor by it.
Measured 2026-11-23: a title takes 1.4 us on CPython 3.11, and 2.3 on PyPy 3.9, beside a step for each open connection; requests are
timed, as for --metrics.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence

from ..connections.monitoring.statistics import Statistics
from ..core.exchange import without_query
from ..extension import Extension, ServerContext
from ..settings import ConfigError, EngineSettings, row
from ..settings.kinds import SWITCH

PACKAGE = "setproctitle"
# The longest useful text in a terminal.
MAX_TEXT = 120


class Title:
    """The title of this process."""

    def __init__(self, worker: int | None, threads: int) -> None:
        """`worker`: the process's number, None without --workers; `threads`: --threads."""
        self._set = importlib.import_module(PACKAGE).setproctitle
        self._name = f"aserve worker {worker}" if worker is not None else "aserve"
        self._threads = threads or 1
        self._last = ""

    def on_second(self, now: Statistics, at: Sequence[tuple[float, str]]) -> None:
        """Update the title once a second; `at`: the running requests, the oldest first, or the first of these."""
        text = f"{self._name}: {self._describe(now, at)}"[:MAX_TEXT]
        if text != self._last:
            self._last = text
            self._set(text)

    def _describe(self, now: Statistics, at: Sequence[tuple[float, str]]) -> str:
        if not now.connections_running:
            return "draining, no requests" if now.is_draining else "no requests"
        busy = now.workers_busy or min(now.connections_running, self._threads)  # with --threads 0 the loop is busy
        waiting = f", {now.requests_waiting} waiting" if now.requests_waiting else ""
        draining = "draining, " if now.is_draining else ""
        oldest = f"; {at[0][0]:.0f} s: {without_query(at[0][1])}" if at else ""
        return f"{draining}{busy} of {self._threads} threads busy{waiting}{oldest}"


class ProcessTitleSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    process_titles: bool = row(
        False, "Process", "--process-titles", SWITCH,
        "show in ps and top how many requests each process is serving, and the age of the oldest, once a second; the supervisor keeps the command line",
        "This needs setproctitle (pip install 'aserve-wsgi[titles]'), replaces the command line, and times requests as --metrics does.",
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if self.process_titles and not importlib.util.find_spec(PACKAGE):
            raise ConfigError(
                "--process-titles needs setproctitle, which is not installed; pip install 'aserve-wsgi[titles]'"
            )


class ProcessTitles(Extension[ProcessTitleSettings]):
    """--process-titles."""

    switches = ("process_titles",)
    wants = ("times",)  # of the oldest request

    def __init__(self, config: ProcessTitleSettings) -> None:
        super().__init__(config)
        importlib.import_module(PACKAGE)

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        self._server, self._title = context.server, Title(context.slot, self._config.threads)

    def on_second(self) -> None:
        """See Extension."""
        self._title.on_second(self._server.statistics(), self._server.ongoing(1))
