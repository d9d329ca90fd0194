"""What happens on the wire, for --log-level debug: what becomes of connections.

Owns:     the logger aserve.wire.
Thread:   any.
Not here: requests, how they went (features/wire_log.py); states of the event loop's wire (states.py), which is told of by wire_loop.py.

The level is read once, when a server starts: without debug nobody is told, and a change of state costs the test of an attribute.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("aserve.wire")


def is_told() -> bool:
    """Whether anybody wants to know, at this moment."""
    return logger.isEnabledFor(logging.DEBUG)


def tell(connection: Any, what: str) -> None:
    """Say what happens on a connection."""
    logger.debug("%s: %s", name_of(connection), what)


def name_of(connection: Any) -> str:
    """Return where its client is."""
    return f"{connection.remote_addr}:{connection.remote_port}" if connection.remote_addr else "unix socket"
