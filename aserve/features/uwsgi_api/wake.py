"""What wakes a thread that waits.

Owns:     Wake.
Thread:   any sets; one waits.
Not here: for what it waits (signals.py).

threading.Event has a lock of its own, and a finalizer or a handler of a signal that sets it while its thread is under that lock waits
for itself, for ever. Here each step is one of C's.
"""

from __future__ import annotations

import threading


class Wake:
    """Set, or not; whoever has waited finds it not set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while it is not set
        self._lock.acquire()

    def set(self) -> None:
        """Let the one that waits go on, or the next that would."""
        try:
            self._lock.release()
        except RuntimeError:  # it is set
            pass

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most this long; return whether it was."""
        return self._lock.acquire(timeout=seconds)
