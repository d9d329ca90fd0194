"""The debug log of connections (--log-level debug).

Owns:     the logger aserve.wire.
Thread:   any.
Not here: requests and their results (features/wire_log.py); states of the event loop's wire (states.py), logged by wire_loop.py.

The level is read once, when a server starts: without debug nothing is logged, and a change of state costs the test of an attribute.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("aserve.wire")


def is_told() -> bool:
    """Whether the logger's level is debug, at this moment."""
    return logger.isEnabledFor(logging.DEBUG)


def tell(connection: Any, what: str) -> None:
    """Log an event of a connection."""
    logger.debug("%s: %s", name_of(connection), what)


def name_of(connection: Any) -> str:
    """Return the address of a connection's client."""
    return f"{connection.remote_addr}:{connection.remote_port}" if connection.remote_addr else "unix socket"
