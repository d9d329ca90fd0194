"""Logs requests that take too long while they run, with the stack of their thread: --slow-request.

Owns:     Slow, the extension.
Thread:   see Extension.
Not here: finding these requests, and the messages (watch.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...core.errors import RequestRefused
from ...core.exchange import Exchange
from ...extension import Extension, Life, LifeContext, ServerContext
from ...settings import EngineSettings

if TYPE_CHECKING:
    from .watch import SlowRequests


class Slow(Extension[EngineSettings]):
    """--slow-request."""

    wants_times = True
    requests: SlowRequests  # from `start` on

    def __init__(self, config: EngineSettings) -> None:
        super().__init__(config)
        self.at_end_seconds = config.slow_request_seconds

    @staticmethod
    def is_on(config: EngineSettings) -> bool:
        """See Extension."""
        return bool(config.slow_request_seconds)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Import the module of workers early: --user may not be able to read it."""
        if event in (Life.STARTS, Life.RELOADS):
            from . import watch  # noqa: F401

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        from .watch import SlowRequests

        seconds, threads = self._config.slow_request_seconds, self._config.threads
        self.requests = SlowRequests(seconds, context.slot, is_inline=not threads)

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
        return {"slow": self.requests.last}

    def on_second(self) -> None:
        """See Extension."""
        self.requests.on_second()

    def stop(self) -> None:
        """See Extension."""
        self.requests.close()
