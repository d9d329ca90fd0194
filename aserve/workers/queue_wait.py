"""The wait of jobs in a queue, and the standstill of the queue, at almost no cost to the jobs.

Owns:     QueueWait: since when each job is known to wait, from a look at the queue each second; the seconds without a begun job.
Thread:   event loop only; workers change the queue meanwhile.
Not here: the queue (executor.py), and the users: a health check for the wait (connections/service.py), systemd's watchdog for a queue at a
          standstill (server/running.py), the log (connections/monitoring/stalls.py).

A time in each job would be exact, but each request would pay for reading the clock. The two measures differ under load: jobs may wait long while
workers begin one after another, and a restart would not help then.

A job is taken out of the queue when the client leaves (connections/lane/disconnects.py), and is begun by no worker: the queue stands still all the
same.
"""

from __future__ import annotations

import collections
import itertools
from typing import Any, Callable

# A stall of this length is logged; and a stall is over when no job has waited for so long, with or without a free worker by then. Guess: a stall
# over before an operator reads the line needs no warning, and clients that give up come again sooner.
LONG_STALL_SECONDS = 10
# The most overdue jobs to return each second, the oldest first. Guess: to check their sockets takes 10 ms.
MAX_OVERDUE = 4096


class QueueWait:
    """How long jobs wait in a first-in first-out queue."""

    def __init__(
        self, jobs: collections.deque[Any], clock: Callable[[], float], begun_count: Callable[[], int]
    ) -> None:
        """`clock`: the time in seconds, never going back. `begun_count`: a number that changes at each begin of a job."""
        self._jobs, self._clock, self._begun_count = jobs, clock, begun_count
        # The jobs of the last look, by identity: since when each is known to wait, and the job, so that no other gets the same identity.
        self._known: dict[int, tuple[float, Any]] = {}
        self._second_at = float("-inf")  # when `on_second` was last called
        self._begun_before = 0  # `begun_count` then
        self._quiet_seconds = 0  # for how long no job has been overdue
        self.overdue: list[Any] = []  # the oldest of the jobs with a wait of a second at the last `on_second`
        self.stalled_seconds = 0  # the wait of jobs while none was begun; 0: no job waits, or jobs are begun

    def seconds(self) -> float:
        """Return for how many seconds the first job has waited, or less: by at most the time between two looks."""
        return self._look(self._jobs.copy())

    @property
    def is_quiet(self) -> bool:
        """Whether no job has been overdue for as long as a stall."""
        return self._quiet_seconds >= LONG_STALL_SECONDS

    def on_second(self) -> None:
        """Look at the waiting jobs, and for a begun one; called once a second."""
        jobs, begun_count = self._jobs.copy(), self._begun_count()
        self._look(jobs)
        overdue = (job for job in jobs if self._known[id(job)][0] <= self._second_at)
        self.overdue = list(itertools.islice(overdue, MAX_OVERDUE))
        self._quiet_seconds = 0 if self.overdue else self._quiet_seconds + 1
        if begun_count != self._begun_before or self.is_quiet:
            self.stalled_seconds = 0
        elif self.overdue or self.stalled_seconds:
            self.stalled_seconds += 1
        self._begun_before, self._second_at = begun_count, self._clock()

    def _look(self, jobs: collections.deque[Any]) -> float:
        now = self._clock()
        self._known = {id(job): self._known.get(id(job)) or (now, job) for job in jobs}
        return now - min((since for since, _ in self._known.values()), default=now)
