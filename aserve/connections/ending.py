"""How the event loop's wire ends: after the last response it reads on for a while, then the transport closes.

Owns:     LINGERING, CLOSING and DETACHED; whether the end is near, which the next exchange is told.
Thread:   event loop only.
Spec:     RFC 9112 section 9.6.
Not here: when a connection ends (wire_loop.py, timeouts.py); the end of its transport, and what is freed then (wire_loop.py).
"""

from __future__ import annotations

from ..core.exchange import CLIENT_GONE, CUT, Exchange
from ..protocols.base import WireProtocol
from .connection import LOST, Connection
from .sending import SendingHalf
from .states import Event, State


class EndingHalf(SendingHalf):
    """The end of a wire; `TimedHalf` and `LoopWire` add the rest."""

    __slots__ = ("_is_at_eof", "_is_closing_soon", "_protocol")

    def __init__(self, connection: Connection, can_bypass: bool = True) -> None:
        super().__init__(connection, can_bypass)
        self._protocol: WireProtocol = connection.service.new_protocol()
        self._is_at_eof = False  # the client will send no more
        self._is_closing_soon = False  # at the end of what the client has sent, or of the server

    def abort(self) -> None:
        """Close at once, whatever is unfinished."""
        exchange = self.connection.exchange  # once: a worker may end it at any time
        if exchange is not None:
            self._note_end(exchange, CUT)
        self._transport.abort()

    @property
    def fd(self) -> int:
        """The descriptor; -1: there is none any more."""
        return self._fd

    @property
    def is_lost(self) -> bool:
        """Whether the transport is gone, while an exchange is not at its end."""
        return self._state == State.CLOSED

    def drop(self, exchange: Exchange) -> None:
        """Close a connection whose client has left before a worker has begun its request."""
        exchange.end = CLIENT_GONE
        self._service.lost.discard(exchange)
        self._leave_exchange(exchange)
        self.connection.end_exchange(exchange)
        if self.is_lost:
            self._leave_connection()
        else:
            self._transition(Event.CLOSE)
            self._transport.abort()

    def _log_unanswered(self, exchange: Exchange) -> None:
        """Log a request that no worker has begun: its client has left."""
        if exchange.refusal is None and exchange.ping is None:
            exchange.connection, exchange.end = self.connection, CLIENT_GONE
            self.connection.end_exchange(exchange)

    def drop_octets(self, data: bytes) -> None:
        """Drop what a TLS client sends after our closure alert; `_linger` is why it is read at all."""
        if self._state >= State.LINGERING:
            self._drop_octets(data)

    def _drop_octets(self, data: bytes) -> None:
        """Read and forget, so that our last response is not lost to a reset."""
        if self._state == State.LINGERING:
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
        self._transition(Event.LINGER)
        try:
            self._transport.write_eof()
        except OSError:
            pass  # the client has reset the connection: reading on finds that out
        self._transport.resume_reading()

    def _close(self) -> None:
        """Send what is pending, then close."""
        if self._state <= State.LINGERING:
            self._progress.move()
            self._transition(Event.CLOSE)
            self._transport.close()

    @property
    def _is_detachable(self) -> bool:
        """Whether there is nothing in the transport, nor in TLS, that a descriptor does not take along."""
        return self._can_bypass and not self._transport.is_closing() and not self._transport.get_write_buffer_size()

    def _forget_lost(self, exchange: Exchange) -> None:
        """Let go of an exchange that nobody will end: its worker was written off, and its client has gone, or is about to."""
        self._leave_exchange(exchange)
        self._release_memory(exchange)
        self._close_spool(exchange.spool)
        self._service.lost.add(exchange)  # see Service.end_lost
        if self._state == State.CLOSED:
            self._leave_connection()

    def _leave_connection(self) -> None:
        self.connection.wire = LOST  # each knows the other: that would wait for the garbage collector

    def _detach(self) -> None:
        """Close the transport of a connection that goes on elsewhere, by another descriptor."""
        self._transition(Event.DETACH)
        self._transport.close()
