"""Logs the end of each request, for --log-level debug.

Owns:     WireLog, the extension.
Thread:   see Extension.
Not here: the logger, and the messages about connections (../connections/wire_log.py).

The level is read once, when a server starts; no setting of a Server.
"""

from __future__ import annotations

from typing import Any

from ..connections.wire_log import is_told, logger, name_of
from ..core.ends import Reader
from ..core.errors import RequestRefused
from ..core.exchange import Exchange
from ..extension import Extension
from ..settings import EngineSettings


class WireLog(Extension[EngineSettings]):
    """Logs the end of each request at once, since the message names the state of the wire."""

    switches = ("log_level",)  # set in each server: `reader` decides

    def reader(self) -> Reader | None:
        """Return the callbacks if the level is debug."""
        return Reader(at_end=(0.0, self.write), refused=self.write_refused) if is_told() else None

    def write(self, exchange: Exchange) -> None:
        """Log the end of a request: see Reader.at_end."""
        connection, response = exchange.connection, exchange.response
        code, size = (0, 0) if response is None else (response.code, response.sent_bytes)
        kept = "is kept" if exchange.keep_alive and not exchange.is_from_front else "closes"
        logger.debug(
            "%s: %s on %s, by %s: %s %d, %d octets; its connection %s",
            name_of(connection), exchange.summary, connection.service.name, connection.wire.way, exchange.end, code, size, kept,
        )  # fmt: skip

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Log a refused request: see RequestLog.write_refused."""
        request = exchange.summary if exchange is not None and exchange.vars else "a request"
        logger.debug("%s: %s is refused: %d, %s", name_of(connection), request, why.status, why)
