"""The speed of a client, in windows of time.

Owns:     DataRate: whether octets come, or go, at the minimum rate; why_overdue: the same for a request body.
Thread:   event loop only.
Not here: counting the octets, and closing a slow client's connection (timeouts.py, lane.py).

Measured from the beginning, a client once fast could stop for days; measured each second, a short pause would cost the connection. So the rate is
the mean of a window, and then of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.body import RequestBody
    from ..settings import EngineSettings

HEAD_TOO_LATE = "the request head did not come in time (--head-timeout)"
BODY_TOO_LATE = "the request body did not come in time (--body-timeout)"
TOO_SLOW = "the request body came more slowly than --min-rate"


class DataRate:
    """The rate of one transfer at a time: of a request body, or to a reader."""

    __slots__ = ("_done_bytes", "_of", "_seconds")

    def __init__(self) -> None:
        self._of: object = None

    def is_slow(self, of: object, done_bytes: int, window_seconds: float, min_rate_bytes: int) -> bool:
        """
        Return whether a window has ended with the client too slow; called once a second, in the client's turn.

        `done_bytes` only grows, as long as `of` is the same object.
        """
        if of is not self._of:
            # Less than a second has passed: the window begins with the next.
            self._of, self._seconds, self._done_bytes = of, 0, done_bytes
            return False
        self._seconds += 1
        if self._seconds <= window_seconds:
            return False
        is_slow = done_bytes - self._done_bytes < min_rate_bytes * self._seconds
        self._seconds, self._done_bytes = 0, done_bytes
        return is_slow


def why_overdue(body: RequestBody, rate: DataRate, quiet_seconds: float, config: EngineSettings) -> str:
    """Return, once a second, why a request body in arrival is refused; "": in time."""
    if quiet_seconds > config.body_seconds:
        return BODY_TOO_LATE
    if rate.is_slow(body, body.length, config.body_seconds, config.min_rate_bytes):
        return TOO_SLOW
    return ""
