"""How many threads are busy, as a mean of the last ten seconds.

Owns:     Busy: the seconds of all threads together in requests, and the mean.
Thread:   event loop only; pure.
Not here: the time of each ended request (features/metrics/counting.py), of running ones (connections/monitoring/statistics.py), the calls (executor.py).

A sample at one moment is no measure: in a half busy process the sample may be any number, and the event loop samples with the GIL, so while nothing
else computes. With --metrics each request's time in a thread is known anyway, and `seconds` is the sum. Without, `seconds` is the mean of a sample
each second. Measured 2026-11-25, CPython 3.11, 16 threads, on a busy machine; the sum, and the mean of fifty samples: 0.8 and 0.4 (32 connections,
hello), 8.4 and 6.8 (an app with a sleep of 0.5 ms), 15.8 and 16.0 (5 ms), 9.2 and 10.1 (an app that computes for 0.2 ms). The load board, read by
another process, had 11.3 for the first: the board counts requests that have come, not those begun by a thread.
"""

from __future__ import annotations

import collections

SECONDS = 10


class Busy:
    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._looks: collections.deque[tuple[float, float]] = collections.deque(maxlen=SECONDS + 1)  # when, `seconds`
        self._compensated_seconds = 0.0
        self.seconds = 0.0  # spent in requests by threads in a slot of --threads, in all; never falls

    def look(self, now: float, busy: int, compensated: int, counted_seconds: float | None = None) -> None:
        """
        Record the count of busy and of compensated threads; called once a second.

        `counted_seconds`: seconds of threads in requests, running ones included; None: not known.
        """
        elapsed = now - self._looks[-1][0] if self._looks else 0.0
        self._compensated_seconds += compensated * elapsed  # other threads have the slots: not counted
        if counted_seconds is None:
            self.seconds += busy * elapsed
        else:
            self.seconds = max(self.seconds, counted_seconds - self._compensated_seconds)
        self._looks.append((now, self.seconds))

    @property
    def mean(self) -> float:
        """Mean number of busy threads in the last ten seconds; before the start 0."""
        if not self._looks:
            return 0.0
        (began_at, before), (now, seconds) = self._looks[0], self._looks[-1]
        return min((seconds - before) / max(now - began_at, SECONDS), self._threads)
