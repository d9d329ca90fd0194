"""How many threads are busy, as a mean of the last ten seconds.

Owns:     Busy: for how long threads have been with requests, all of them together, and the mean.
Thread:   event loop only; pure.
Not here: the time of each request that has ended (features/metrics/counting.py), of those under way (connections/statistics.py), of a look (executor.py).

A look at one moment is no measure: it sees anything of a process that is half busy, and the event loop looks when it has the GIL, so when
nothing else computes. With --metrics each request's time with its thread is known anyway, and this is the sum of them. Without, it is the
mean of a look each second. Measured 2026-11-25, CPython 3.11, 16 threads, beside others; the sum, and the mean of fifty looks: 0.8 and 0.4 (32
connections, hello), 8.4 and 6.8 (an app that sleeps for 0.5 ms), 15.8 and 16.0 (5 ms), 9.2 and 10.1 (one that computes for 0.2 ms). The
load board, read by another process, had 11.3 for the first: it knows what has come, and not what a thread has begun.
"""

from __future__ import annotations

import collections

SECONDS = 10


class Busy:
    """The threads of one process."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._looks: collections.deque[tuple[float, float]] = collections.deque(maxlen=SECONDS + 1)  # when, `seconds`
        self._compensated_seconds = 0.0
        self.seconds = 0.0  # that threads in a slot of --threads have been with requests, in all; it never falls

    def look(self, now: float, busy: int, compensated: int, counted_seconds: float | None = None) -> None:
        """
        Called once a second: note how many threads are busy and how many compensated.

        `counted_seconds`: for how long threads have been with requests, those under way included; None: that is not known.
        """
        elapsed = now - self._looks[-1][0] if self._looks else 0.0
        self._compensated_seconds += compensated * elapsed  # their slots are others': they do not count
        if counted_seconds is None:
            self.seconds += busy * elapsed
        else:
            self.seconds = max(self.seconds, counted_seconds - self._compensated_seconds)
        self._looks.append((now, self.seconds))

    @property
    def mean(self) -> float:
        """How many were busy in the last ten seconds; before the start none was."""
        if not self._looks:
            return 0.0
        (began_at, before), (now, seconds) = self._looks[0], self._looks[-1]
        return min((seconds - before) / max(now - began_at, SECONDS), self._threads)
