"""The time at which a worker begins a request; the wait is computed from it.

Owns:     Timing.
Thread:   a worker (with --threads 0: the event loop).
Not here: the request's arrival (connections/lane/lane.py, connections/loop/wire_loop.py), and the end (connections/connection.py).

A gateway has this step only if `Service.times_requests` is true.
"""

from __future__ import annotations

import threading
import time

from ..core.exchange import Exchange
from .gateway import Before

_monotonic, _get_ident = time.monotonic, threading.get_ident


class Timing(Before):
    """Records the time in each exchange."""

    __slots__ = ()
    is_done_in_c = True

    def before(self, exchange: Exchange) -> None:
        """Record the time of the beginning, and the thread."""
        exchange.began_at, exchange.thread_id = _monotonic(), _get_ident()
