"""When a worker begins a request, for those who want to know how long it has waited.

Owns:     Timing.
Thread:   a worker (with --threads 0: the event loop).
Not here: when the request came (connections/lane.py, connections/wire_loop.py), and its end (connections/connection.py).

A gateway asks it only while `Service.times_requests` is true.
"""

from __future__ import annotations

import threading
import time

from ..core.exchange import Exchange
from .gateway import Before

_monotonic, _get_ident = time.monotonic, threading.get_ident


class Timing(Before):
    """Notes the time in each exchange."""

    __slots__ = ()
    is_done_in_c = True

    def before(self, exchange: Exchange) -> None:
        """Note when it is begun, and where."""
        exchange.began_at, exchange.thread_id = _monotonic(), _get_ident()
