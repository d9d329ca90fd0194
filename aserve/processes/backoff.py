"""How long to wait before another try.

Owns:     Backoff: the delays of one slot, doubled with each failure.
Thread:   the supervisor's only one; pure.
Not here: what is tried (supervisor.py).
"""

from __future__ import annotations

FIRST_SECONDS = 0.1
# After what has begun well, and failed later. Not 0: what ends all children at once (the stop of a unit) is to be seen whole. Guess.
SHORT_SECONDS = 0.01
MAX_SECONDS = 30.0
# A worker that has served for this long did not fail at once: its end is the first failure again. Guess.
CALM_SECONDS = 30.0


class Backoff:
    """Failures in a row, and when the next try is due."""

    def __init__(self) -> None:
        self.due_at = 0.0  # on the caller's clock
        self.seconds = 0.0  # the last delay; 0: there was no failure, or it is forgotten

    def fail(self, now: float) -> float:
        """Note a failure; return for how many seconds there is to be no try."""
        return self._wait(now, min(max(self.seconds * 2, FIRST_SECONDS), MAX_SECONDS))

    def fail_later(self, now: float) -> float:
        """The same of what has begun well, and failed later: the first delay is short, if nothing has failed before."""
        return self.fail(now) if self.seconds else self._wait(now, SHORT_SECONDS)

    def _wait(self, now: float, seconds: float) -> float:
        self.due_at, self.seconds = now + seconds, seconds
        return seconds

    def succeed(self, served_seconds: float) -> None:
        """Note that what was started has served for so long."""
        if served_seconds >= CALM_SECONDS:
            self.reset()

    def reset(self) -> None:
        """Forget all failures: whatever was wrong may have been repaired."""
        self.due_at = self.seconds = 0.0
