"""Calls to be made later.

Owns:     Timers, a heap of them.
Thread:   the supervisor's only one.
Not here: waiting until then (events.py), the clock (clock.py), time limits of workers, which are facts (facts.py).
"""

from __future__ import annotations

import heapq
import itertools
from typing import Any, Callable

from .facts import NEVER


class Timer:
    """A call that will be made, unless it is cancelled."""

    __slots__ = ("_arguments", "_call", "at")

    def __init__(self, at: float, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.at = at
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def cancel(self) -> None:
        """Do not make the call."""
        self._call, self._arguments = None, ()

    def run(self) -> None:
        """Make the call, if it was neither made nor cancelled."""
        call, arguments = self._call, self._arguments
        self.cancel()
        if call is not None:
            call(*arguments)


class Timers:
    """Calls to be made later, by this clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()  # of two at the same time the earlier comes first

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Make this call after this many seconds; see `pop_due`."""
        timer = Timer(self._clock() + seconds, call, arguments)
        heapq.heappush(self._heap, (timer.at, next(self._numbers), timer))
        return timer

    def wake_after(self, seconds: float) -> None:
        """Wake the loop after this many seconds, to check for other work."""
        self.after(seconds, lambda: None)

    @property
    def next_at(self) -> float:
        """The time of the next call; NEVER: there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def seconds_to(self, timer: Timer) -> float:
        """Return the seconds until this call."""
        return max(timer.at - self._clock(), 0.0)

    def pop_due(self) -> list[Timer]:
        """Return the timers whose time has come, in their order; the caller runs each."""
        due, now = [], self._clock()
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due
