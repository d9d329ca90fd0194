"""The time that passes while this process runs.

Owns:     Clock, by which the supervisor measures all time limits.
Thread:   the supervisor's only one.
Not here: the limits, and what follows when one is over (facts.py, fleet.py), calls to be made later (timers.py).

A process that was stopped (by a debugger, a freezer, a machine that sleeps) does not see the time go by. Its children were stopped, too, and could
do nothing meanwhile: so that time counts for no limit. No limit has to be moved for that: this clock has stood still. The supervisor
reads it at least once a second. If one reading comes much later than the one before, the process was stopped between them.
"""

from __future__ import annotations

import logging
import time
from typing import Callable

logger = logging.getLogger("aserve")

# The longest wait between two readings, of which the time counts in any case: of the checks of each second (reactions.py).
TURN_SECONDS = 1.0
# A process that reads its clock so much later was stopped meanwhile. Guess; one that only shares its CPU is late by less.
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

    def seconds_to(self, at: float) -> float:
        """Return the seconds until this time; 0: it has come."""
        return max(at - self(), 0.0)
