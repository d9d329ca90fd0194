"""The work of each worker, in memory that all processes share: requests, exceptions, octets, times, signals.

Owns:     Tallies, the table of all workers and of those that have ended; RequestTally, the row of this process, a reader of ends of requests.
Thread:   a worker's row: any thread of this worker, under a lock; `close` the supervisor's only one.
Not here: the memory (memory.py), showing it (facts.py), who reads ends (__init__.py).

A row belongs to the page of a worker, so two workers in one slot, as during a reload, have two rows. When a worker ends, in whichever way, the
supervisor adds its row to the one of its slot: so the numbers go on, as in uWSGI.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ...connections.shared_memory import pointer_to
from ...core.ends import Ended
from ...core.named_tuple import NamedTuple

WORDS = 8
ROWS = 2048  # Guess: more processes than any site has; those beyond are not counted. Unwritten rows take no memory.
SIZE = 2 * ROWS * WORDS * 8
_PID, _SLOT, _SPAWNED_AT, _REQUESTS, _EXCEPTIONS, _OCTETS, _MICROSECONDS, _SIGNALS = range(WORDS)
_SUMS = (_REQUESTS, _EXCEPTIONS, _OCTETS, _MICROSECONDS, _SIGNALS)
# For native/counts.c, which counts plain requests: places of its own. See counts.h.
_CLASSES, _BODIES, _WAITS, _RUNS = range(0, 20, 2), 20, 21, 23


class TallyRow(NamedTuple):
    """The numbers of a worker."""

    spawned_at: int = 0  # seconds since 1970; 0: not known
    requests: int = 0
    exceptions: int = 0
    octets: int = 0  # of response bodies
    microseconds: int = 0  # from when a thread began a request until its response was out
    signals: int = 0  # runs of their functions

    def plus(self, other: TallyRow) -> TallyRow:
        """Return the sum; the moment is this row's."""
        return TallyRow(self.spawned_at, *(one + more for one, more in zip(self[1:], other[1:])))


class Tallies:
    """The rows of all workers."""

    def __init__(self, octets: Any, offset: int) -> None:
        """`octets`: an mmap, with SIZE octets from `offset` on."""
        self._octets = octets  # kept beside the pointer
        self._words = pointer_to("uint64_t *", octets) + offset // 8

    def begin(self, number: int, slot: int) -> RequestTally:
        """Return the row of this process, by the number of its page; its numbers begin with 0."""
        tally = RequestTally(self._row(min(number, ROWS - 1)), self._octets)
        tally.clear(slot)
        return tally

    def row(self, number: int, pid: int) -> TallyRow:
        """Return the numbers of a process; zeros, if it does not count."""
        words = self._row(number) if number < ROWS else None
        if words is None or words[_PID] != pid:
            return TallyRow()
        return TallyRow(words[_SPAWNED_AT], *(words[place] for place in _SUMS))

    def ended(self, slot: int) -> TallyRow:
        """Return the numbers of the workers of a slot that have ended."""
        words = self._row(ROWS + slot) if slot < ROWS else None
        return TallyRow() if words is None else TallyRow(0, *(words[place] for place in _SUMS))

    def close(self, number: int, pid: int) -> None:
        """Add the row of a worker that has ended to the one of its slot."""
        words = self._row(number) if number < ROWS else None
        if words is None or words[_PID] != pid:
            return
        if words[_SLOT] < ROWS:
            sums = self._row(ROWS + words[_SLOT])
            for place in _SUMS:
                sums[place] += words[place]
        words[_PID] = 0

    def _row(self, number: int) -> Any:
        return self._words + number * WORDS


class RequestTally:
    """The row of this process. It is a Counting (core/ends.py), and a reader of ends."""

    places = tuple(_CLASSES), _BODIES, _WAITS, _RUNS, 0

    def __init__(self, words: Any, memory: Any) -> None:
        """`words`: a pointer into `memory`, which is kept beside it."""
        self._words, self._memory = words, memory
        self._lock = threading.Lock()
        self.thread_seconds = 0.0

    def clear(self, slot: int) -> None:
        """Begin with 0."""
        with self._lock:
            for place in _SUMS:
                self._words[place] = 0
            self._words[_SLOT], self._words[_SPAWNED_AT] = slot, int(time.time())
            self._words[_PID] = os.getpid()  # last: a reader then finds the rest

    def write(self, ended: Sequence[Ended]) -> None:
        """Count requests that have ended."""
        octets, exceptions, seconds, held = 0, 0, 0.0, 0.0
        for each in ended:
            octets += each.size
            exceptions += each.has_app_failed
            if each.began_at:
                seconds += each.ended_at - each.began_at
                held += (each.left_at or each.ended_at) - each.began_at
        self._add(len(ended), exceptions, octets, int(seconds * 1e6))
        self.thread_seconds += held

    def add(self, found: Iterable[tuple[int, int]], seconds: float) -> None:
        """Add counts of native/counts.c: pairs of place and increment."""
        requests = octets = microseconds = 0
        for place, by in found:
            if place < _BODIES:
                requests += by
            elif place == _BODIES:
                octets += by
            elif place == _RUNS + 1:
                microseconds += by
        self._add(requests, 0, octets, microseconds)
        self.thread_seconds += seconds

    def count_signal(self) -> None:
        """Count a run of a signal's function."""
        with self._lock:
            self._words[_SIGNALS] += 1

    def _add(self, *numbers: int) -> None:
        with self._lock:
            for place, by in zip(_SUMS, numbers):
                self._words[place] += by
