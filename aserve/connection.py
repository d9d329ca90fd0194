"""One transport's life, from accept to close.

Owns:     reading, the queue of exchanges, time-outs, the end of an exchange
          and of the connection.
Thread:   event loop only.
States:   states.py.
Spec:     RFC 9112 section 9 (connection management).
Not here: writing (outgoing.py), parsing (protocols/), calling the app
          (wsgi.py), threads (executor.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from typing import cast

from .body import BufferedBody, LiveBody
from .errors import RequestRefused
from .exchange import Exchange
from .outgoing import OutgoingHalf
from .pace import Pace
from .service import Service
from .states import TRANSITIONS, Event, State
from .wsgi.response import error_response

logger = logging.getLogger("aserve")

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
NEW, IDLE, RECEIVING, RUNNING, ATTENDED = State.NEW, State.IDLE, State.RECEIVING, State.RUNNING, State.ATTENDED

# RFC 9112 9.6: after the last response, read on for a while, or a reset could destroy it on its way.
# A client that goes on sending all of its body before it reads is read longer, or nginx would say 502
# instead of our 413; nginx itself reads on for 30 s (lingering_time). The octets are a guess.
LINGER_SECONDS = 2.0  # without an octet
LINGER_WHOLE_SECONDS = 30.0
LINGER_BYTES = 1 << 26
# While draining, how long a client may take to send the request for which it has connected. Guess.
ARRIVING_SECONDS = 2.0

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LATE = "the request did not come in time"
TOO_SLOW = "the request body came more slowly than --min-rate"


class Connection(OutgoingHalf):
    """One client's transport."""

    __slots__ = (
        "_is_at_eof", "_is_closing_soon", "_lingered_bytes", "_lingered_seconds", "_pace", "_protocol", "_waiting", "base_environ", "remote_port",
    )  # fmt: skip

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.base_environ = service.base_environ
        self._protocol = service.new_protocol()
        self._waiting: list[Exchange] = []  # pipelined behind the one with the app; few: max_pipelined
        self._is_at_eof = False  # the client will send no more
        self._is_closing_soon = service.is_draining  # at the end of what it has sent, or of the server
        self._lingered_bytes = 0
        self._lingered_seconds = 0.0
        self._pace: Pace | None = None  # of a body or a response that takes more than a moment

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._fd = transport.get_extra_info("socket").fileno()
        peer = peer_of(transport)
        self.remote_addr, self.remote_port = peer or ("", "")
        self._service.connections.add(self)
        if peer is None:
            self._close()

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        if self._state >= RUNNING and not self._attend():
            self._drop(data)
            return
        exchanges = self._protocol.receive(data)
        if self._exchange is not None:
            self._waiting.extend(exchanges)
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
        if not self._attend() or self._exchange is None:
            self._close()
        return True  # keep the transport open for the response

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone; its file descriptor closes right after this."""
        with self._lock:
            self._fd = -1
            self._state = TRANSITIONS[self._state, Event.LOST]
        # Each is done whatever becomes of the others; the last lets a worker go on that waits for us.
        for step in (
            self._leave_crowd, self._drop_waiting, self._protocol.receive_eof, self._stop_sending, self._go_on_writing,
        ):  # fmt: skip
            try:
                step()
            except Exception:  # a bug in aserve, or a disk that fails
                logger.exception("internal error; please report this as a bug in aserve")

    def _leave_crowd(self) -> None:
        self._service.connections.discard(self)

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            if exchange.body is not None:
                exchange.body.close()

    def _stop_sending(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
        if self._exchange is not None:
            self._close_spool(self._exchange.spool)

    def on_second(self) -> None:
        """Called once a second: end what has been quiet for too long."""
        self._quiet_seconds += 1.0
        config, state = self._service.config, self._state
        quiet = self._quiet_seconds
        if state <= IDLE:
            limit = config.head_seconds if state == NEW else config.keep_alive_seconds
            if quiet > (ARRIVING_SECONDS if self._service.is_draining else limit):
                self._close()
        elif state == RECEIVING:
            is_mid_body = self._protocol.is_mid_body
            if quiet > (config.body_seconds if is_mid_body else config.head_seconds):
                self._refuse(None, RequestRefused(408, TOO_LATE))
            elif is_mid_body and self._is_slow_body():
                self._refuse(None, RequestRefused(408, TOO_SLOW))
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
            if quiet > config.body_seconds:
                self._protocol.live_body.refuse(
                    RequestRefused(408, "the request body did not come in time (--body-timeout)")
                )
            elif self._is_slow_body():
                self._protocol.live_body.refuse(RequestRefused(408, TOO_SLOW))
        else:
            self._quiet_seconds = 0.0  # with the app: not the client's time
            self._pace = None

    def _is_slow_body(self) -> bool:
        config, body = self._service.config, self._protocol.body
        if body is None or not config.min_rate_bytes:
            return False
        pace = self._pace = self._pace or Pace()
        return pace.is_slow(body, body.length, config.body_seconds, config.min_rate_bytes)

    def _watch_reader(self) -> None:
        """The client has something to read: does it?"""
        config = self._service.config
        if self._count_read():
            self._quiet_seconds = 0.0  # slow, but the client reads
        if self._quiet_seconds > config.write_seconds:
            self._abort("the client did not read for --write-timeout")
        elif config.min_rate_bytes:
            pace = self._pace = self._pace or Pace()
            if pace.is_slow(self._exchange or self, self._read_bytes, config.write_seconds, config.min_rate_bytes):
                self._abort("the client read more slowly than --min-rate")

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._state

    @property
    def exchange(self) -> Exchange | None:
        """The one that the app has; those that wait behind it are not shown."""
        return self._exchange

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
        if self._attend() and self._exchange is not None:
            self._exchange.keep_alive = False
        elif self._state == IDLE:
            self._close()

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer in place of a worker that was written off; what that may still send is dropped."""
        if exchange is not self._exchange or not self._attend():
            return
        if exchange.response.head_is_out:
            self._on_abort(exchange, str(why))
            return
        self._exchange = None
        exchange.keep_alive = False
        # The body stays open: the app may be inside a read of it.
        self._refuse(exchange, why)

    def abort(self) -> None:
        """Close at once, whatever is unfinished."""
        self._transport.abort()

    # Receiving

    def _take(self, exchanges: list[Exchange]) -> None:
        """Start the first of these; the others wait."""
        if len(exchanges) > 1:
            self._waiting.extend(exchanges[1:])
            self._throttle()
        exchange = exchanges[0]
        if exchange.is_for_loop:
            self._answer(exchange)
            return
        exchange.connection = self
        self._exchange = exchange
        self._quiet_seconds = 0.0
        self._state = RUNNING  # the table's only way on from here; a look-up would cost 0.1 us
        protocol = self._protocol
        if (
            exchange.body is not None
            or self._waiting
            or protocol.unparsed
            or protocol.is_continue_due
            or self._is_closing_soon
        ):
            self._prepare(exchange)
        self._executor.submit(self._run, exchange)

    def _prepare(self, exchange: Exchange) -> None:
        """The less common needs of an exchange."""
        self._attend()
        if self._service.is_draining:
            exchange.keep_alive = False
        body = exchange.body
        if isinstance(body, LiveBody):
            post = self._executor.post
            body.on_low = lambda: post(self._on_body_low, exchange, None)
            if self._protocol.is_continue_due:
                body.on_wanted = lambda: post(self._on_body_wanted, exchange, None)

    def _expect_more(self) -> None:
        """A request has begun but is not complete, and nothing else is under way."""
        if self._state <= IDLE or self._protocol.is_mid_body:
            self._quiet_seconds = 0.0  # a head must be complete in time; a body must only move
        self._state = TRANSITIONS[self._state, Event.BEGIN]
        if self._protocol.is_continue_due:
            # RFC 9110 10.1.1: the body is wanted, and every earlier response is out.
            self._protocol.is_continue_due = False
            self._transport.write(CONTINUE)

    def _throttle(self) -> None:
        """Stop reading while too much waits; `_next` and `_on_body_low` start it again."""
        body = self._protocol.live_body
        if len(self._waiting) >= self._service.config.max_pipelined or (body is not None and body.is_full):
            self._transport.pause_reading()

    def _on_body_low(self, exchange: Exchange, _: None) -> None:
        if exchange is self._exchange and not self._waiting and self._state <= ATTENDED and not self._is_at_eof:
            self._quiet_seconds = 0.0
            self._transport.resume_reading()

    def _on_body_wanted(self, exchange: Exchange, _: None) -> None:
        # After the response's head an interim response would be part of its body.
        if self._state > ATTENDED or exchange is not self._exchange:
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
        logger.log(level, "%s: answered %d: %s", self.remote_addr or "unix socket", why.status, why)
        self._transport.write(error_response(why.status, str(why), exchange, service.standing))
        if service.access_log is not None:
            service.access_log.write_refused(self, exchange, why)
        self._linger()

    # Ending

    def _end(self, exchange: Exchange) -> None:
        """The response is with the transport, or lost: go on with the connection."""
        if self._is_write_paused and (exchange.keep_alive or exchange.held_bytes) and self._state <= ATTENDED:
            # A client that does not read its responses gets no more of them made; and memory that is held is counted.
            self._on_writable = functools.partial(self._end, exchange)
            return
        self._exchange = None
        if exchange.held_bytes:
            self._give_back(exchange)
        if exchange.body is not None:
            exchange.body.close()
        if self._service.access_log is not None:
            self._service.access_log.write(exchange)
        exchange.response = None  # a cycle: both, and a body in memory, would wait for the garbage collector
        if self._state > ATTENDED:
            return
        body = exchange.body
        if exchange.is_from_front and not self._protocol.is_mid_message:
            self._close()  # a front server sends nothing behind its request
            return
        if not exchange.keep_alive or (body is not None and body is self._protocol.live_body):
            self._linger()
            return
        self._quiet_seconds = 0.0
        self._state = TRANSITIONS[self._state, Event.DONE]
        self._next()

    def _next(self) -> None:
        """Go on with what has come while the last exchange ran."""
        if not self._is_at_eof:
            self._transport.resume_reading()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._take(waiting)
            return
        exchanges = self._protocol.receive(b"") if self._protocol.has_unparsed else []
        if self._is_at_eof and not self._protocol.has_unparsed:
            self._protocol.receive_eof()
        if exchanges:
            self._take(exchanges)
        elif self._is_at_eof or self._service.is_draining:
            self._close()
        elif self._protocol.is_mid_message:
            self._expect_more()

    def _linger(self) -> None:
        """Send what is pending and our FIN, then read on for a while (RFC 9112 section 9.6)."""
        if self._is_at_eof or not self._transport.can_write_eof():
            self._close()
            return
        self._quiet_seconds = 0.0
        self._state = TRANSITIONS[self._state, Event.LINGER]
        try:
            self._transport.write_eof()
        except OSError:
            pass  # the client has reset the connection: reading on finds that out
        self._transport.resume_reading()

    def _close(self) -> None:
        """Send what is pending, then close."""
        if self._state <= State.LINGERING:
            self._quiet_seconds = 0.0
            self._state = TRANSITIONS[self._state, Event.CLOSE]
            self._transport.close()


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, str] | None:
    """Return a client's address and port, both empty on a unix socket; None: it has gone already."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return peer[0], str(peer[1])
    # Reset before it was accepted: its request is there, and without its address would pass for a unix socket's.
    return ("", "") if transport.get_extra_info("socket").family == socket.AF_UNIX else None
