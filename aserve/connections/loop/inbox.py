"""The input side of the event loop's wire: exchanges go to the app one after another.

Owns:     Inbox: the queue of exchanges; pauses of reading; live bodies, and `100 Continue`; whether another request is expected. Receiving: the
          wire's methods for an inbox.
Thread:   event loop only; the reader of a live body posts its calls.
Spec:     RFC 9112 section 9.3.2 (pipelining); RFC 9110 section 10.1.1 (Expect).
Not here: parsing (protocols/), sending (outbox.py), the states (wire_loop.py), threads (workers/executor.py).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from ...core.body import LiveBody
from ...core.errors import RequestRefused
from ...core.exchange import CLIENT_GONE, Exchange, refused_exchange
from ...protocols.base import WireProtocol
from ...wsgi.finalizers import refuse_inside
from ..connection import Connection, release_exchange
from ..health import answer
from ..progress import RETURN_SECONDS, Progress
from ..states import Event, State
from .outbox import Outbox
from .upgrading import end_offer, open_websocket
from .websocket_request import Leaving

logger = logging.getLogger("aserve")

# Measured: a member looked up in an enum class costs CPython 3.11 three times a global.
IDLE, REQUEST = State.IDLE, Event.REQUEST

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Receiving(Leaving, Protocol):
    """The wire, in an inbox's view. An argument of each call: an attribute would make a cycle, freed only by the garbage collector."""

    @property
    def state(self) -> State:
        """The state of the connection."""

    def transition(self, event: Event) -> None:
        """Change the state; no worker has an exchange."""

    def take_completion(self) -> bool:
        """Take the end of the exchange over from a worker; False: the connection is closing already."""

    def close(self) -> None:
        """Send pending octets, then close."""

    def answer_error(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error, and close."""


class Inbox:
    __slots__ = (
        "_connection", "_executor", "_outbox", "_progress", "_service", "_waiting", "is_at_eof", "is_closing_soon", "protocol",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, outbox: Outbox, progress: Progress, protocol: WireProtocol | None = None
    ) -> None:
        """Make the inbox of a wire; `protocol` None: the listener's."""
        self._connection, self._outbox, self._progress = connection, outbox, progress
        self._service = connection.service
        self._executor = connection.executor
        self.protocol: WireProtocol = connection.service.new_protocol() if protocol is None else protocol
        self.is_at_eof = False  # the client will send no more
        self.is_closing_soon = False  # after the client's last request, or as the server ends
        self._waiting: list[Exchange] = []  # pipelined behind the running exchange; few: max_pipelined

    # Parsed exchanges

    def wait(self, exchanges: list[Exchange]) -> None:
        """Queue these exchanges until the app has answered the running one."""
        self._waiting.extend(exchanges)
        self._progress.stay_on_loop()  # pipelined
        if not self._outbox.is_behind:  # a client that sends need not read
            self._progress.move()
        self._pause_if_full()

    def start(self, wire: Receiving, exchanges: list[Exchange]) -> None:
        """Start the first; the rest wait."""
        exchange = exchanges[0]
        if len(exchanges) > 1:
            self._waiting.extend(exchanges[1:])
            self._pause_if_full()
        if exchange.is_for_loop:
            self._answer_without_app(wire, exchange)
            return
        connection, service, progress, protocol = self._connection, self._service, self._progress, self.protocol
        exchange.connection = connection
        connection.exchange = exchange
        progress.quiet_seconds = 0.0  # `move`, see there
        wire.transition(REQUEST)
        if (
            exchange.body is not None
            or self._waiting
            or protocol.unparsed
            or protocol.is_continue_due
            or self.is_closing_soon
            or (progress.plain_seconds > RETURN_SECONDS and self.may_return_to_lane)
        ):
            self._prepare(wire, exchange)
        if service.health_paths is not None and (probe := service.health_paths.probe_of(exchange)):
            exchange.is_probe = True
            progress.stay_on_loop()
            # Soon, and not now: thousands of pipelined ones would be as many calls deep.
            service.loop.call_soon(self._on_probe, exchange, probe)
            return
        service.begin(exchange)
        self._executor.submit(connection.run, exchange)

    def start_next(self, wire: Receiving) -> None:
        """Start the next exchange, received during the last one."""
        protocol, transport, exchanges = self.protocol, self._outbox.transport, self._waiting
        if not self.is_at_eof and not transport.is_reading():
            transport.resume_reading()
        if exchanges:
            self._waiting = []
        else:
            if protocol.has_unparsed:
                exchanges = protocol.receive(b"")
            if self.is_at_eof and not protocol.has_unparsed:
                self.drop_incomplete(is_done=False)
        if exchanges:
            self._progress.stay_on_loop()
            self.start(wire, exchanges)
        elif self.is_at_eof or (self.is_closing_soon and not self._service.is_replaced):
            wire.close()
        elif protocol.is_mid_message:
            self.expect_more(wire)

    def expect_more(self, wire: Receiving) -> None:
        """Wait for the rest of a request; no exchange is running."""
        protocol, progress = self.protocol, self._progress
        if not protocol.is_mid_body:
            progress.stay_on_loop()
        if wire.state <= IDLE or protocol.is_mid_body:
            progress.move()  # a head must be complete in time; a body must only move
        wire.transition(Event.BEGIN)
        if protocol.is_continue_due:
            # RFC 9110 10.1.1: the body is needed now, and every earlier response is out.
            protocol.is_continue_due = False
            progress.stay_on_loop()
            self._outbox.transport.write(CONTINUE)

    def _prepare(self, wire: Receiving, exchange: Exchange) -> None:
        """Prepare an exchange that needs more than a plain one."""
        wire.take_completion()
        if self._service.is_draining:
            exchange.keep_alive = False
        body = exchange.body
        if self._waiting or self.protocol.unparsed or (body is not None and body.is_chunked):
            self._progress.stay_on_loop()
        if isinstance(body, LiveBody):
            post = self._service.executor.post
            body.before_wait = partial(refuse_inside, self._service.loop)
            body.on_low = lambda: post(self._on_body_low, exchange, None)
            if self.protocol.is_continue_due and body is self.protocol.live_body:
                body.on_wanted = lambda: post(self._on_body_wanted, exchange, None)

    def _pause_if_full(self) -> None:
        """Stop reading while too many octets wait, or octets that may not be HTTP; `start_next` and `_on_body_low` start reading again."""
        body, waiting, exchange = self.protocol.live_body, self._waiting, self._connection.exchange
        is_full = len(waiting) >= self._service.config.max_pipelined or (body is not None and body.is_full)
        is_offered = exchange is not None and exchange.websocket is not None
        if is_full or is_offered or (waiting and waiting[-1].asks_websocket):
            self._outbox.transport.pause_reading()

    def _on_body_low(self, exchange: Exchange, _: None) -> None:
        """The reader of a live body has room for more."""
        is_current = self._outbox.is_current(exchange)
        if is_current and not self._waiting and not self._outbox.is_over and not self.is_at_eof:
            self._progress.move()
            self._outbox.transport.resume_reading()

    def _on_body_wanted(self, exchange: Exchange, _: None) -> None:
        """The reader of a live body waits for the first octets."""
        # Behind the response's head an interim response would be part of the body.
        if not self._outbox.is_current(exchange) or self._outbox.is_over:
            return  # the client has left meanwhile
        is_due = self.protocol.is_continue_due and exchange.body is self.protocol.live_body  # and not a later one's
        if is_due and not exchange.response.head_is_out:
            self.protocol.is_continue_due = False
            self._progress.move()
            self._outbox.transport.write(CONTINUE)

    # Without the app

    def _on_probe(self, exchange: Exchange, probe: str) -> None:
        service = self._service
        self._outbox.on_complete(exchange, answer(probe, service.warning(), exchange, service.common_fields))

    def _answer_without_app(self, wire: Receiving, exchange: Exchange) -> None:
        """Answer a ping or a refusal without the app; offer a WebSocket to the app if the client asks for one."""
        if exchange.asks_websocket:
            self._offer_websocket(wire, exchange)
        elif exchange.ping is not None:
            self._outbox.transport.write(exchange.ping(self._service.warning()))
            wire.close()
        elif exchange.refusal is not None and exchange.is_silent:
            logger.warning("%s: closed: %s", self._service.name, exchange.refusal)
            wire.close()
        else:
            assert exchange.refusal is not None
            wire.answer_error(exchange, exchange.refusal)

    def _offer_websocket(self, wire: Receiving, exchange: Exchange) -> None:
        """Start an exchange whose client asks for a WebSocket: the app may answer, or begin one."""
        service, connection, progress = self._service, self._connection, self._progress
        exchange.is_for_loop, exchange.connection = False, connection
        is_probe = service.health_paths is not None and service.health_paths.probe_of(exchange)
        if is_probe or not service.websockets.is_offered():
            self.protocol.go_on()
            self.start(wire, [exchange])
            return
        try:
            websocket = open_websocket(wire, connection, exchange)
        except RequestRefused as why:
            exchange.keep_alive = False
            wire.answer_error(exchange, why)
            return
        connection.exchange, connection.wire = exchange, websocket
        progress.move()
        progress.stay_on_loop()
        wire.transition(REQUEST)
        self._prepare(wire, exchange)
        if self.protocol.unparsed:
            self._outbox.transport.pause_reading()  # the next octets may not be HTTP; an end of the client is still seen
        elif self.is_at_eof or service.websockets.is_ending:
            websocket.end_input()
        service.begin(exchange)
        self._executor.submit(websocket.run, exchange)

    def stay(self) -> None:
        """Go on with HTTP: the app has answered a request for a WebSocket."""
        self.protocol.go_on()
        if not self.is_at_eof and not self._outbox.transport.is_closing():
            self._outbox.transport.resume_reading()

    def take_unparsed(self) -> bytes:
        """Return the octets after the request, and forget them: another protocol's octets."""
        octets, self.protocol.unparsed = self.protocol.unparsed, b""
        return octets

    # Ending

    @property
    def has_more(self) -> bool:
        """Whether octets behind the running request were read."""
        return bool(
            self._waiting or self.protocol.unparsed or self.protocol.is_mid_message or self.protocol.is_continue_due
        )

    @property
    def may_return_to_lane(self) -> bool:
        """Whether there is a fast path for this connection, and another request is expected."""
        return self._service.take_back is not None and not self.is_closing_soon

    def close_soon(self) -> None:
        """Expect no further request: the server ends."""
        self.is_closing_soon = True
        end_offer(self._connection)

    def end(self, is_done: bool) -> None:
        """Handle the end of the client's octets: earlier requests are still answered; `is_done`: see `_drop`."""
        self.is_at_eof = self.is_closing_soon = True
        if not self.protocol.has_unparsed:
            self.drop_incomplete(is_done)
        if not self.protocol.unparsed:  # else the app has something to read first
            end_offer(self._connection)

    def refused(self, why: RequestRefused) -> Exchange | None:
        """Return the exchange of an incomplete request, for the access log; None: nothing is known."""
        known = self.protocol.known
        return refused_exchange(why, known) if known is not None else None

    def drop_waiting(self, is_done: bool) -> None:
        """Drop exchanges not begun by a worker."""
        waiting, self._waiting = self._waiting, []
        self._drop(waiting, is_done)

    def drop_incomplete(self, is_done: bool) -> None:
        """Drop the request in arrival: the rest does not come."""
        incomplete = self.protocol.incomplete
        self.protocol.receive_eof()
        self._drop(incomplete, is_done)

    def _drop(self, exchanges: list[Exchange], is_done: bool) -> None:
        """Release exchanges, and log them; `is_done`: the response before them announced the end of the connection."""
        for exchange in exchanges:
            release_exchange(exchange)
            if not is_done:
                log_unanswered(self._connection, exchange)


def log_unanswered(connection: Connection, exchange: Exchange) -> None:
    """Log a request not begun by a worker: the client has left."""
    if exchange.refusal is None and exchange.ping is None:
        exchange.connection, exchange.end = connection, CLIENT_GONE
        connection.end_exchange(exchange)
