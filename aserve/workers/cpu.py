"""The CPU time of the process.

Owns:     CpuMeter; whether a thread is ready to run.
Thread:   one at a time: the executor measures on the event loop, TimeSlices under its lock.
Not here: decisions by it (executor.py, time_slices.py).
"""

from __future__ import annotations

import sys
import time

# The shortest time for a judgement: to measure costs two system calls. Guess.
WINDOW_SECONDS = 0.001
# From this share of one CPU the process counts as busy.
BUSY_SHARE = 0.8

HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def is_ready(number: int) -> bool:
    """
    Return whether a thread of this process runs, or would on a free CPU; False: asleep, or unknown on this system.

    `number` is the system's (threading.get_native_id). The cost is about three system calls.
    """
    try:
        with open(f"/proc/self/task/{number}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return False
    return text.rpartition(b") ")[2][:1] == b"R"  # proc(5): the state is behind the name


class CpuMeter:
    """
    Measures whether the process has used most of a CPU lately. Such a process lacks the GIL, not threads.

    Without a GIL a process never counts as busy.
    """

    def __init__(self) -> None:
        self._cpu_seconds = self._seconds = 0.0  # when last measured
        self.is_busy = False  # as last measured

    def measure(self) -> bool:
        """Update `is_busy` from the time since the last call, unless too short; return `is_busy`."""
        now = time.perf_counter()
        elapsed = now - self._seconds
        if elapsed >= WINDOW_SECONDS:
            cpu_seconds = time.process_time()
            self.is_busy = HAS_GIL and (cpu_seconds - self._cpu_seconds) >= BUSY_SHARE * elapsed
            self._cpu_seconds, self._seconds = cpu_seconds, now
        return self.is_busy
