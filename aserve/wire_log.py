"""What happens on the wire, for --log-level debug: requests, how they went, and what becomes of connections.

Owns:     the logger aserve.wire; WireLog, which is told of the ends of requests.
Thread:   any.
Not here: states of the event loop's wire (connections/states.py), which is told of by connections/writing.py.

The level is read once, when a server starts: without debug nobody is told, and a change of state costs the test of an attribute.
"""

from __future__ import annotations

import logging
from typing import Any

from .core.errors import RequestRefused
from .core.exchange import Exchange

logger = logging.getLogger("aserve.wire")


def is_told() -> bool:
    """Whether anybody wants to know, at this moment."""
    return logger.isEnabledFor(logging.DEBUG)


def tell(connection: Any, what: str) -> None:
    """Say what happens on a connection."""
    logger.debug("%s: %s", _name_of(connection), what)


class WireLog:
    """Tells of the end of each request; a RequestLog."""

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """See RequestLog.write; it is told at once."""
        connection, response = exchange.connection, exchange.response
        code, size = (0, 0) if response is None else (response.code, response.sent_bytes)
        kept = "is kept" if exchange.keep_alive and not exchange.is_from_front else "closes"
        logger.debug(
            "%s: %s on %s, by %s: %s %d, %d octets; its connection %s",
            _name_of(connection), exchange.summary, connection.service.name, connection.wire.way, exchange.end, code, size, kept,
        )  # fmt: skip

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""
        request = exchange.summary if exchange is not None and exchange.vars else "a request"
        logger.debug("%s: %s is refused: %d, %s", _name_of(connection), request, why.status, why)


def _name_of(connection: Any) -> str:
    return f"{connection.remote_addr}:{connection.remote_port}" if connection.remote_addr else "unix socket"
