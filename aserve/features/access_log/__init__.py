"""The access log: a line for each request, after any end, formatted and written after the response.

Owns:     AccessLogging, the extension.
Thread:   see Extension.
Not here: the log (log.py), with imports 0.5 MB of a process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...core.ends import Reader
from ...core.log_pipe import awaited_reader
from ...extension import REOPEN_LOGS, Extension, Life, LifeContext, ServerContext
from ...lifecycle.given_files import give_files
from .settings import AccessLogSettings

if TYPE_CHECKING:
    from .log import AccessLog


class AccessLogging(Extension[AccessLogSettings]):
    """--access-log."""

    switches = ("access_log",)
    log: AccessLog  # from `start` on

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """Open each named pipe, and wait for a reader, once before any worker starts; workers then need not wait."""
        readers = contextlib.ExitStack()
        for name in (self._config.access_log or "", *self._config.access_log_copy):
            readers.enter_context(awaited_reader(name))
        return readers

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Write the lines of requests lost with a worker process; --check warns of files closed to a start."""
        if event not in (Life.CHECKS, Life.STARTS, Life.RELOADS, Life.DIED):
            return
        # Import at the start: --user may not be able to read the file, and when a worker dies another version may be installed.
        from .log import append_unanswered, log_files, warn_of_unwritable

        if event is Life.CHECKS:
            warn_of_unwritable(self._config)
        if event is Life.STARTS:
            config = self._config
            give_files(log_files(self._config), config.user, config.group, config.umask)
        if context.lost is not None:
            append_unanswered(self._config, context.lost.requests, context.lost.slot, context.lost.pid)

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        from .log import AccessLog

        log = self.log = AccessLog.of(self._config, context.slot)
        self.wants = log.wants
        context.at_stop(log.close)

    def reader(self) -> Reader:
        """See Extension."""
        return Reader(self.log, refused=self.log.write_refused)

    def answers(self) -> Mapping[str, Callable[[], Any]]:
        """See Extension; the fact is how many lines were lost since the start."""
        return {"access_log_lines_lost": lambda: self.log.lost_count, REOPEN_LOGS: self.log.reopen}

    def on_second(self) -> None:
        """See Extension."""
        self.log.on_second()
