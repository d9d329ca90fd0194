"""What a server keeps of its requests: the access log, its counters, and those that are slow.

Owns:     Records: which of them there are, by the settings, from start to stop.
Thread:   event loop only; what they are told of requests, whoever ends one.
Not here: the lines (access_log.py), the numbers (metrics/), the stacks (slow_requests.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from .core import error_log, forks
from .extension import Serving
from .request_log import Ends, RequestLog
from .wire_log import WireLog, is_told
from .workers.busy import Busy

if TYPE_CHECKING:
    from .access_log import AccessLog
    from .core.exchange import Exchange
    from .metrics.counting import Counters
    from .metrics.single import Single
    from .slow_requests import SlowRequests
    from .workers.executor import Executor
    from .workers.inline import InlineExecutor


class Records:
    """One server's."""

    def __init__(
        self,
        server: Serving,
        loop: asyncio.AbstractEventLoop,
        busy: Busy,
        counters: Any = None,
        slot: int | None = None,
    ) -> None:
        """
        Open them. `counters`: memory for those of a process whose supervisor answers for all.

        Raises:
            BindError: the access log cannot be written, or the address of --metrics not be bound.
        """
        config = server.config
        self._server = server
        self._busy = busy
        self._single: Single | None = None
        self._counters: Counters | None = None
        self._access_log: AccessLog | None = None
        self._slow: SlowRequests | None = None
        self._wire_log = WireLog() if is_told() else None
        self._ends: Ends | None = None
        with contextlib.ExitStack() as undo:
            if config.access_log is not None:
                from .access_log import AccessLog  # these: 0.5 MB of each process, with what they need

                self._access_log = AccessLog.of(config, slot)
                undo.callback(self._access_log.close)
            is_counting = config.metrics or config.stats or config.statsd
            if counters is None and (is_counting or config.agent_check):
                from .metrics.single import Single

                self._single = Single(server, loop)
                counters = self._single.memory
                undo.callback(self._single.close)
            if is_counting:
                from .metrics.counting import Counters
                from .metrics.gil import GilWatch

                self._counters = Counters(counters, config.threads)
                watch = GilWatch(self._counters.note_gil_wait)
                watch.start()
                undo.callback(watch.stop)
            if config.slow_request_seconds:
                from .slow_requests import SlowRequests

                self._slow = SlowRequests(config.slow_request_seconds, slot, is_inline=not config.threads)
                undo.callback(self._slow.close)
            self._undo = undo.pop_all()

    def new_log(self, executor: Executor | InlineExecutor) -> RequestLog | None:
        """Return who is told of the end of each request, to be called once; None: nobody."""
        log, slow = self._access_log, self._slow
        readers = [reader for reader in (self._counters, log) if reader is not None]
        if not readers and self._wire_log is None:
            return slow
        ends = self._ends = Ends(
            readers,
            executor.jobs,
            soon=executor.pause_seconds / 2,  # not all of it: the pause may have begun some time before `arrived_at`
            wants_head=log is not None and log.wants_head,
            slow=slow,
            slow_seconds=self._server.config.slow_request_seconds,
            wire_log=self._wire_log,
            counters=self._counters,
            access_log=log,
        )
        executor.on_pause = ends.flush
        return ends

    @property
    def wants_times(self) -> bool:
        """Whether one of them wants to know when requests came, and were begun."""
        log, others = self._access_log, (self._counters, self._slow)
        return any(other is not None for other in others) or (log is not None and log.wants_times)

    @property
    def wants_ids(self) -> bool:
        """Whether one of them wants to know the names of requests."""
        return self._access_log is not None and self._access_log.wants_ids

    @property
    def bound(self) -> list[bytes]:
        """The addresses of their listeners, for core/forks.py."""
        listeners = self._single.listeners if self._single is not None else ()
        return [forks.local_address(listener.socket.fileno()) for listener in listeners]

    def flush(self) -> None:
        """Tell of the ends that wait."""
        if self._ends is not None:
            self._ends.flush()

    @property
    def is_counting(self) -> bool:
        """Whether requests are counted."""
        return self._counters is not None

    @property
    def thread_seconds(self) -> float:
        """For how long threads have been with requests that have ended; 0.0: that is not counted."""
        return self._counters.thread_seconds if self._counters is not None else 0.0

    def on_second(self) -> None:
        """Called once a second, behind `flush`: write what waits, and the numbers of this moment."""
        if self._access_log is not None:
            self._access_log.on_second()
        if self._counters is not None:
            lost = self._access_log.lost_count if self._access_log is not None else 0
            self._counters.on_second(self._server.statistics(), lost, self._busy.seconds, error_log.lost_lines())
        if self._single is not None:
            self._single.on_second()
        if self._slow is not None:
            self._slow.on_second()

    def write_websocket(self, exchange: Exchange) -> None:
        """Note that a request ends as it becomes a WebSocket: others note the WebSocket's end."""
        if self._slow is not None:
            self._slow.write_websocket(exchange)

    def counted(self) -> tuple[dict[str, Any], dict[int, int]]:
        """See Server.counted."""
        return self._single.counted() if self._single is not None and self._counters is not None else ({}, {})

    def slow_requests(self) -> list[dict[str, Any]]:
        """See SlowRequests.last."""
        return self._slow.last() if self._slow is not None else []

    def reopen(self) -> None:
        """Go on in the file that has the access log's name now."""
        self.flush()
        if self._access_log is not None:
            self._access_log.reopen()

    def close(self) -> None:
        """Write the rest, and let go of them."""
        self.flush()
        self._undo.close()
