"""The event loop's wire: one transport's life.

Owns:     receiving, the queue of exchanges, time-outs, the end of an exchange and of the transport.
Thread:   event loop only.
States:   states.py.
Spec:     RFC 9112 section 9 (connection management).
Not here: sending (sending.py, writing.py), parsing (protocols/), calling the app (wsgi/gateway.py), threads (workers/executor.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from typing import cast

from ..body import BufferedBody, LiveBody
from ..errors import RequestRefused
from ..exchange import Exchange
from ..protocols.one_request import OneRequest
from ..wsgi.response import error_response
from .connection import LOST, Connection, let_go
from .data_rate import TOO_LATE, DataRate, why_overdue
from .sending import SendingHalf
from .states import Event, State

logger = logging.getLogger("aserve")

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
NEW, IDLE, RECEIVING, RUNNING, LOOP_ENDS = State.NEW, State.IDLE, State.RECEIVING, State.RUNNING, State.LOOP_ENDS

# RFC 9112 9.6: after the last response, read on for a while, or a reset could destroy it on its way.
# A client that goes on sending all of its body before it reads is read longer, or nginx would say 502
# instead of our 413; nginx itself reads on for 30 s (lingering_time). The octets are a guess.
LINGER_SECONDS = 2.0  # without an octet
LINGER_WHOLE_SECONDS = 30.0
LINGER_BYTES = 1 << 26
# While draining, how long a client may take to send the request for which it has connected. Guess.
ARRIVING_SECONDS = 2.0

# After this many seconds without a request that needs the event loop, a connection goes back to the fast path. A guess, between
# two costs measured 2026-11-22 with 10 and 100 connections: where one request in 100 needs the loop, going back after 4, 10 or
# 20 others gave 0.74 to 0.86 of the requests per CPU second; where none does, the fast path gives 1.78 and 1.05 times the loop's.
RETURN_SECONDS = 5.0

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LoopWire(SendingHalf):
    """What reads and writes below a connection on the event loop."""

    __slots__ = (
        "_data_rate", "_initial", "_is_at_eof", "_is_closing_soon", "_is_new", "_lingered_bytes", "_lingered_seconds",
        "_protocol", "_waiting",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, octets: bytes = b"", is_new: bool = True, can_bypass: bool = True
    ) -> None:
        """
        Make the wire of a connection.

        `octets` are those of its requests that were read already. But if it has an exchange, they are all that is still
        to be sent of its response. `is_new`: who is connected is not known yet.
        """
        super().__init__(connection, can_bypass)
        service = connection.service
        self._initial = octets
        self._is_new = is_new
        self._protocol = service.new_protocol()
        self._waiting: list[Exchange] = []  # pipelined behind the one with the app; few: max_pipelined
        self._is_at_eof = False  # the client will send no more
        self._is_closing_soon = False  # at the end of what it has sent, or of the server
        self._lingered_bytes = 0
        self._lingered_seconds = 0.0
        self._data_rate: DataRate | None = None  # of a body or a response that takes more than a moment

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, or comes from another wire: go on where that has left off."""
        connection, service = self.connection, self._service
        self._transport = cast(asyncio.Transport, transport)
        if self._can_bypass:
            self._fd = transport.get_extra_info("socket").fileno()
        service.connections.add(self)
        self._is_closing_soon = service.is_draining  # perhaps since this was made, and everybody else was told
        if self._is_new and not self._identify(transport):
            self._close()
        exchange, initial = connection.exchange, self._initial
        self._initial = b""
        if exchange is not None:
            self._adopt(exchange)
        connection.wire = self
        if initial and exchange is not None:
            self._on_complete(exchange, initial)
        elif initial:
            self.data_received(initial)

    def _identify(self, transport: asyncio.BaseTransport) -> bool:
        """Find out who is connected; False: it has gone already."""
        connection, peer = self.connection, peer_of(transport)
        connection.remote_addr, connection.remote_port = peer or ("", "")
        if peer is not None and self._service.identify is not None:
            self._service.identify(connection, transport)
        return peer is not None

    def _adopt(self, exchange: Exchange) -> None:
        """Take over an exchange that is with the app."""
        if self._is_closing_soon:
            exchange.keep_alive = False
        if isinstance(self._protocol, OneRequest):
            self._protocol.end()
        self._plain_seconds = 0.0
        self._transition(Event.ADOPT)

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        if self._state >= RUNNING and not self._take_completion():
            self._drop(data)
            return
        exchanges = self._protocol.receive(data)
        if self.connection.exchange is not None:
            self._waiting.extend(exchanges)
            self._plain_seconds = 0.0  # pipelined
            if not self._is_write_paused and self._sender is None:  # to send is not to read
                self._quiet_seconds = 0.0
            self._throttle()
        elif exchanges:
            self._take(exchanges)
        else:
            self._expect_more()

    def eof_received(self) -> bool:
        """The client will send no more; what it has asked for is still answered."""
        self._is_at_eof = self._is_closing_soon = True
        if not self._protocol.has_unparsed:
            self._protocol.receive_eof()
        if not self._take_completion() or self.connection.exchange is None:
            self._close()
        return True  # keep the transport open for the response

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone; its file descriptor closes right after this."""
        is_returned = self._state == State.RETURNED
        with self._lock:
            self._fd = -1
            self._transition(Event.LOST)
        if is_returned:  # the connection goes on without us
            self._leave_limit()
            return
        # Each is done whatever becomes of the others; the last lets a worker go on that waits for us.
        for step in (
            self._leave_limit, self._drop_waiting, self._protocol.receive_eof, self._stop_sending, self._go_on_writing,
        ):  # fmt: skip
            try:
                step()
            except Exception:  # a bug in aserve, or a disk that fails
                logger.exception("internal error; please report this as a bug in aserve")
        if self.connection.exchange is None:
            self._leave_connection()

    def _leave_connection(self) -> None:
        self.connection.wire = LOST  # each knows the other: that would wait for the garbage collector

    def _leave_limit(self) -> None:
        self._service.connections.discard(self)

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            if exchange.body is not None:
                exchange.body.close()

    def _stop_sending(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
        if self.connection.exchange is not None:
            self._close_spool(self.connection.exchange.spool)

    def on_second(self) -> None:
        """Called once a second: end what has been quiet for too long."""
        self._quiet_seconds += 1.0
        self._plain_seconds += 1.0
        config, state = self._service.config, self._state
        quiet = self._quiet_seconds
        if state <= IDLE:
            limit = config.head_seconds if state == NEW else config.keep_alive_seconds
            if quiet > (ARRIVING_SECONDS if self._service.is_draining else limit):
                self._close()
            elif state == IDLE and self._plain_seconds > RETURN_SECONDS:
                self._return()
        elif state == RECEIVING:
            if self._protocol.is_mid_body:
                why = self._why_overdue()
            else:
                why = TOO_LATE if quiet > config.head_seconds else ""
            if why:
                self._refuse(None, RequestRefused(408, why))
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

    def _why_overdue(self) -> str:
        """Tell what is wrong with the body that is being received; "": it comes in time."""
        body = self._protocol.body
        if body is None:
            return TOO_LATE if self._quiet_seconds > self._service.config.body_seconds else ""
        rate = self._data_rate = self._data_rate or DataRate()
        return why_overdue(body, rate, self._quiet_seconds, self._service.config)

    def _watch_reader(self) -> None:
        """The client has something to read: does it?"""
        config = self._service.config
        if self._count_read():
            self._quiet_seconds = 0.0  # slow, but the client reads
        if self._quiet_seconds > config.write_seconds:
            self._abort("the client did not read for --write-timeout")
        elif config.min_rate_bytes:
            rate = self._data_rate = self._data_rate or DataRate()
            if rate.is_slow(
                self.connection.exchange or self, self._read_bytes, config.write_seconds, config.min_rate_bytes
            ):
                self._abort("the client read more slowly than --min-rate")

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._state

    @property
    def exchange(self) -> Exchange | None:
        """The one that the app has; those that wait behind it are not shown."""
        return self.connection.exchange

    @property
    def incomplete_body(self) -> BufferedBody | LiveBody | None:
        """The request body that is being received."""
        return self._protocol.body

    @property
    def unsent_bytes(self) -> int:
        """Octets that the transport holds."""
        return self._transport.get_write_buffer_size()

    @property
    def idle_seconds(self) -> float:
        """For how long it has waited for another request; 0 when it does not."""
        return self._quiet_seconds if self._state == IDLE else 0.0

    # From outside

    def drain(self) -> None:
        """Finish the exchange that runs, then close."""
        self._is_closing_soon = True
        if self._take_completion() and self.connection.exchange is not None:
            self.connection.exchange.keep_alive = False
        elif self._state == IDLE:
            self._close()

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer in place of a worker that was written off; what that may still send is dropped."""
        if exchange is not self.connection.exchange or not self._take_completion():
            return
        if exchange.response.head_is_out:
            self._on_abort(exchange, str(why))
            return
        self.connection.exchange = None
        exchange.keep_alive = False
        # The body stays open: the app may be inside a read of it.
        self._refuse(exchange, why)

    def refuse(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer an exchange whose body does not come, or cannot be kept."""
        self.connection.exchange = None
        exchange.keep_alive = False
        let_go(exchange)
        self._refuse(exchange, why)

    def abort(self) -> None:
        """Close at once, whatever is unfinished."""
        self._transport.abort()

    def drop(self, data: bytes) -> None:
        """Drop what a TLS client sends after our closure alert; `_linger` is why it is read at all."""
        if self._state >= State.LINGERING:
            self._drop(data)

    # Receiving

    def _take(self, exchanges: list[Exchange]) -> None:
        """Start the first of these; the others wait."""
        exchange = exchanges[0]
        if len(exchanges) > 1:
            self._waiting.extend(exchanges[1:])
            self._throttle()
        if exchange.is_for_loop:
            self._answer(exchange)
            return
        exchange.connection = self.connection
        self.connection.exchange = exchange
        self._quiet_seconds = 0.0
        self._transition(Event.REQUEST)
        protocol = self._protocol
        if (
            exchange.body is not None
            or self._waiting
            or protocol.unparsed
            or protocol.is_continue_due
            or self._is_closing_soon
            or (self._plain_seconds > RETURN_SECONDS and self._may_return)
        ):
            self._prepare(exchange)
        self._executor.submit(self.connection.run, exchange)

    def _prepare(self, exchange: Exchange) -> None:
        """The less common needs of an exchange."""
        self._take_completion()
        if self._service.is_draining:
            exchange.keep_alive = False
        body = exchange.body
        if self._waiting or self._protocol.unparsed or (body is not None and body.is_chunked):
            self._plain_seconds = 0.0
        if isinstance(body, LiveBody):
            post = self._executor.post
            body.on_low = lambda: post(self._on_body_low, exchange, None)
            if self._protocol.is_continue_due:
                body.on_wanted = lambda: post(self._on_body_wanted, exchange, None)

    def _expect_more(self) -> None:
        """A request has begun but is not complete, and nothing else is under way."""
        if not self._protocol.is_mid_body:
            self._plain_seconds = 0.0
        if self._state <= IDLE or self._protocol.is_mid_body:
            self._quiet_seconds = 0.0  # a head must be complete in time; a body must only move
        self._transition(Event.BEGIN)
        if self._protocol.is_continue_due:
            # RFC 9110 10.1.1: the body is wanted, and every earlier response is out.
            self._protocol.is_continue_due = False
            self._plain_seconds = 0.0
            self._transport.write(CONTINUE)

    def _throttle(self) -> None:
        """Stop reading while too much waits; `_next` and `_on_body_low` start it again."""
        body = self._protocol.live_body
        if len(self._waiting) >= self._service.config.max_pipelined or (body is not None and body.is_full):
            self._transport.pause_reading()

    def _on_body_low(self, exchange: Exchange, _: None) -> None:
        if (
            exchange is self.connection.exchange
            and not self._waiting
            and self._state <= LOOP_ENDS
            and not self._is_at_eof
        ):
            self._quiet_seconds = 0.0
            self._transport.resume_reading()

    def _on_body_wanted(self, exchange: Exchange, _: None) -> None:
        # After the response's head an interim response would be part of its body.
        if self._state > LOOP_ENDS or exchange is not self.connection.exchange:
            return  # the client has gone meanwhile
        if self._protocol.is_continue_due and not exchange.response.head_is_out:
            self._protocol.is_continue_due = False
            self._quiet_seconds = 0.0
            self._transport.write(CONTINUE)

    def _drop(self, data: bytes) -> None:
        """Read and forget, so that our last response is not lost to a reset."""
        if self._state == State.LINGERING:
            self._quiet_seconds = 0.0
        self._lingered_bytes += len(data)
        # A front server's body, of uwsgi or SCGI, is limited by its time alone.
        if self._lingered_bytes > LINGER_BYTES and not self._protocol.is_single:
            self._close()

    def _answer(self, exchange: Exchange) -> None:
        """Reply without the app."""
        if exchange.ping is not None:
            self._transport.write(exchange.ping(self._service.warning()))
            self._close()
        elif exchange.refusal is not None and exchange.is_silent:
            logger.warning("%s: closed: %s", self._service.name, exchange.refusal)
            self._close()
        else:
            assert exchange.refusal is not None
            self._refuse(exchange, exchange.refusal)

    def _refuse(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error; where the client's next request would begin is not known."""
        service = self._service
        # A lack of room is told once for all (budgets.py).
        level = logging.DEBUG if why.status == 503 else logging.INFO
        logger.log(level, "%s: answered %d: %s", self.connection.name, why.status, why)
        if service.access_log is not None:
            service.access_log.write_refused(self.connection, exchange, why)
        if self._take_completion():  # else the client has gone on the connection's way here
            self._transport.write(error_response(why.status, str(why), exchange, service.common_fields))
            self._linger()

    # Ending

    def _end(self, exchange: Exchange) -> None:
        """The response is with the transport, or lost: go on with the connection."""
        if self._is_write_paused and (exchange.keep_alive or exchange.counted_bytes) and self._state <= LOOP_ENDS:
            # A client that does not read its responses gets no more of them made; what waits in memory stays counted.
            self._on_writable = functools.partial(self._end, exchange)
            return
        self.connection.exchange = None
        if exchange.counted_bytes:
            self._release_memory(exchange)
        self.connection.end(exchange)
        if self._state > LOOP_ENDS:
            if self._state == State.CLOSED:
                self._leave_connection()
            return
        body = exchange.body
        if exchange.is_from_front and not self._protocol.is_mid_message:
            self._close()  # a front server sends nothing behind its request
            return
        if not exchange.keep_alive or (body is not None and body is self._protocol.live_body):
            self._linger()
            return
        self._quiet_seconds = 0.0
        self._transition(Event.DONE)
        self._next()

    def _next(self) -> None:
        """Go on with what has come while the last exchange ran."""
        if not self._is_at_eof and not self._transport.is_reading():
            self._transport.resume_reading()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._plain_seconds = 0.0
            self._take(waiting)
            return
        exchanges = self._protocol.receive(b"") if self._protocol.has_unparsed else []
        if self._is_at_eof and not self._protocol.has_unparsed:
            self._protocol.receive_eof()
        if exchanges:
            self._plain_seconds = 0.0
            self._take(exchanges)
        elif self._is_at_eof or self._service.is_draining:
            self._close()
        elif self._protocol.is_mid_message:
            self._expect_more()
        elif self._plain_seconds > RETURN_SECONDS:
            self._return()

    @property
    def _may_return(self) -> bool:
        return self._service.take_back is not None and self._can_bypass and not self._is_closing_soon

    def _return(self) -> None:
        """Give a connection that idles back to the fast path, if that takes it."""
        self._plain_seconds = 0.0
        if not self._may_return or self._transport.is_closing() or self._transport.get_write_buffer_size():
            return
        if self._service.take_back(self.connection, self._fd):  # type: ignore[misc]
            self._transition(Event.RETURN)
            self._transport.close()  # its descriptor; the connection has another

    def _linger(self) -> None:
        """Send what is pending and our FIN, then read on for a while (RFC 9112 section 9.6)."""
        if self._is_at_eof or not self._transport.can_write_eof():
            self._close()
            return
        self._quiet_seconds = 0.0
        self._transition(Event.LINGER)
        try:
            self._transport.write_eof()
        except OSError:
            pass  # the client has reset the connection: reading on finds that out
        self._transport.resume_reading()

    def _close(self) -> None:
        """Send what is pending, then close."""
        if self._state <= State.LINGERING:
            self._quiet_seconds = 0.0
            self._transition(Event.CLOSE)
            self._transport.close()


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, str] | None:
    """Return a client's address and port, both empty on a unix socket; None: it has gone already."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return peer[0], str(peer[1])
    # Reset before it was accepted: its request is there, and without its address would pass for a unix socket's.
    return ("", "") if transport.get_extra_info("socket").family == socket.AF_UNIX else None
