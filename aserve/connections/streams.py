"""Responses in pieces: a request with a moving response is not slow.

Owns:     note_stream.
Thread:   event loop only.
Not here: reports of slow requests (features/slow_requests/watch.py, lifecycle/advice.py); the speed of a client (data_rate.py).
"""

from __future__ import annotations

import time

from ..core.exchange import Exchange
from .in_flight import InFlight


def note_stream(exchange: Exchange, in_flight: InFlight | None) -> None:
    """
    Record whether the response of an exchange has grown since the last call, for reports of long requests.

    An event stream waits for events: an open stream counts as growing.
    """
    response = exchange.response
    if response is None or not response.head_is_out or response.is_full:
        return
    if response.sent_bytes != exchange.seen_bytes or response.is_event_stream:
        exchange.seen_bytes, exchange.grew_at = response.sent_bytes, time.monotonic()
        if in_flight is not None:
            in_flight.refresh(exchange)
