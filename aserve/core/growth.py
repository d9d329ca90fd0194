"""Whether the memory of a process grows and grows, as that of an app that leaks.

Owns:     Growth: the least of each ten minutes, and what is concluded from four of them; Growths, a look at each process once a minute.
Thread:   that of its owner.
Not here: what a process takes (core/footprint.py), what is said (lifecycle/advice.py).

A process that serves takes more in a busy minute, and gives it back. So it is the least of ten minutes that counts: if that rises from each
ten minutes to the next, four times, something is kept. The first ten minutes, in which caches fill, do not count.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

from .footprint import Memory, memory_of
from .page import Process

SAMPLE_SECONDS = 60
SAMPLES = 10  # of one span
SPANS = 4
# Less growth is no leak, or none that is urgent. Guesses.
LEAST_STEP_SHARE = 0.01  # from one span to the next
LEAST_SHARE = 0.2  # from the first to the last
LEAST_BYTES = 32 << 20


class Growth:
    """That of one process."""

    def __init__(self) -> None:
        self._samples: list[int] = []  # of the span that is not over
        self._least: collections.deque[int] = collections.deque(maxlen=SPANS)
        self._is_warm = False

    def add(self, memory: Memory | None) -> None:
        """Called every SAMPLE_SECONDS with what it takes; None: that is not known."""
        if memory is None:
            return
        self._samples.append(memory.rss_bytes)
        if len(self._samples) == SAMPLES:
            if self._is_warm:
                self._least.append(min(self._samples))
            self._is_warm, self._samples = True, []

    def describe(self) -> dict[str, int] | None:
        """Return from how much to how much it has grown, in how many minutes; None: it does not grow, or not for so long."""
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
    """Those of several processes."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, int], Growth] = {}

    def look(self, processes: Iterable[Process]) -> None:
        """Called every SAMPLE_SECONDS with all that serve: see what each takes, and forget the others."""
        before, self._by_key = self._by_key, {}
        for process in processes:
            growth = self._by_key[process.key] = before.get(process.key) or Growth()
            growth.add(memory_of(process.pid))

    def describe(self, process: Process) -> dict[str, int] | None:
        """See Growth.describe."""
        growth = self._by_key.get(process.key)
        return growth.describe() if growth is not None else None
