"""How much of a CPU the process burns.

Owns:     CpuMeter.
Thread:   one at a time; whoever has it sees to that.
Not here: what follows from it (executor.py, time_slices.py).
"""

from __future__ import annotations

import sys
import time

# The shortest time over which to judge: a look costs two calls of the kernel's clocks. Guess.
WINDOW_SECONDS = 0.001
# The share of one CPU from which the process counts as busy.
BUSY_SHARE = 0.8

HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class CpuMeter:
    """
    Whether the process has used most of a CPU lately: then the GIL is what is missing, not threads.

    Without a GIL it never counts as busy.
    """

    def __init__(self) -> None:
        self._cpu_seconds = self._seconds = 0.0  # at the last look
        self.is_busy = False  # as the last look has found

    def look(self) -> bool:
        """Judge the time since the last look, unless it is too short; return `is_busy`."""
        now = time.perf_counter()
        elapsed = now - self._seconds
        if elapsed >= WINDOW_SECONDS:
            cpu_seconds = time.process_time()
            self.is_busy = HAS_GIL and (cpu_seconds - self._cpu_seconds) >= BUSY_SHARE * elapsed
            self._cpu_seconds, self._seconds = cpu_seconds, now
        return self.is_busy
