"""The event loop's wire: one transport's life.

Owns:     receiving, the queue of exchanges, the end of an exchange, and what the loss of the transport frees.
Thread:   event loop only.
States:   states.py.
Spec:     RFC 9112 section 9 (connection management).
Not here: time-outs (timeouts.py), closing (ending.py), sending (sending.py, outbox.py), parsing (protocols/), calling the app (wsgi/gateway.py),
          threads (workers/executor.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from typing import cast

from ..core.body import BufferedBody, LiveBody
from ..core.errors import RequestRefused
from ..core.exchange import ANSWERED, CUT, Exchange
from ..protocols.one_request import OneRequest
from ..wsgi.response import error_response
from .connection import Connection, release_exchange
from .health import answer
from .progress import RETURN_SECONDS
from .response_memory import release_memory
from .states import Event, State
from .upgrading import UpgradingHalf

logger = logging.getLogger("aserve")

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
NEW, IDLE, RUNNING, LOOP_ENDS = State.NEW, State.IDLE, State.RUNNING, State.LOOP_ENDS
REQUEST, DONE = Event.REQUEST, Event.DONE

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LoopWire(UpgradingHalf):
    """What reads and writes below a connection on the event loop."""

    __slots__ = ("_initial", "_is_new", "_rest", "_waiting")

    def __init__(
        self, connection: Connection, octets: bytes = b"", is_new: bool = True, can_bypass: bool = True,
        rest: tuple[bytes | memoryview, ...] = (),
    ) -> None:  # fmt: skip
        """
        Make the wire of a connection.

        `octets` are those of its requests that were read already. `is_new`: who is connected is not known yet. `rest`: if it
        has an exchange whose response is whole, all that is still to be sent of it.
        """
        super().__init__(connection, can_bypass)
        self._initial, self._rest = octets, rest
        self._is_new = is_new
        self._waiting: list[Exchange] = []  # pipelined after the one with the app; few: max_pipelined

    @classmethod
    def kept(cls, connection: Connection) -> LoopWire:
        """Make the wire of a connection that idles: it has carried requests in another server."""
        wire = cls(connection, is_new=False)
        wire.transition(Event.KEPT)
        return wire

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, or comes from another wire: go on where that has left off."""
        connection, service = self.connection, self._service
        self._transport = cast(asyncio.Transport, transport)
        self._outbox.connect(self, self._transport)
        service.connections.add(self)
        self._is_closing_soon = service.is_draining  # perhaps since this was made, and everybody else was told
        if self._is_new and not connection.identify(transport):
            self._close()
        initial, rest = self._initial, self._rest
        self._initial, self._rest = b"", ()
        exchange = connection.exchange
        if exchange is not None:
            self._adopt(exchange)
        connection.wire = self
        if rest and exchange is not None:
            self._outbox.on_rest(exchange, rest)
        elif initial:
            self.data_received(initial)

    def _adopt(self, exchange: Exchange) -> None:
        """Take over an exchange that is with the app."""
        if self._is_closing_soon:
            exchange.keep_alive = False
        if isinstance(self._protocol, OneRequest):
            self._protocol.drop_further()
        self._progress.stay_on_loop()
        if self._service.in_flight is not None:
            self._service.in_flight.begin(exchange)
        self.transition(Event.ADOPT)

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        if self.state >= RUNNING and not self.take_completion():
            self._drop_octets(data)
            return
        exchanges = self._protocol.receive(data)
        if self.connection.exchange is not None:
            self._waiting.extend(exchanges)
            self._progress.stay_on_loop()  # pipelined
            if not self._outbox.is_behind:  # to send is not to read
                self._progress.move()
            self._pause_if_full()
        elif exchanges:
            self._start_first(exchanges)
        elif self._protocol.is_mid_message:  # else it was an empty line (RFC 9112 2.2)
            self._expect_more()

    def eof_received(self) -> bool:
        """The client will send no more; what it has asked for is still answered."""
        self._is_at_eof = self._is_closing_soon = True
        if not self._protocol.has_unparsed:
            self._protocol.receive_eof()
        if not self._protocol.unparsed:  # else the app has something to read first
            self._end_offer()
        if not self.take_completion() or self.connection.exchange is None:
            self._close()
        return True  # keep the transport open for the response

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone; its file descriptor closes right after this."""
        is_detached, is_done = self.state == State.DETACHED, self.state > LOOP_ENDS
        leave_limit = functools.partial(self._service.connections.discard, self)
        with self._lock:
            self.transition(Event.LOST)
            self._outbox.lose()
        if is_detached:  # the connection goes on without us
            leave_limit()
            self._outbox.leave()
            return
        # Each is done whatever becomes of the others; the last two let a worker go on that waits for us.
        for step in (
            leave_limit, functools.partial(self._drop_waiting, is_done), self._protocol.receive_eof, self._stop_sending, self._outbox.go_on, self._end_offer,
        ):  # fmt: skip
            try:
                step()
            except Exception:  # a bug in aserve, or a disk that fails
                logger.exception("internal error; please report this as a bug in aserve")
        if self.connection.exchange is None:
            self._leave_connection()

    def _drop_waiting(self, is_done: bool) -> None:
        """Drop what no worker has begun; with `is_done` the server will not, and the client was told so."""
        waiting, self._waiting = [*self._waiting, *self._protocol.incomplete], []
        for exchange in waiting:
            release_exchange(exchange)
            if not is_done:
                self._log_unanswered(exchange)

    def _stop_sending(self) -> None:
        self._outbox.cancel_sender()
        if self.connection.exchange is not None:
            self._outbox.note_end(self.connection.exchange, CUT)
            self._service.lost.add(self.connection.exchange)
            self._outbox.close_spool(self.connection.exchange.spool)

    @property
    def exchange(self) -> Exchange | None:
        """The one that the app has; those that wait for it are not shown."""
        return self.connection.exchange

    @property
    def incomplete_body(self) -> BufferedBody | LiveBody | None:
        """The request body that is being received."""
        return self._protocol.body

    # From outside

    def drain(self) -> None:
        """Finish the exchange that runs, then close."""
        self._is_closing_soon = True
        self._end_offer()
        if self._service.is_replaced:
            # For ARRIVING_SECONDS, as the next request may be on its way; and what runs may have said that there may be one.
            self._progress.move()
        elif self.take_completion() and self.connection.exchange is not None:
            self.connection.exchange.keep_alive = False
        elif self.state == IDLE:
            self._close()

    def detach(self) -> int | None:
        """
        Let go of a connection that waits for a request; return a descriptor of it. None: it does not, or cannot go.

        Raises:
            OSError: no descriptor is left.
        """
        # Behind the PROXY protocol, a client of whom no request has come cannot be told from its proxy.
        if not self._outbox.is_empty or not (self.state == IDLE or (self.state == NEW and self._is_new)):
            return None
        fd = os.dup(self._outbox.fd)
        self._detach()
        self._leave_connection()
        return fd

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over."""
        if exchange is not self.connection.exchange:
            return
        if not self.take_completion():
            self._forget_lost(exchange)
            return
        if exchange.response.head_is_out:
            self._outbox.cut(exchange, str(why))
            return
        self.leave_exchange(exchange)
        exchange.keep_alive = False
        # The body stays open: the app may be inside a read of it.
        self._refuse(exchange, why)

    def refuse(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer an exchange whose body does not come, or cannot be kept."""
        self.leave_exchange(exchange)
        exchange.keep_alive = False
        release_exchange(exchange)
        self._refuse(exchange, why)

    # Receiving

    def _start_first(self, exchanges: list[Exchange]) -> None:
        """Start the first of these; the others wait."""
        exchange = exchanges[0]
        if len(exchanges) > 1:
            self._waiting.extend(exchanges[1:])
            self._pause_if_full()
        if exchange.is_for_loop:
            self._answer_without_app(exchange)
            return
        exchange.connection = self.connection
        self.connection.exchange = exchange
        self._progress.move()
        self.transition(REQUEST)
        protocol = self._protocol
        if (
            exchange.body is not None
            or self._waiting
            or protocol.unparsed
            or protocol.is_continue_due
            or self._is_closing_soon
            or (self._progress.plain_seconds > RETURN_SECONDS and self._may_return_to_lane)
        ):
            self._prepare_exchange(exchange)
        service = self._service
        if service.health_paths is not None and (probe := service.health_paths.probe_of(exchange)):
            exchange.is_probe = True
            self._progress.stay_on_loop()
            # Soon, and not now: thousands of them, pipelined, would be as many calls deep.
            service.loop.call_soon(self._on_probe, exchange, probe)
            return
        service.begin(exchange)
        self._executor.submit(self.connection.run, exchange)

    def _prepare_exchange(self, exchange: Exchange) -> None:
        """See to the less common needs of an exchange."""
        self.take_completion()
        if self._service.is_draining:
            exchange.keep_alive = False
        body = exchange.body
        if self._waiting or self._protocol.unparsed or (body is not None and body.is_chunked):
            self._progress.stay_on_loop()
        if isinstance(body, LiveBody):
            post = self._executor.post
            body.on_low = lambda: post(self._on_body_low, exchange, None)
            if self._protocol.is_continue_due and body is self._protocol.live_body:
                body.on_wanted = lambda: post(self._on_body_wanted, exchange, None)

    def _expect_more(self) -> None:
        """Wait for the rest of a request that has begun; nothing else is under way."""
        if not self._protocol.is_mid_body:
            self._progress.stay_on_loop()
        if self.state <= IDLE or self._protocol.is_mid_body:
            self._progress.move()  # a head must be complete in time; a body must only move
        self.transition(Event.BEGIN)
        if self._protocol.is_continue_due:
            # RFC 9110 10.1.1: the body is wanted, and every earlier response is out.
            self._protocol.is_continue_due = False
            self._progress.stay_on_loop()
            self._transport.write(CONTINUE)

    def _pause_if_full(self) -> None:
        """Stop reading while too much waits, or what may not be HTTP; `_start_next` and `_on_body_low` start it again."""
        body, waiting = self._protocol.live_body, self._waiting
        is_full = len(waiting) >= self._service.config.max_pipelined or (body is not None and body.is_full)
        if is_full or (waiting and waiting[-1].asks_websocket) or self.connection.wire is not self:
            self._transport.pause_reading()

    def _on_body_low(self, exchange: Exchange, _: None) -> None:
        if (
            exchange is self.connection.exchange
            and not self._waiting
            and self.state <= LOOP_ENDS
            and not self._is_at_eof
        ):
            self._progress.move()
            self._transport.resume_reading()

    def _on_body_wanted(self, exchange: Exchange, _: None) -> None:
        # After the response's head an interim response would be part of its body.
        if self.state > LOOP_ENDS or exchange is not self.connection.exchange:
            return  # the client has gone meanwhile
        is_due = self._protocol.is_continue_due and exchange.body is self._protocol.live_body  # and not the next one's
        if is_due and not exchange.response.head_is_out:
            self._protocol.is_continue_due = False
            self._progress.move()
            self._transport.write(CONTINUE)

    def _on_probe(self, exchange: Exchange, probe: str) -> None:
        self._outbox.on_complete(
            exchange, answer(probe, self._service.warning(), exchange, self._service.common_fields)
        )

    def _answer_without_app(self, exchange: Exchange) -> None:
        """Answer a ping or a refusal without the app; see whether it may have a WebSocket."""
        if exchange.asks_websocket:
            self._offer_websocket(exchange)
        elif exchange.ping is not None:
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
        # A lack of room is told once for all (core/budgets.py).
        level = logging.DEBUG if why.status == 503 else logging.INFO
        logger.log(level, "%s: answered %d: %s", self.connection.name, why.status, why)
        if service.access_log is not None:
            service.access_log.write_refused(self.connection, exchange, why)
        if self.take_completion():  # else the client has gone on the connection's way here
            self._transport.write(error_response(why.status, str(why), exchange, service.common_fields))
            self._linger()

    # Ending

    def end_exchange(self, exchange: Exchange) -> None:
        """End an exchange whose response is with the transport, or lost; go on with the connection."""
        if self._outbox.is_write_paused and (exchange.keep_alive or exchange.counted_bytes) and self.state <= LOOP_ENDS:
            # A client that does not read its responses gets no more of them made; what waits in memory stays counted.
            self._outbox.when_writable(functools.partial(self.end_exchange, exchange))
            return
        self.leave_exchange(exchange)
        if self._service.access_log is not None:
            self._outbox.note_end(exchange, ANSWERED)
        if exchange.counted_bytes:
            release_memory(self.connection, exchange)
        self.connection.end_exchange(exchange)
        if self.state > LOOP_ENDS:
            if self.state == State.CLOSED:
                self._service.lost.discard(exchange)
                self._leave_connection()
            return
        body = exchange.body
        if exchange.is_from_front and not self._protocol.is_mid_message:
            self._close()  # a front server sends nothing after its request
            return
        if not exchange.keep_alive or (body is not None and body is self._protocol.live_body):
            self._linger()
            return
        self._progress.move()
        self.transition(DONE)
        self._start_next()

    def _start_next(self) -> None:
        """Go on with what has come while the last exchange ran."""
        if not self._is_at_eof and not self._transport.is_reading():
            self._transport.resume_reading()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._progress.stay_on_loop()
            self._start_first(waiting)
            return
        exchanges = self._protocol.receive(b"") if self._protocol.has_unparsed else []
        if self._is_at_eof and not self._protocol.has_unparsed:
            self._protocol.receive_eof()
        if exchanges:
            self._progress.stay_on_loop()
            self._start_first(exchanges)
        elif self._is_at_eof or (self._is_closing_soon and not self._service.is_replaced):
            self._close()
        elif self._protocol.is_mid_message:
            self._expect_more()
        elif self._progress.plain_seconds > RETURN_SECONDS:
            self._return_to_lane()
