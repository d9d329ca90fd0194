"""Something that comes and goes, told in the log when it begins and when it is over.

Owns:     Episode: whether it is news.
Thread:   one at a time; whoever shares one locks.
Not here: the lines (connections/acceptor.py, budgets.py).
"""

from __future__ import annotations

# For this many seconds it must not have happened, before it is said that it is over. Guess.
CALM_SECONDS = 5


class Episode:
    """One kind of trouble."""

    __slots__ = ("_quiet_seconds",)

    def __init__(self) -> None:
        self._quiet_seconds: int | None = None  # None: it is over

    def begins(self) -> bool:
        """Note that it happens; return whether that is news."""
        is_news = self._quiet_seconds is None
        self._quiet_seconds = 0
        return is_news

    def is_over_at_second(self) -> bool:
        """Note that a second has passed; return whether it has ended by that."""
        if self._quiet_seconds is None:
            return False
        self._quiet_seconds += 1
        if self._quiet_seconds <= CALM_SECONDS:
            return False
        self._quiet_seconds = None
        return True
