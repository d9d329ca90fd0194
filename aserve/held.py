"""How much of large bodies waits in memory.

Owns:     HeldBytes: the count, for all connections of a server together.
Thread:   any, under one lock.
Not here: what becomes of a body for which there is no room (outgoing.py), the limit's value (config.py).
"""

from __future__ import annotations

import threading


class HeldBytes:
    """Octets that are held; more than `limit_bytes` only by force."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self.count = 0

    def take(self, count: int, is_forced: bool = False) -> bool:
        """Count so many more, if there is room for them; False: there is none."""
        with self._lock:
            if self.count + count > self._limit_bytes and not is_forced:
                return False
            self.count += count
            return True

    def give_back(self, count: int) -> None:
        """So many are held no longer."""
        with self._lock:
            self.count -= count
