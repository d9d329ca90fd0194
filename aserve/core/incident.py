"""Trouble that comes and goes, logged when it begins and when it is over.

Owns:     Episode: whether a failure is news.
Thread:   one at a time; threads that share one need a lock.
Not here: the lines (connections/limit.py, budgets.py).
"""

from __future__ import annotations

# An episode is over when nothing has happened for this many seconds. Guess.
CALM_SECONDS = 5


class Episode:
    """One kind of trouble."""

    __slots__ = ("_quiet_seconds",)

    def __init__(self) -> None:
        self._quiet_seconds: int | None = None  # None: over

    def begins(self) -> bool:
        """Record that the trouble happens; return whether that is news."""
        is_news = self._quiet_seconds is None
        self._quiet_seconds = 0
        return is_news

    def is_over_at_second(self) -> bool:
        """Record that a second has passed; return whether the episode has just ended, which is news."""
        if self._quiet_seconds is None:
            return False
        self._quiet_seconds += 1
        if self._quiet_seconds <= CALM_SECONDS:
            return False
        self._quiet_seconds = None
        return True
