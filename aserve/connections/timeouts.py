"""The time-outs of the event loop's wire: once a second, what has been quiet for too long ends.

Owns:     which clock runs in which state, and what becomes of a client that is late; when a connection goes back to the fast path.
Thread:   event loop only.
Spec:     RFC 9110 section 15.5.9 (408); RFC 9112 sections 9.5 and 9.6.
Not here: the clocks, and how long each may run (progress.py); what notes progress (wire_loop.py, sending.py).
"""

from __future__ import annotations

from ..core.errors import RequestRefused
from ..core.exchange import TIMED_OUT, Exchange, refused_exchange
from .ending import EndingHalf
from .progress import RETURN_SECONDS
from .states import State
from .streams import note_stream
from .wire_log import tell

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
NEW, IDLE, RECEIVING = State.NEW, State.IDLE, State.RECEIVING


class TimedHalf(EndingHalf):
    """What the event loop does with a wire once a second; `LoopWire` adds the rest."""

    __slots__ = ()

    def _refuse(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error, and close."""
        raise NotImplementedError

    def on_second(self) -> None:
        """Called once a second: end what has been quiet for too long."""
        progress, state, is_draining = self._progress, self.state, self._service.is_draining
        progress.tick()
        exchange = self.connection.exchange  # once: a worker may end it at any time
        if exchange is not None:
            note_stream(exchange, self._service.in_flight)
        if state <= IDLE:
            if progress.has_idled(state == NEW, is_draining):
                self._close()
            elif state == IDLE and progress.plain_seconds > RETURN_SECONDS:
                self._return_to_lane()
        elif state == RECEIVING:
            body = self._protocol.body
            why = progress.why_late_body(body) if self._protocol.is_mid_body else progress.why_late_head()
            if why:
                self._refuse_late(RequestRefused(408, why))
        elif state == State.LINGERING:
            if progress.has_lingered(is_draining):
                self._close()
        elif self._outbox.is_behind or state == State.CLOSING:
            why = progress.why_slow_reader(self.connection.exchange or self, self._outbox.count_read())
            if why:
                self._abort_reader(why)
        elif (
            self._protocol.live_body is not None and self._transport.is_reading() and not self._protocol.is_continue_due
        ):
            why = progress.why_late_body(self._protocol.live_body)
            if why:
                self._protocol.live_body.refuse(RequestRefused(408, why))
        else:
            progress.rest()

    def _refuse_late(self, why: RequestRefused) -> None:
        """Answer a request that does not come; of one whose body does not come, the access log has the rest."""
        known = self._protocol.known
        self._refuse(refused_exchange(why, known) if known is not None else None, why)

    def _abort_reader(self, why: str) -> None:
        exchange = self.connection.exchange
        if exchange is not None:
            self._outbox.note_end(exchange, TIMED_OUT)
        self.reset(why)

    @property
    def idle_seconds(self) -> float:
        """For how long it has waited for another request; 0 when it does not."""
        return self._progress.quiet_seconds if self.state == IDLE else 0.0

    @property
    def unsent_bytes(self) -> int:
        """Octets that the transport holds."""
        return self._transport.get_write_buffer_size()

    @property
    def _may_return_to_lane(self) -> bool:
        return self._service.take_back is not None and self._outbox.can_bypass and not self._is_closing_soon

    def _return_to_lane(self) -> None:
        """Give a connection that idles back to the fast path, if that takes it."""
        self._progress.stay_on_loop()
        if not self._may_return_to_lane or not self._outbox.is_empty:
            return
        if self._service.take_back(self.connection, self._outbox.fd):  # type: ignore[misc]
            if self._service.tells_wire:
                tell(self.connection, "goes back to the fast path")
            self._detach()
