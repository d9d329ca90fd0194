"""How the event loop's wire ends: after the last response it reads on for a while, then the transport closes.

Owns:     LINGERING, CLOSING and DETACHED; whether the end is near, which the next exchange is told.
Thread:   event loop only.
Spec:     RFC 9112 section 9.6.
Not here: when a connection ends (wire_loop.py, timeouts.py); the end of its transport, and what is freed then (wire_loop.py).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..core.exchange import CLIENT_GONE, CUT, TIMED_OUT, Exchange
from ..protocols.base import WireProtocol
from ..wsgi import FileResponse, Reply
from .connection import LOST, Connection
from .large_bodies import send_rest
from .outbox import Outbox
from .progress import Progress
from .response_memory import release_memory
from .sending import Sending
from .states import TRANSITIONS, Event, State
from .wire_log import tell

if TYPE_CHECKING:
    from .pump import Large

logger = logging.getLogger("aserve")

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
RUNNING, LOOP_ENDS = State.RUNNING, State.LOOP_ENDS
DONE, TAKE_COMPLETION = Event.DONE, Event.TAKE_COMPLETION


class EndingHalf(asyncio.Protocol):
    """The end of a wire; `TimedHalf` and `LoopWire` add the rest."""

    __slots__ = (
        "_executor", "_is_at_eof", "_is_closing_soon", "_lock", "_outbox", "_progress", "_protocol", "_sending", "_service", "_transport", "connection",
        "state",
    )  # fmt: skip

    _transport: asyncio.Transport
    way = "the event loop"
    in_lane = False

    def __init__(self, connection: Connection, can_bypass: bool = True) -> None:
        self.connection = connection
        self._service = connection.service
        self._executor = connection.service.executor
        self._lock = connection.lock  # guards state where a worker meets the loop
        self.state = State.NEW  # where it stands
        self._progress = Progress(connection.service.config)
        self._outbox = Outbox(connection, can_bypass)
        self._sending = Sending(connection, self._outbox, self._progress)
        self._protocol: WireProtocol = connection.service.new_protocol()
        self._is_at_eof = False  # the client will send no more
        self._is_closing_soon = False  # at the end of what the client has sent, or of the server

    def pause_writing(self) -> None:
        """The transport has as much as it likes to."""
        self._progress.move()
        self._outbox.pause_writing()

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._progress.move()
        self._outbox.resume_writing()

    # --- called from a worker (with --threads 0: on the event loop) ---

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """See Wire.reply."""
        return self._sending.reply(exchange, reply)

    def send(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """See Wire.send."""
        self._sending.send(exchange, octets)

    def fail(self, exchange: Exchange, why: str) -> None:
        """See Wire.fail."""
        self._sending.fail(exchange, why)

    # --- called from both sides ---

    def transition(self, event: Event) -> None:
        """Change the state: nothing else does."""
        self.state = TRANSITIONS[self.state, event]
        if self._service.tells_wire:
            tell(self.connection, f"{event.name}: {self.state.name}")

    def take_completion(self) -> bool:
        """See Owner.take_completion."""
        with self._lock:
            if self.state == RUNNING:
                self.transition(TAKE_COMPLETION)
            return self.state <= LOOP_ENDS

    def complete(self, exchange: Exchange) -> None:
        """See Owner.complete."""
        self.leave_exchange(exchange)
        self._progress.move()
        self.transition(DONE)

    def leave_exchange(self, exchange: Exchange) -> None:
        """Let the connection have this exchange no more; on the loop, or under the lock."""
        self.connection.exchange = None
        if self._service.in_flight is not None:
            self._service.in_flight.end(exchange)

    # --- called on the event loop ---

    def go_on_large(self, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
        """Send the rest of a body of which the pump has sent the beginning."""
        send_rest(self._outbox, large, reply)

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader."""
        # Completion first: from then on no worker ends the exchange between a look and the abort.
        if self.take_completion() and exchange is self.connection.exchange and exchange.response.head_is_out:
            exchange.end = TIMED_OUT
            self.reset(why)

    def reset(self, why: str) -> None:
        """See Owner.reset."""
        logger.info("%s: connection aborted: %s", self.connection.name, why)
        with self._lock:
            self.transition(Event.CLOSE)
        self._outbox.reset()

    def abort(self) -> None:
        """Close at once, whatever is unfinished."""
        exchange = self.connection.exchange  # once: a worker may end it at any time
        if exchange is not None:
            self._outbox.note_end(exchange, CUT)
        self._transport.abort()

    @property
    def fd(self) -> int:
        """The descriptor; -1: there is none any more."""
        return self._outbox.fd

    @property
    def is_lost(self) -> bool:
        """Whether the transport is gone, while an exchange is not at its end."""
        return self.state == State.CLOSED

    def drop(self, exchange: Exchange) -> None:
        """Close a connection whose client has left before a worker has begun its request."""
        exchange.end = CLIENT_GONE
        self._service.lost.discard(exchange)
        self.leave_exchange(exchange)
        self.connection.end_exchange(exchange)
        if self.is_lost:
            self._leave_connection()
        else:
            self.transition(Event.CLOSE)
            self._transport.abort()

    def _log_unanswered(self, exchange: Exchange) -> None:
        """Log a request that no worker has begun: its client has left."""
        if exchange.refusal is None and exchange.ping is None:
            exchange.connection, exchange.end = self.connection, CLIENT_GONE
            self.connection.end_exchange(exchange)

    def drop_octets(self, data: bytes) -> None:
        """Drop what a TLS client sends after our closure alert; `_linger` is why it is read at all."""
        if self.state >= State.LINGERING:
            self._drop_octets(data)

    def _drop_octets(self, data: bytes) -> None:
        """Read and forget, so that our last response is not lost to a reset."""
        if self.state == State.LINGERING:
            self._progress.move()
        # A front server's body, of uwsgi or SCGI, is limited by its time alone.
        if self._progress.drop(len(data)) and not self._protocol.is_single:
            self._close()

    def _linger(self) -> None:
        """Send what is pending and our FIN, then read on for a while."""
        if self._is_at_eof or not self._transport.can_write_eof():
            self._close()
            return
        self._progress.move()
        self.transition(Event.LINGER)
        try:
            self._transport.write_eof()
        except OSError:
            pass  # the client has reset the connection: reading on finds that out
        self._transport.resume_reading()

    def _close(self) -> None:
        """Send what is pending, then close."""
        if self.state <= State.LINGERING:
            self._progress.move()
            self.transition(Event.CLOSE)
            self._transport.close()

    def _forget_lost(self, exchange: Exchange) -> None:
        """Let go of an exchange that nobody will end: its worker was written off, and its client has gone, or is about to."""
        self.leave_exchange(exchange)
        release_memory(self.connection, exchange)
        self._outbox.close_spool(exchange.spool)
        self._service.lost.add(exchange)  # see Service.end_lost
        if self.state == State.CLOSED:
            self._leave_connection()

    def _leave_connection(self) -> None:
        self.connection.wire = LOST  # each knows the other: that would wait for the garbage collector
        self._outbox.leave()

    def _detach(self) -> None:
        """Close the transport of a connection that goes on elsewhere, by another descriptor."""
        self.transition(Event.DETACH)
        self._transport.close()
