"""The time-outs of the event loop's wire: once a second, what has been quiet for too long ends.

Owns:     how long a client may take with a head, a body, its reading, and between requests; when a connection goes back to
          the fast path.
Thread:   event loop only.
Spec:     RFC 9110 section 15.5.9 (408); RFC 9112 sections 9.5 and 9.6.
Not here: how fast a client must be (data_rate.py); who notes that there was progress (wire_loop.py, writing.py); how long the
          app may take (wsgi/deadlines.py).
"""

from __future__ import annotations

from ..core.errors import RequestRefused
from ..core.exchange import TIMED_OUT, Exchange, refused_exchange
from ..wire_log import tell
from .connection import Connection
from .data_rate import TOO_LATE, DataRate, why_overdue
from .ending import EndingHalf
from .states import State
from .streams import note_stream

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
NEW, IDLE, RECEIVING = State.NEW, State.IDLE, State.RECEIVING

# RFC 9112 9.6: after the last response, read on for a while, or a reset could destroy it on its way.
# A client that goes on sending all of its body before it reads is read longer, or nginx would say 502
# instead of our 413; nginx itself reads on for 30 s (lingering_time).
LINGER_SECONDS = 2.0  # without an octet
LINGER_WHOLE_SECONDS = 30.0
# While draining, how long a client may take to send the request for which it has connected. Guess.
ARRIVING_SECONDS = 2.0

# After this many seconds without a request that needs the event loop, a connection goes back to the fast path. A guess, between
# two costs measured 2026-11-22 with 10 and 100 connections: where one request in 100 needs the loop, going back after 4, 10 or
# 20 others gave 0.74 to 0.86 of the requests per CPU second; where none does, the fast path gives 1.78 and 1.05 times the loop's.
RETURN_SECONDS = 5.0


class TimedHalf(EndingHalf):
    """What the event loop does with a wire once a second; `LoopWire` adds the rest."""

    __slots__ = ("_data_rate", "_lingered_seconds")

    def __init__(self, connection: Connection, can_bypass: bool = True) -> None:
        super().__init__(connection, can_bypass)
        self._lingered_seconds = 0.0
        self._data_rate: DataRate | None = None  # of a body or a response that takes more than a moment

    def _refuse(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error, and close."""
        raise NotImplementedError

    def on_second(self) -> None:
        """Called once a second: end what has been quiet for too long."""
        self._quiet_seconds += 1.0
        self._plain_seconds += 1.0
        exchange = self.connection.exchange  # once: a worker may end it at any time
        if exchange is not None:
            note_stream(exchange, self._service.in_flight)
        config, state = self._service.config, self._state
        quiet = self._quiet_seconds
        if state <= IDLE:
            limit = config.head_seconds if state == NEW else config.keep_alive_seconds
            if quiet > (ARRIVING_SECONDS if self._service.is_draining else limit):
                self._close()
            elif state == IDLE and self._plain_seconds > RETURN_SECONDS:
                self._return_to_lane()
        elif state == RECEIVING:
            if self._protocol.is_mid_body:
                why = self._why_overdue()
            else:
                why = TOO_LATE if quiet > config.head_seconds else ""
            if why:
                self._refuse_late(RequestRefused(408, why))
        elif state == State.LINGERING:
            self._lingered_seconds += 1.0
            at_most = LINGER_SECONDS if self._service.is_draining else LINGER_WHOLE_SECONDS
            if quiet > LINGER_SECONDS or self._lingered_seconds > at_most:
                self._close()
        elif self._is_write_paused or self._sender is not None or state == State.CLOSING:
            self._watch_reader()
        elif (
            self._protocol.live_body is not None and self._transport.is_reading() and not self._protocol.is_continue_due
        ):
            why = self._why_overdue()
            if why:
                self._protocol.live_body.refuse(RequestRefused(408, why))
        else:
            self._quiet_seconds = 0.0  # with the app: not the client's time
            self._data_rate = None

    def _refuse_late(self, why: RequestRefused) -> None:
        """Answer a request that does not come; of one whose body does not come, the access log has the rest."""
        known = self._protocol.known
        self._refuse(refused_exchange(why, known) if known is not None else None, why)

    def _abort_reader(self, why: str) -> None:
        exchange = self.connection.exchange
        if exchange is not None:
            self._note_end(exchange, TIMED_OUT)
        self._abort(why)

    def _why_overdue(self) -> str:
        """Return what is wrong with the body that is being received; "": it comes in time."""
        body = self._protocol.body
        if body is None:
            return TOO_LATE if self._quiet_seconds > self._service.config.body_seconds else ""
        rate = self._data_rate = self._data_rate or DataRate()
        return why_overdue(body, rate, self._quiet_seconds, self._service.config)

    def _watch_reader(self) -> None:
        """Abort the connection of a client that has something to read, and does not read it, or too slowly."""
        config = self._service.config
        if self._count_read():
            self._quiet_seconds = 0.0  # slow, but the client reads
        if self._quiet_seconds > config.write_seconds:
            self._abort_reader("the client did not read for --write-timeout")
        elif config.min_rate_bytes:
            rate = self._data_rate = self._data_rate or DataRate()
            if rate.is_slow(
                self.connection.exchange or self, self._read_bytes, config.write_seconds, config.min_rate_bytes
            ):
                self._abort_reader("the client read more slowly than --min-rate")

    @property
    def idle_seconds(self) -> float:
        """For how long it has waited for another request; 0 when it does not."""
        return self._quiet_seconds if self._state == IDLE else 0.0

    @property
    def unsent_bytes(self) -> int:
        """Octets that the transport holds."""
        return self._transport.get_write_buffer_size()

    @property
    def _may_return_to_lane(self) -> bool:
        return self._service.take_back is not None and self._can_bypass and not self._is_closing_soon

    def _return_to_lane(self) -> None:
        """Give a connection that idles back to the fast path, if that takes it."""
        self._plain_seconds = 0.0
        if not self._may_return_to_lane or not self._is_detachable:
            return
        if self._service.take_back(self.connection, self._fd):  # type: ignore[misc]
            if self._service.tells_wire:
                tell(self.connection, "goes back to the fast path")
            self._detach()
