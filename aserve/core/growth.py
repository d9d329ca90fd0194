"""Whether the memory of a process grows without end, as with a leak in the app.

Owns:     Growth: the least of each ten minutes, and the conclusion from four of them; Growths, a sample of each process once a minute.
Thread:   the owner's.
Not here: the memory of a process (core/footprint.py), the text (lifecycle/advice.py).

A serving process takes more in a busy minute, and gives the memory back. So the least of ten minutes counts: a rise from each ten minutes to the
next, four times, is memory kept. The first ten minutes, in which caches fill, do not count.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

from .footprint import Memory, memory_of
from .page import Process

SAMPLE_SECONDS = 60
SAMPLES = 10  # of one span
SPANS = 4
# Less growth is no leak, or no urgent leak. Guesses.
LEAST_STEP_SHARE = 0.01  # from one span to the next
LEAST_SHARE = 0.2  # from the first to the last
LEAST_BYTES = 32 << 20


class Growth:
    """The growth of one process."""

    def __init__(self) -> None:
        self._samples: list[int] = []  # of the present span
        self._least: collections.deque[int] = collections.deque(maxlen=SPANS)
        self._is_warm = False

    def add(self, memory: Memory | None) -> None:
        """Add the present memory, None: not known; called every SAMPLE_SECONDS."""
        if memory is None:
            return
        self._samples.append(memory.rss_bytes)
        if len(self._samples) == SAMPLES:
            if self._is_warm:
                self._least.append(min(self._samples))
            self._is_warm, self._samples = True, []

    def describe(self) -> dict[str, int] | None:
        """Return the start and the end of the growth, and the minutes; None: no growth, or not for so long."""
        least = list(self._least)
        if len(least) < SPANS or any(
            after < before * (1 + LEAST_STEP_SHARE) for before, after in zip(least, least[1:])
        ):
            return None
        first, last = least[0], least[-1]
        if last - first < max(LEAST_SHARE * first, LEAST_BYTES):
            return None
        return {"from_bytes": first, "to_bytes": last, "minutes": SPANS * SAMPLES * SAMPLE_SECONDS // 60}


class Growths:
    """The growth of several processes."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, int], Growth] = {}

    def look(self, processes: Iterable[Process]) -> None:
        """Measure all serving processes, and forget ended ones; called every SAMPLE_SECONDS."""
        before, self._by_key = self._by_key, {}
        for process in processes:
            growth = self._by_key[process.key] = before.get(process.key) or Growth()
            growth.add(memory_of(process.pid))

    def describe(self, process: Process) -> dict[str, int] | None:
        """See Growth.describe."""
        growth = self._by_key.get(process.key)
        return growth.describe() if growth is not None else None
