"""The clocks of the event loop's wire: the quiet time, and the speed of the client.

Owns:     Progress: the limits for a head, a body, a reader, between requests and at the end; the return of a connection to the fast path.
Thread:   event loop only, except `move` and `stay_on_loop`: docs/threads.md, B.
Spec:     RFC 9110 section 15.5.9 (408); RFC 9112 sections 9.5 and 9.6.
Not here: closing a late client's connection, and the choice of the clock (timeouts.py); the rate itself (data_rate.py); the time of the app
          (wsgi/deadlines.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .data_rate import BODY_TOO_LATE, HEAD_TOO_LATE, DataRate, why_overdue

if TYPE_CHECKING:
    from ..core.body import RequestBody
    from ..settings import EngineSettings

# RFC 9112 9.6: after the last response, read on for a while, or a reset could destroy the response on the way. A client that sends the whole body
# before reading gets longer, or nginx would answer 502 instead of our 413; nginx itself reads on for 30 s (lingering_time).
LINGER_SECONDS = 2.0  # without an octet
LINGER_WHOLE_SECONDS = 30.0
# The most octets to read and drop then. Guess.
LINGER_BYTES = 1 << 26
# While draining, the time of a new client for the first request. Guess.
ARRIVING_SECONDS = 2.0


def first_seconds(config: EngineSettings, is_draining: bool, has_begun: bool) -> float:
    """Return the time of a client for the octets in front of the wire; `has_begun`: some have come."""
    return ARRIVING_SECONDS if is_draining and not has_begun else config.head_seconds


# After so many seconds without a request for the event loop, a connection goes back to the fast path. A guess, between two costs measured
# 2026-11-22 with 10 and 100 connections: where one request in 100 needs the loop, going back after 4, 10 or 20 others gave 0.74 to 0.86 of the
# requests per CPU second; where none does, the fast path gives 1.78 and 1.05 times the loop's.
RETURN_SECONDS = 5.0


class Progress:
    """The clocks of one wire; `tick` is called once a second, then the method of the running clock."""

    __slots__ = (
        "_config", "_data_rate", "_lingered_bytes", "_lingered_seconds", "_read_bytes", "plain_seconds", "quiet_seconds",
    )  # fmt: skip

    def __init__(self, config: EngineSettings) -> None:
        self._config = config
        self.quiet_seconds = 0.0  # since the client's last progress
        self.plain_seconds = 0.0  # since the last exchange beyond the fast path
        self._data_rate: DataRate | None = None  # of a body or a response, from the first second on
        self._read_bytes = 0  # by the client, while behind
        self._lingered_seconds = 0.0
        self._lingered_bytes = 0

    def move(self) -> None:
        """
        Record progress of the client, or the begin of the client's turn.

        At a request's begin and end, the wire and the inbox do the same without this call: two calls are a hundredth of a request's instructions.
        """
        self.quiet_seconds = 0.0

    def stay_on_loop(self) -> None:
        """Restart the time until the return to the fast path, after an exchange beyond that path."""
        self.plain_seconds = 0.0

    def tick(self) -> None:
        """Let a second pass."""
        self.quiet_seconds += 1.0
        self.plain_seconds += 1.0

    def rest(self) -> None:
        """Stop the clocks of the client: the app has a turn."""
        self.quiet_seconds = 0.0
        self._data_rate = None

    def has_idled(self, is_new: bool, is_draining: bool) -> bool:
        """Return whether a client has sent no request for too long; `is_new`: no request so far."""
        limit = self._config.head_seconds if is_new else self._config.keep_alive_seconds
        return self.quiet_seconds > (ARRIVING_SECONDS if is_draining else limit)

    def why_late_head(self) -> str:
        """Return why a head in arrival is refused; "": in time."""
        return HEAD_TOO_LATE if self.quiet_seconds > self._config.head_seconds else ""

    def why_late_body(self, body: RequestBody | None) -> str:
        """Return why a body in arrival is refused; "": in time. `body` None: the rate is not checked."""
        if body is None:
            return BODY_TOO_LATE if self.quiet_seconds > self._config.body_seconds else ""
        rate = self._data_rate = self._data_rate or DataRate()
        return why_overdue(body, rate, self.quiet_seconds, self._config)

    def why_slow_reader(self, of: object, read_bytes: int) -> str:
        """Return why a client that is behind is cut off, given the octets read in a second; "": no reason. `of`: see DataRate."""
        config = self._config
        self._read_bytes += read_bytes
        if read_bytes:
            self.quiet_seconds = 0.0  # slow, but the client reads
        if self.quiet_seconds > config.write_seconds:
            return "the client did not read for --write-timeout"
        if config.min_rate_bytes:
            rate = self._data_rate = self._data_rate or DataRate()
            if rate.is_slow(of, self._read_bytes, config.write_seconds, config.min_rate_bytes):
                return "the client read more slowly than --min-rate"
        return ""

    def has_lingered(self, is_draining: bool) -> bool:
        """Count a second of lingering; return whether lingering is over."""
        self._lingered_seconds += 1.0
        at_most = LINGER_SECONDS if is_draining else LINGER_WHOLE_SECONDS
        return self.quiet_seconds > LINGER_SECONDS or self._lingered_seconds > at_most

    def drop(self, count: int) -> bool:
        """Count octets read and dropped; return whether they are too many."""
        self._lingered_bytes += count
        return self._lingered_bytes > LINGER_BYTES
