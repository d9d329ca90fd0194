"""Logs running requests after too long a time, with the stack of their thread: --slow-request.

Owns:     Slow, the extension.
Thread:   see Extension.
Not here: finding these requests, and the messages (watch.py); several workers' (reports.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...core.ends import Reader
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
    wants = ("times",)
    requests: SlowRequests  # from `start` on
    _reporter: Reporter | None = None  # None: there is no supervisor

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
        context.at_stop(self._stop)

    def reader(self) -> Reader:
        """See Extension."""
        return Reader(
            at_end=(self._config.slow_request_seconds, self.requests.write), refused=self.requests.write_refused,
            upgraded=self.requests.write_websocket,
        )  # fmt: skip

    def answers(self) -> Mapping[str, Callable[[], Any]]:
        """Return the last slow requests; see SlowRequests.last."""
        return {SLOW: lambda: [*map(so_far, self.requests.last())]}

    def on_second(self) -> None:
        """See Extension."""
        self.requests.on_second()
        self._report()

    def _stop(self) -> None:
        self.requests.close()
        self._report()

    def _report(self) -> None:
        if self._reporter is not None:
            self._reporter.report(self.requests.last())
