"""Who is told when a request has ended.

Owns:     RequestLog, what a service asks of them; RequestLogs, several of them as one.
Thread:   both sides, as each of them says.
Not here: when a request ends (connections/connection.py, connections/wire_loop.py); the lines (access_log.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .errors import RequestRefused
    from .exchange import Exchange


class RequestLog(Protocol):
    """Is told of the end of each request, once."""

    def write(self, exchange: Exchange) -> None:
        """Note an exchange whose response is out, or lost. Its response is still there, and its body."""

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Note a request that aserve has refused; `exchange` is what is known of it."""


class RequestLogs:
    """Tells several, in their order; used only where there are several: one is told directly."""

    def __init__(self, logs: Sequence[RequestLog]) -> None:
        self._logs = tuple(logs)

    def write(self, exchange: Exchange) -> None:
        """See RequestLog.write."""
        for log in self._logs:
            log.write(exchange)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""
        for log in self._logs:
            log.write_refused(connection, exchange, why)


def as_one(*logs: RequestLog | None) -> RequestLog | None:
    """Return what tells all of these that are not None; None: there is nobody."""
    found = [log for log in logs if log is not None]
    return RequestLogs(found) if len(found) > 1 else (*found, None)[0]
