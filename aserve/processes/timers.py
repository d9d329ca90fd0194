"""Calls to be made later.

Owns:     Timers, a heap of them.
Thread:   the supervisor's only one.
Not here: waiting until then (events.py).

A process that was stopped (by a debugger, a freezer, a machine that sleeps) finds many calls overdue when it goes on. Its children
were stopped, too, and could do nothing in that time: so it does not count. All calls are made later by as much.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from typing import Any, Callable

logger = logging.getLogger("aserve")

# A process that wakes up this late was stopped meanwhile. Guess; one that only shares its CPU is late by less.
STOPPED_SECONDS = 2.0


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
    """Calls to be made later, by a clock that is never set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()  # of two at the same time the earlier comes first

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Make this call after this many seconds, in `run_due`."""
        timer = Timer(self._clock() + seconds, call, arguments)
        heapq.heappush(self._heap, (timer.at, next(self._numbers), timer))
        return timer

    def wake_after(self, seconds: float) -> None:
        """Wake the loop after this many seconds, to check for other work."""
        self.after(seconds, lambda: None)

    def seconds_to_next(self) -> float | None:
        """Return the seconds until the next call; None: there is none."""
        return max(self._heap[0][0] - self._clock(), 0.0) if self._heap else None

    def pop_due(self) -> list[Timer]:
        """Return the timers whose time has come, in their order; the caller runs each."""
        due, now = [], self._clock()
        self._leave_out_stop(now)
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def _leave_out_stop(self, now: float) -> None:
        late = now - self._heap[0][0] if self._heap else 0.0
        if late < STOPPED_SECONDS:
            return
        logger.warning("this process was stopped for %.0f s; that time does not count for time limits of workers", late)
        for _, _, timer in self._heap:
            timer.at += late
        self._heap = [(timer.at, number, timer) for _, number, timer in self._heap]  # in the same order
