"""Trouble that comes and goes, logged at the begin and at the end.

Owns:     Incident: whether a failure is news.
Thread:   one at a time; threads with a common object need a lock.
Not here: the lines (connections/limit.py, budgets.py).
"""

from __future__ import annotations

# An incident is over when nothing has happened for this many seconds. Guess.
CALM_SECONDS = 5


class Incident:
    __slots__ = ("_quiet_seconds",)

    def __init__(self) -> None:
        self._quiet_seconds: int | None = None  # None: over

    def begins(self) -> bool:
        """Record trouble; return whether the trouble is news."""
        is_news = self._quiet_seconds is None
        self._quiet_seconds = 0
        return is_news

    def is_over_at_second(self) -> bool:
        """Record a second; return whether the incident has just ended, which is news."""
        if self._quiet_seconds is None:
            return False
        self._quiet_seconds += 1
        if self._quiet_seconds <= CALM_SECONDS:
            return False
        self._quiet_seconds = None
        return True
