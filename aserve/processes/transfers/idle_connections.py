"""Giving idle connections away: a serving worker gives some connections away as they become idle.

Owns:     Shedding, the present order of the supervisor until the end of the order, or the next order.
Thread:   event loop only.
Not here: how many (levelling.py), detaching connections (connections/drain/detaching.py), a draining worker (passing.py).

Under load a connection idles only for the moment between a response and the next request, so a single look finds few idle connections.
"""

from __future__ import annotations

import asyncio
from typing import Callable

# How often to look, and how many times: for less than the second until the next order. Guesses.
LOOK_SECONDS, MAX_LOOKS = 0.01, 80
# How long orders are ignored after an order without an idle connection, as connections in TLS stay; twice as long each time. Guesses.
FRUITLESS_SECONDS, MAX_FRUITLESS_SECONDS = 1.0, 64.0


class Shedding:
    """The order of a worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, give: Callable[[int], int]) -> None:
        """`give` lets go of so many connections at most, and returns the number."""
        self._loop = loop
        self._give = give
        self._timer: asyncio.TimerHandle | None = None  # during an order
        self._begins_at, self._pause_seconds = 0.0, FRUITLESS_SECONDS

    def begin(self, count: int) -> None:
        """Give so many connections away, as far as they idle before the next order; this order ends the last order."""
        self.stop()
        if self._loop.time() >= self._begins_at:
            self._look(count, 0, MAX_LOOKS)

    def stop(self) -> None:
        """Give no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, count: int, given_count: int, looks: int) -> None:
        self._timer = None
        given_count += self._give(count - given_count)
        if given_count < count and looks > 1:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look, count, given_count, looks - 1)
        elif given_count:
            self._pause_seconds = FRUITLESS_SECONDS
        else:
            self._begins_at = self._loop.time() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, MAX_FRUITLESS_SECONDS)
