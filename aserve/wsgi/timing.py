"""When a worker begins a request, for those who want to know how long it has waited.

Owns:     TimingGateway.
Thread:   a worker (with --threads 0: the event loop).
Not here: when the request came (connections/lane.py, connections/wire_loop.py), and its end (connections/connection.py).

A service has this gateway only while `Service.times_requests` is true: others' requests do not pass through here.
"""

from __future__ import annotations

import threading
import time

from ..exchange import Exchange
from .gateway import Gateway, Reply

_monotonic, _get_ident = time.monotonic, threading.get_ident


class TimingGateway(Gateway):
    """A gateway that first notes the time in the exchange."""

    __slots__ = ("inner",)

    def __init__(self, inner: Gateway) -> None:
        self.inner = inner
        self.has_sendfile = inner.has_sendfile

    def respond(self, exchange: Exchange) -> Reply:
        """Note when it is begun, and where, then let the inner gateway respond; see Gateway.respond."""
        exchange.began_at, exchange.thread_id = _monotonic(), _get_ident()
        return self.inner.respond(exchange)
