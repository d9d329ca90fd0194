"""A name for each request, for logs: what a proxy has given it, or one of ours.

Owns:     RequestIdGateway.
Thread:   a worker (with --threads 0: the event loop).
Not here: how it is shown (log_values.py).

A service has this gateway only if the access log's format asks for the name; the app finds it as HTTP_X_REQUEST_ID.
"""

from __future__ import annotations

import os

from ..exchange import Exchange
from .gateway import Gateway, Reply

_NAME = "HTTP_X_REQUEST_ID"


class RequestIdGateway(Gateway):
    """A gateway that first names each request that has no name."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Gateway) -> None:
        self._inner = inner
        self.has_sendfile = inner.has_sendfile

    def respond(self, exchange: Exchange) -> Reply:
        """Add the name to the vars if it is not there, then let the inner gateway respond; see Gateway.respond."""
        if f"\0{_NAME}\0" not in exchange.vars:
            # As long and as random as a trace id of OpenTelemetry.
            exchange.vars += f"\0{_NAME}\0{os.urandom(16).hex()}"
        return self._inner.respond(exchange)
