"""The event loop's wire: one transport's life.

Owns:     LoopWire: the state, and all changes to the state; the end of an exchange; closing, lingering, leaving; freeing resources when the
          transport is lost.
Thread:   event loop; workers' calls, under a banner.
States:   states.py.
Spec:     RFC 9112 section 9 (connection management).
Not here: receiving (inbox.py), sending (outbox.py; for workers: sending.py), the clocks (progress.py, timeouts.py), parsing (protocols/),
          calling the app (wsgi/gateway.py), threads (workers/executor.py).

Each part changes only its own attributes. An inbox gets the wire as an argument of each call; an outbox holds the wire until `leave`.

Longer than other files: the methods called by asyncio, the server and other rooms are here, and all of them change the one state.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from typing import TYPE_CHECKING, Callable, cast

from ...core.body import BufferedBody, LiveBody
from ...core.errors import RequestRefused
from ...core.exchange import ANSWERED, CLIENT_GONE, CUT, TIMED_OUT, Exchange
from ...protocols.one_request import OneRequest
from ...wsgi import FileResponse, Reply
from ...wsgi.response import error_response
from ..connection import LOST, Connection, release_exchange
from ..progress import RETURN_SECONDS, Progress
from ..states import TRANSITIONS, Event, State
from ..wire_log import tell
from .inbox import Inbox
from .large_bodies import send_rest
from .outbox import Outbox
from .response_memory import release_memory
from .sending import Sending, has_left
from .timeouts import end_late
from .upgrading import end_offer

if TYPE_CHECKING:
    from ...protocols.base import WireProtocol
    from .pump import Large

logger = logging.getLogger("aserve")

# Measured: a member looked up in an enum class costs CPython 3.11 three times a global.
NEW, IDLE, RUNNING, LOOP_ENDS = State.NEW, State.IDLE, State.RUNNING, State.LOOP_ENDS
DONE, TAKE_COMPLETION = Event.DONE, Event.TAKE_COMPLETION


class LoopWire(asyncio.Protocol):
    """Reads and writes below a connection on the event loop."""

    __slots__ = (
        "_inbox", "_initial", "_is_new", "_lock", "_outbox", "_progress", "_rest", "_sending", "_service", "_transport", "connection", "reply", "state",
    )  # fmt: skip

    _transport: asyncio.Transport
    way = "the event loop"
    in_lane = False

    def __init__(
        self, connection: Connection, octets: bytes = b"", is_new: bool = True, can_bypass: bool = True,
        rest: tuple[bytes | memoryview, ...] = (), protocol: WireProtocol | None = None,
    ) -> None:  # fmt: skip
        """
        Make the wire of a connection.

        `octets`: of the connection's requests, read already. `is_new`: the client is not identified yet. `can_bypass`: octets may go to the socket
        past the transport. `rest`: the unsent octets of an exchange with a whole response. `protocol`: the one to read with; None: the listener's.
        """
        self.connection = connection
        self._service = connection.service
        self._lock = connection.lock  # guards state where a worker meets the loop
        self.state = NEW
        self._progress = Progress(connection.service.config)
        self._outbox = Outbox(connection, can_bypass)
        self._inbox = Inbox(connection, self._outbox, self._progress, protocol)
        self._sending = Sending(connection, self._outbox, self._progress)
        self.reply: Callable[[Exchange, Reply], bool] = self._sending.reply  # see Wire.reply; each request saves a call
        self._initial, self._rest = octets, rest
        self._is_new = is_new

    @classmethod
    def kept(cls, connection: Connection) -> LoopWire:
        """Make the wire of an idle connection, with requests behind it in another server."""
        wire = cls(connection, is_new=False)
        wire.transition(Event.KEPT)
        return wire

    # --- called from a worker (with --threads 0: on the event loop) ---

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
        """Take the end of the exchange over from a worker; False: the connection is closing already."""
        with self._lock:
            if self.state == RUNNING:
                self.transition(TAKE_COMPLETION)
            return self.state <= LOOP_ENDS

    def complete(self, exchange: Exchange) -> None:
        """See Owner.complete."""
        self.leave_exchange(exchange)
        self._progress.quiet_seconds = 0.0  # `move`, see there
        self.transition(DONE)

    def leave_exchange(self, exchange: Exchange) -> None:
        """Take this exchange from the connection; on the loop, or under the lock."""
        self.connection.exchange = None
        if self._service.in_flight is not None:
            self._service.in_flight.end(exchange)

    # --- called on the event loop ---

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, or comes from another wire: go on at the same point."""
        connection, service = self.connection, self._service
        self._transport = cast(asyncio.Transport, transport)
        self._outbox.connect(self, self._transport)
        service.connections.add(self)
        if service.is_draining:  # begun since this wire was made: `drain` did not reach the wire
            self._inbox.close_soon()
        if self._is_new and not connection.identify(transport):
            self.close()
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
        """Take over an exchange in the app."""
        if self._inbox.is_closing_soon:
            exchange.keep_alive = False
        if isinstance(self._inbox.protocol, OneRequest):
            self._inbox.protocol.drop_further()
        self._progress.stay_on_loop()
        if self._service.in_flight is not None:
            self._service.in_flight.begin(exchange)
        self.transition(Event.ADOPT)

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        if self.state >= RUNNING and not self.take_completion():
            self.drop_octets(data)
            return
        inbox = self._inbox
        exchanges = inbox.protocol.receive(data)
        if self.connection.exchange is not None:
            inbox.wait(exchanges)
        elif exchanges:
            inbox.start(self, exchanges)
        elif inbox.protocol.is_mid_message:  # otherwise an empty line (RFC 9112 2.2)
            inbox.expect_more(self)

    def eof_received(self) -> bool:
        """The client will send no more; earlier requests are still answered."""
        exchange = self.connection.exchange
        if exchange is not None and has_left(exchange) and not (exchange.response and exchange.response.head_is_out):
            exchange.end = CLIENT_GONE
        self._inbox.end(self.state > LOOP_ENDS)
        if not self.take_completion() or self.connection.exchange is None:
            self.close()
        return True  # keep the transport open for the response

    def pause_writing(self) -> None:
        """The transport's buffer is over the limit."""
        self._progress.move()
        self._outbox.pause_writing()

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._progress.move()
        self._outbox.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone, and the file descriptor closes right after this."""
        is_detached, is_done = self.state == State.DETACHED, self.state > LOOP_ENDS
        leave_limit = functools.partial(self._service.connections.discard, self)
        inbox, outbox = self._inbox, self._outbox
        with self._lock:
            self.transition(Event.LOST)
            outbox.lose()
        if is_detached:  # the connection goes on without us
            leave_limit()
            outbox.leave()
            return
        # Each step runs even if another fails; the last two wake a worker that waits for the loop.
        for step in (
            leave_limit, functools.partial(inbox.drop_waiting, is_done), functools.partial(inbox.drop_incomplete, is_done), outbox.stop, outbox.go_on,
            functools.partial(end_offer, self.connection),
        ):  # fmt: skip
            try:
                step()
            except Exception:  # a bug in aserve, or a failing disk
                logger.exception("internal error; please report this as a bug in aserve")
        if self.connection.exchange is None:
            self._leave_connection()

    # Reading the state

    @property
    def exchange(self) -> Exchange | None:
        """The exchange in the app, not those waiting behind."""
        return self.connection.exchange

    @property
    def incomplete_body(self) -> BufferedBody | LiveBody | None:
        """The request body in arrival."""
        return self._inbox.protocol.body

    @property
    def fd(self) -> int:
        """The descriptor; -1: there is none any more."""
        return self._outbox.fd

    @property
    def idle_seconds(self) -> float:
        """The time of the wait for another request; 0: no such wait."""
        return self._progress.quiet_seconds if self.state == IDLE else 0.0

    @property
    def unsent_bytes(self) -> int:
        """Octets in the transport."""
        return self._transport.get_write_buffer_size()

    # An exchange, and the end

    def go_on_large(self, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
        """Send the rest of a body whose beginning the pump has sent."""
        send_rest(self._outbox, large, reply)

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over."""
        if exchange is not self.connection.exchange:
            return
        if not self.take_completion():
            # The client has left, or is about to, and the worker will not end the exchange any more.
            self.leave_exchange(exchange)
            release_memory(self.connection, exchange)
            self._outbox.close_spool(exchange.spool)
            self._service.lost.add(exchange)  # see Service.end_lost
            if self.state == State.CLOSED:
                self._leave_connection()
            return
        if exchange.response.head_is_out:
            self._outbox.cut(exchange, str(why))
            return
        self.leave_exchange(exchange)
        exchange.keep_alive = False
        # The body stays open: the app may be inside a read.
        self.answer_error(exchange, why)

    def refuse(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer an exchange with an error before the app: the body does not come or cannot be kept, or no thread was free."""
        self.leave_exchange(exchange)
        exchange.keep_alive = False
        release_exchange(exchange)
        self.answer_error(exchange, why)

    def answer_error(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error, and close: the place of the client's next request is unknown."""
        service = self._service
        # A lack of room or of threads is logged once for all requests (core/budgets.py, server/server.py).
        level = logging.DEBUG if why.status == 503 else logging.INFO
        logger.log(level, "%s: answered %d: %s", self.connection.name, why.status, why)
        if service.ends is not None:
            service.ends.write_refused(self.connection, exchange, why)
        if self.take_completion():  # otherwise the client has left on the connection's way here
            self._transport.write(error_response(why.status, str(why), exchange, service.common_fields))
            self._linger()

    def end_exchange(self, exchange: Exchange) -> None:
        """End an exchange whose response is with the transport, or lost; go on with the connection."""
        outbox, protocol = self._outbox, self._inbox.protocol
        if outbox.is_write_paused and (exchange.keep_alive or exchange.counted_bytes) and self.state <= LOOP_ENDS:
            # While a client does not read responses, the next is not made; octets waiting in memory stay counted.
            outbox.when_writable(functools.partial(self.end_exchange, exchange))
            return
        self.leave_exchange(exchange)
        if self._service.ends is not None:
            outbox.note_end(exchange, ANSWERED)
        if exchange.counted_bytes:
            release_memory(self.connection, exchange)
        self.connection.end_exchange(exchange)
        if self.state > LOOP_ENDS:
            if self.state == State.CLOSED:
                self._service.lost.discard(exchange)
                self._leave_connection()
            return
        body = exchange.body
        if exchange.is_from_front and not protocol.is_mid_message:
            self.close()  # a front server sends nothing after the request
            return
        if not exchange.keep_alive or (body is not None and body is protocol.live_body):
            self._linger()
            return
        self._progress.quiet_seconds = 0.0  # `move`, see there
        self.transition(DONE)
        self._inbox.start_next(self)
        if self._progress.plain_seconds > RETURN_SECONDS and self.state == IDLE:
            self.return_to_lane()

    def drop(self, exchange: Exchange) -> None:
        """Close the connection of a client that has left before the begin in a worker."""
        exchange.end = CLIENT_GONE
        self._service.lost.discard(exchange)
        self.leave_exchange(exchange)
        self.connection.end_exchange(exchange)
        if self.state == State.CLOSED:
            self._leave_connection()
        else:
            self.transition(Event.CLOSE)
            self._transport.abort()

    # A WebSocket

    def stay(self) -> None:
        """See Leaving.stay."""
        self._inbox.stay()

    def leave_transport(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes, bool, bool] | None:
        """See Leaving.leave_transport."""
        if self.state != LOOP_ENDS or self._transport.is_closing():
            return None
        self.transition(Event.DETACH)
        octets, is_at_eof = self._inbox.take_unparsed(), self._inbox.is_at_eof
        self._outbox.leave()
        self._transport.set_protocol(protocol)
        if not is_at_eof:
            self._transport.resume_reading()
        return self._transport, octets, self._outbox.is_write_paused, is_at_eof

    # Time-outs

    def on_second(self) -> None:
        """End the connection, or the request, if quiet for too long; called once a second."""
        end_late(self, self._progress, self._inbox, self._outbox)

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader."""
        # Completion first: from then on no worker can end the exchange between this check and the abort.
        if self.take_completion() and exchange is self.connection.exchange and exchange.response.head_is_out:
            exchange.end = TIMED_OUT
            self.reset(why)

    # Closing

    def drain(self) -> None:
        """Finish the running exchange, then close."""
        self._inbox.close_soon()
        if self._service.is_replaced:
            # Wait ARRIVING_SECONDS, as the next request may be on the way: the running response may have allowed one.
            self._progress.move()
        elif self.take_completion() and self.connection.exchange is not None:
            self.connection.exchange.keep_alive = False
        elif self.state == IDLE:
            self.close()

    def close(self) -> None:
        """Send the pending octets, then close."""
        if self.state <= State.LINGERING:
            self._progress.move()
            self.transition(Event.CLOSE)
            self._transport.close()

    def _linger(self) -> None:
        """Send the pending octets and our FIN, then read on for a while."""
        if self._inbox.is_at_eof or not self._transport.can_write_eof():
            self.close()
            return
        self._progress.move()
        self.transition(Event.LINGER)
        try:
            self._transport.write_eof()
        except OSError:
            pass  # the client has reset the connection: reading on finds out
        self._transport.resume_reading()

    def drop_octets(self, data: bytes) -> None:
        """Read and drop octets: a reset could destroy our last response; a TLS client may send after our closure alert."""
        if self.state < State.LINGERING:
            return
        if self.state == State.LINGERING:
            self._progress.move()
        # A front server's body, of uwsgi or SCGI, has only the limit of time.
        if self._progress.drop(len(data)) and not self._inbox.protocol.is_single:
            self.close()

    def abort(self) -> None:
        """Close at once, whatever is unfinished."""
        exchange = self.connection.exchange  # once: a worker may end the exchange at any time
        if exchange is not None:
            self._outbox.note_end(exchange, CUT)
        self._transport.abort()

    def reset(self, why: str) -> None:
        """See Owner.reset."""
        logger.info("%s: connection aborted: %s", self.connection.name, why)
        with self._lock:
            self.transition(Event.CLOSE)
        self._outbox.reset()

    # Leaving

    def detach(self, withdraw: Callable[[], bool] | None = None) -> int | None:
        """
        Give away a connection in a wait for a request; return a descriptor. None: no such wait, or the connection cannot go.

        `withdraw`: give away a connection with a request waiting for a thread, if this call takes the request back.

        Raises:
            OSError: no descriptor is left.
        """
        if not self._may_go(withdraw is not None):
            return None
        fd = os.dup(self._outbox.fd)
        if withdraw is not None:
            exchange = self.connection.exchange
            if exchange is None or not withdraw():
                os.close(fd)
                return None
            self.take_completion()
            self.leave_exchange(exchange)
        self.transition(Event.DETACH)
        self._transport.close()
        self._leave_connection()
        return fd

    def _may_go(self, has_request: bool) -> bool:
        """Whether the connection waits for a request, or `has_request`, and no octet is in this process."""
        if not self._outbox.is_empty:
            return False
        if has_request:
            return RUNNING <= self.state <= LOOP_ENDS and not self._inbox.has_more
        # Behind the PROXY protocol, a client without a request so far cannot be told from the proxy.
        return self.state == IDLE or (self.state == NEW and self._is_new)

    def return_to_lane(self) -> None:
        """Give an idle connection back to the fast path, if accepted there."""
        self._progress.stay_on_loop()
        outbox = self._outbox
        if not self._inbox.may_return_to_lane or not outbox.may_enter_lane:
            return
        session = () if outbox.can_bypass else (outbox.session,)
        if self._service.take_back(self.connection, outbox.transport_fd, *session):  # type: ignore[misc]
            if self._service.tells_wire:
                tell(self.connection, "goes back to the fast path")
            self.transition(Event.DETACH)
            self._transport.close()

    def _leave_connection(self) -> None:
        self.connection.wire = LOST  # breaks a cycle, freed only by the garbage collector
        self._outbox.leave()
