"""Logs running requests after too long a time, with the stack of their thread: --slow-request.

Owns:     Slow, the extension.
Thread:   see Extension.
Not here: finding these requests, and the messages (watch.py); several workers' (reports.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...core.errors import RequestRefused
from ...core.exchange import Exchange
from ...extension import Extension, ServerContext
from ...lifecycle.supervision import Supervision, SupervisorContext
from .reports import SLOW, Reporter, Reports, so_far
from .settings import SlowRequestSettings

if TYPE_CHECKING:
    from .watch import SlowRequests


class Slow(Extension[SlowRequestSettings]):
    """--slow-request."""

    switches = ("slow_request_seconds",)
    modules = ("watch",)
    wants_times = True
    requests: SlowRequests  # from `start` on
    _reporter: Reporter | None = None  # None: there is no supervisor

    def __init__(self, config: SlowRequestSettings) -> None:
        super().__init__(config)
        self.at_end_seconds = config.slow_request_seconds

    @classmethod
    def is_supervised(cls, config: SlowRequestSettings) -> bool:
        """Whether there is a part in a supervisor: always, as a reload may turn the option on."""
        return True

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        return Reports()

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        from .watch import SlowRequests

        seconds, threads = self._config.slow_request_seconds, self._config.threads
        self.requests = SlowRequests(seconds, context.server.has, context.slot, is_inline=not threads)
        self._reporter = Reporter(context.say) if context.say is not None else None

    def at_end(self, exchange: Exchange) -> None:
        """See Extension."""
        self.requests.write(exchange)

    def refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See Extension."""
        self.requests.write_refused(connection, exchange, why)

    def upgraded(self, exchange: Exchange) -> None:
        """See Extension."""
        self.requests.write_websocket(exchange)

    def status(self) -> Mapping[str, Callable[[], Any]]:
        """Return the last slow requests; see SlowRequests.last."""
        return {SLOW: lambda: [*map(so_far, self.requests.last())]}

    def on_second(self) -> None:
        """See Extension."""
        self.requests.on_second()
        self._report()

    def stop(self) -> None:
        """See Extension."""
        self.requests.close()
        self._report()

    def _report(self) -> None:
        if self._reporter is not None:
            self._reporter.report(self.requests.last())
