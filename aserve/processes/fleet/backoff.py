"""How long to wait before another try.

Owns:     Backoff: the delays of one slot, doubled with each failure.
Thread:   the supervisor's only one; pure.
Not here: the tries (supervisor.py).
"""

from __future__ import annotations

FIRST_SECONDS = 0.1
# The delay after a failure long after a good start. Not 0: if all children end at once (the stop of a unit), all ends are to be seen. Guess.
SHORT_SECONDS = 0.01
MAX_SECONDS = 30.0
# A worker that has served for this long did not fail at once: the end counts as the first failure again. Guess.
CALM_SECONDS = 30.0


class Backoff:
    """Failures in a row, and when the next try is due."""

    def __init__(self) -> None:
        self.due_at = 0.0  # on the caller's clock
        self.seconds = 0.0  # the last delay; 0: no failure, or a forgotten failure

    def fail(self, now: float) -> float:
        """Record a failure; return how many seconds to wait before the next try."""
        return self._wait(now, min(max(self.seconds * 2, FIRST_SECONDS), MAX_SECONDS))

    def fail_later(self, now: float) -> float:
        """Record a failure after a good start: the first delay is short, if there was no failure before."""
        return self.fail(now) if self.seconds else self._wait(now, SHORT_SECONDS)

    def _wait(self, now: float, seconds: float) -> float:
        self.due_at, self.seconds = now + seconds, seconds
        return seconds

    def succeed(self, served_seconds: float) -> None:
        """Record for how long the process has served."""
        if served_seconds >= CALM_SECONDS:
            self.reset()

    def reset(self) -> None:
        """Forget all failures: their cause may have been repaired."""
        self.due_at = self.seconds = 0.0
