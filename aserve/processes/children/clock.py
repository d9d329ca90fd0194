"""The time while this process runs, and calls to be made at a time.

Owns:     Clock, the measure of all time limits of the supervisor; Timers, a heap of calls.
Thread:   the supervisor's only one.
Not here: the limits, and the consequences (facts.py, fleet/decide.py), waiting until the next call (poller.py).

A stopped process (by a debugger, a freezer, a sleeping machine) does not see the time go by. The children were stopped, too, and could do no work
meanwhile: so the time of the stop counts for no limit. No limit has to be moved: this clock has stood still. The supervisor reads the clock at least
once a second. If a reading comes much later than the reading before, the process was stopped between them.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from typing import Any, Callable

from ..fleet.facts import NEVER

logger = logging.getLogger("aserve")

# The longest wait between two readings, counted in any case: of the looks of each second (../events.py).
TURN_SECONDS = 1.0
# A process with a reading so much later was stopped meanwhile. Guess; a process on a shared CPU is late by less.
STOPPED_SECONDS = 2.0


class Clock:
    """A clock that is never set, and stands still while this process is stopped."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._read_at = monotonic()
        self._left_out_seconds = 0.0

    def __call__(self) -> float:
        """Return the time, in seconds."""
        now = self._monotonic()
        late = now - self._read_at - TURN_SECONDS
        self._read_at = now
        if late >= STOPPED_SECONDS:
            self._left_out_seconds += late
            text = "this process was stopped for %.0f s; that time does not count for time limits of workers"
            logger.warning(text, late)
        return now - self._left_out_seconds


class Timer:
    """A call to be made, unless cancelled."""

    __slots__ = ("_arguments", "_call", "at")

    def __init__(self, at: float, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.at = at
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def cancel(self) -> None:
        """Do not make the call."""
        self._call, self._arguments = None, ()

    def run(self) -> None:
        """Make the call, if neither made nor cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call(*self._arguments)


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
        """Wake the loop after this many seconds, to check for further work."""
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
