"""Giving connections away: a worker that serves on gives some to others as they become idle.

Owns:     Shedding, the order of the supervisor until it is carried out, or replaced by the next one.
Thread:   event loop only.
Not here: how many (levelling.py), detaching connections (connections/drain/detaching.py), a worker that drains and gives all of them (passing.py).

Under load a connection idles only for the moment between a response and the next request, so one look finds few of them.
"""

from __future__ import annotations

import asyncio
from typing import Callable

# How often to look, and how many times: for less than the second until the next order. Guesses.
LOOK_SECONDS, MAX_LOOKS = 0.01, 80
# How long orders are ignored after one that found no idle connection, as connections in TLS stay; twice as long each time. Guesses.
FRUITLESS_SECONDS, MAX_FRUITLESS_SECONDS = 1.0, 64.0


class Shedding:
    """The order of one worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, give: Callable[[int], int]) -> None:
        """`give` lets go of that number of connections at most, and returns how many they were."""
        self._loop = loop
        self._give = give
        self._timer: asyncio.TimerHandle | None = None  # while it looks
        self._begins_at, self._pause_seconds = 0.0, FRUITLESS_SECONDS

    def begin(self, count: int) -> None:
        """Give that number away, as far as they idle before the next order; this one takes the place of the last."""
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
