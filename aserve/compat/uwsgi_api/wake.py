"""Wakes a waiting thread, safely from finalizers and signal handlers.

Owns:     Wake.
Thread:   any sets; one waits.
Not here: the waiting thread (signals.py).

threading.Event has a lock of its own: a finalizer or a signal handler that sets it while its own thread holds that lock would wait for
ever. Here each step is one call into C.
"""

from __future__ import annotations

import threading


class Wake:
    """A flag that is set or not; the end of a wait clears it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while the flag is not set
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once."""
        try:
            self._lock.release()
        except RuntimeError:  # already set
            pass

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, at most `seconds`; return whether it was."""
        return self._lock.acquire(timeout=seconds)
