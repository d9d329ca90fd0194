"""For how long the first job of a queue has waited, and whether the queue moves, at no cost to the jobs.

Owns:     QueueWait: now and then it marks the last job of the queue with the time. While a marked job waits, so do
          those before it, and all of them have waited since then or longer.
Thread:   event loop only; workers change the queue meanwhile.
Not here: the queue (executor.py), and the users: a health check for the wait (connections/service.py), systemd's
          watchdog for a queue that stands still (server/running.py), the log (connections/stalls.py).

A time in each job would be exact, but each request would pay for reading the clock. The two measures differ under
load: jobs may wait long while workers begin one after another, and a restart would not help then.
"""

from __future__ import annotations

import collections
import itertools
from typing import Any, Callable

# A stall of this length is logged. Guess: a stall that is over before an operator reads the line needs no warning.
LONG_STALL_SECONDS = 10
# The most overdue jobs to return each second, the oldest first. Guess: to check their sockets takes 10 ms.
MAX_OVERDUE = 4096


class QueueWait:
    """How long jobs wait in a first-in first-out queue."""

    def __init__(self, jobs: collections.deque[Any], clock: Callable[[], float]) -> None:
        """`clock`: the time in seconds; it never goes back."""
        self._jobs, self._clock = jobs, clock
        self._marks: collections.deque[tuple[float, Any]] = collections.deque()  # time and job, in the queue's order
        self._first: Any = None  # the first job a second ago
        self._last: Any = None  # the last job a second ago
        self.overdue: list[Any] = []  # the oldest of the jobs that had waited for a second at the last `on_second`
        self.stalled_seconds = 0  # how long the same job has been the first; 0: none waits, or they move

    def seconds(self) -> float:
        """Return for how many seconds the first job has waited, or less: by at most the time between two looks."""
        return self._look(self._jobs.copy())

    def on_second(self) -> None:
        """Mark the last job with the time, and check whether the first job is still the same; called once a second."""
        jobs = self._jobs.copy()
        self._look(jobs)
        first = jobs[0] if jobs else None
        self.stalled_seconds = self.stalled_seconds + 1 if first is not None and first is self._first else 0
        self._first = first
        self.overdue = self._take_overdue(jobs)
        self._last = jobs[-1] if jobs else None

    def _take_overdue(self, jobs: collections.deque[Any]) -> list[Any]:
        """Return the jobs up to the one that was the last a second ago; none, if that one has been begun."""
        if self._last is None or self._last not in jobs:
            return []
        return list(itertools.islice(jobs, min(jobs.index(self._last) + 1, MAX_OVERDUE)))

    def _look(self, jobs: collections.deque[Any]) -> float:
        marks, now = self._marks, self._clock()
        while marks and marks[0][1] not in jobs:
            marks.popleft()  # a worker has begun it
        if jobs and not (marks and marks[-1][1] is jobs[-1]):
            marks.append((now, jobs[-1]))
        return now - marks[0][0] if marks else 0.0
