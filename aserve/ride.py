"""A connection's time in the lane, and its way out.

Owns:     Ride, the `connection` of exchanges in the lane: run the app, send
          the response; Departures: making a Connection of one that must leave.
Thread:   two, under banners: workers ride, the event loop makes transports.
Not here: reading (lane.py); responses in pieces, from files, to clients that
          are slow (outgoing.py, to which such a ride leads).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any, Callable

from ._cparsers import lib
from .connection import Connection
from .errors import ClientDisconnected, RequestRefused, ResponseTruncated, WrittenOff
from .exchange import Exchange
from .protocols.one_request import OneRequest
from .service import Service
from .states import State
from .workers.executor import Executor
from .workers.inline import InlineExecutor
from .wsgi import Reply

logger = logging.getLogger("aserve")

# A response up to this size mostly fits a socket's buffer (208 KiB on Linux).
RIDE_BYTES = 1 << 17

_reply = lib.lane_reply


class Ride:
    """One connection in the lane."""

    __slots__ = (
        "_access_log", "_departures", "_early", "_handover", "_lock", "_respond", "_service", "_set", "base_environ", "exchange", "fd", "moved_at", "remote_addr", "remote_port",
    )  # fmt: skip

    def __init__(self, departures: Departures, service: Service, fd: int, peer: str) -> None:
        self._departures = departures
        self._set = departures.set
        self._service = service
        self._respond = service.gateway.respond
        self._access_log = service.access_log
        self.base_environ = service.base_environ
        self.remote_addr, _, self.remote_port = peer.partition("\0")
        # Guards the four below: a second thread of the app may send something as the worker ends the exchange.
        self._lock = threading.Lock()
        self.fd = fd  # -1 once the connection has left the lane: the number may be another's
        self.exchange: Exchange | None = None  # that is with the app, or whose body is still to come
        self._handover: Handover | None = None  # set once the connection leaves; it never comes back
        self._early: list[bytes] = []  # with --threads 0: what the socket has not taken before the app has returned
        self.moved_at = 0  # the lane's second in which the last part of that body came

    # --- called from a worker (with --threads 0: on the event loop) ---

    def run(self, exchange: Exchange) -> None:
        """Let the app answer; send its response, or leave the lane with it."""
        try:
            reply: Any = self._respond(exchange)
            if type(reply) is bytes:
                head, body = reply, b""
            elif type(reply) is tuple and len(reply[1]) <= RIDE_BYTES:
                head, body = reply
            else:
                self._leave(exchange, reply)
                return
            with self._lock:
                is_here = self._handover is None and not self._early
                if is_here:
                    self.exchange = None  # from here on nobody else can take the connection
            if not is_here:
                self._leave(exchange, reply)
                return
            size, body_size = len(head), len(body)
            sent = _reply(self._set, self.fd, head, size, body, body_size, exchange.keep_alive)
            if sent != size + body_size:
                self._leave_with(exchange, (head + body)[max(sent, 0) :])
                return
            if self._access_log is not None:
                self._access_log.write(exchange)
            if exchange.body is not None:
                exchange.body.close()
            exchange.response = None  # a cycle, which would wait for the garbage collector
        except WrittenOff:
            raise
        except BaseException:  # a bug in aserve: this request is lost, nothing else
            logger.exception("internal error; please report this as a bug in aserve")
            self._lose(exchange)

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Send a piece of the response before the app has returned; see OutgoingHalf.send."""
        if self._departures.executor.is_inline:
            self._send_early(exchange, octets)
        else:
            self._hand_over(exchange).wait().send(exchange, octets)

    def _send_early(self, exchange: Exchange, octets: bytes) -> None:
        # Nobody can make a transport while the app runs. PEP 3333: what write() is given may not wait for its end.
        with self._lock:
            if exchange is not self.exchange:
                raise ClientDisconnected("the response has ended")
            if not self._early:
                try:
                    octets = octets[os.write(self.fd, octets) :]
                except OSError:
                    pass  # full, or gone: a transport meets the same, and knows what to do
            if octets:
                self._early.append(octets)

    def leave_refused(self, why: RequestRefused) -> None:
        """A body does not come: leave, and say so."""
        exchange = self.exchange
        assert exchange is not None
        self._depart(exchange, lambda connection: connection.refuse(exchange, why))

    def leave_failed(self, exchange: Exchange, why: RequestRefused) -> None:
        """A body cannot be kept: leave, and say so."""
        self._depart(exchange, lambda connection: connection.refuse(exchange, why))

    # --- called on the event loop ---

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Connection.take_over; the worker is inside the app, and has nothing to do with the descriptor."""
        self._depart(exchange, lambda connection: connection.take_over(exchange, why), None)

    def cut(self, exchange: Exchange, why: str) -> None:
        """See OutgoingHalf.cut; who waits there has left the lane."""
        if self._handover is not None:
            self._handover.then(lambda connection: connection.cut(exchange, why))

    # --- called from a worker (with --threads 0: on the event loop) ---

    def _leave(self, exchange: Exchange, reply: Reply) -> None:
        """Hand a reply of any form to a Connection."""
        if self._departures.executor.is_inline:
            self._depart(exchange, lambda connection: self._deliver_early(connection, exchange, reply), reply)
            return
        try:
            connection = self._hand_over(exchange).wait()
        except ClientDisconnected:
            _give_up(exchange, reply)
            return
        connection.deliver(exchange, reply)

    def _leave_with(self, exchange: Exchange, rest: bytes) -> None:
        """Let a Connection send what the socket has not taken of a whole response, before anything else."""
        try:
            with self._lock:
                handover = self._release(exchange, rest)
        except ClientDisconnected:
            _give_up(exchange, b"")
            return
        handover.then(lambda connection: None, b"")

    def _deliver_early(self, connection: Connection, exchange: Exchange, reply: Reply) -> None:
        early, self._early = self._early, []
        try:
            for octets in early:
                connection.send(exchange, octets)
        except ClientDisconnected as exc:
            _discard(reply)
            connection._on_abort(exchange, str(exc))
            return
        connection.deliver(exchange, reply)

    def _lose(self, exchange: Exchange) -> None:
        """Close the connection of an exchange that has failed, if it is still this one's."""
        self._depart(exchange, lambda connection: connection._on_abort(exchange, "internal error"))

    # --- called from both sides ---

    def _depart(self, exchange: Exchange, then: Callable[[Departed], None], reply: Reply | None = b"") -> None:
        """Leave the lane, and go on with `then` on the event loop; `reply`: see Handover.then."""
        try:
            self._hand_over(exchange).then(then, reply)
        except ClientDisconnected:
            if reply is not None:
                _give_up(exchange, reply)

    def _hand_over(self, exchange: Exchange) -> Handover:
        """
        Take the connection out of the lane, if nobody has; return what tells when the event loop has it.

        Raises:
            ClientDisconnected: the exchange has ended, or the connection.
        """
        with self._lock:
            if self._handover is not None:
                return self._handover  # the Connection itself knows which exchange it has
            if exchange is not self.exchange:
                raise ClientDisconnected("the response has ended")
            return self._release(exchange, b"")

    def _release(self, exchange: Exchange, rest: bytes) -> Handover:
        """Take it out of the lane, with the lock held; `rest` is what remains of a whole response."""
        fd, self.fd, self.exchange = self.fd, -1, None
        self._departures.rides.pop(fd, None)  # or the lane would keep it, and the Connection, for as long as it lives
        if fd < 0 or not lib.lane_release(self._set, fd):
            raise ClientDisconnected("the connection is closed")
        handover = self._handover = Handover(self._departures.executor, exchange)
        self._departures.leave(fd, self._service, rest, exchange, handover.on_ready)
        return handover


class Handover:
    """
    A connection on its way from the lane to the event loop.

    Whoever needs the Connection that it becomes waits for it, or says what is to be done then.
    """

    __slots__ = ("_connection", "_exchange", "_executor", "_is_done", "_lock", "_then")

    def __init__(self, executor: Executor | InlineExecutor, exchange: Exchange) -> None:
        self._executor = executor
        self._exchange: Exchange | None = exchange  # until it is done
        self._is_done = threading.Event()
        self._lock = threading.Lock()  # guards the two below until it is done
        self._connection: Departed | None = None  # None: it was lost on its way
        self._then: list[tuple[Callable[[Departed], None], Reply | None]] = []

    # --- called on the event loop ---

    def on_ready(self, connection: Departed | None) -> None:
        """The Connection is made, or lost."""
        with self._lock:
            self._connection = connection
            self._is_done.set()
        for then, reply in self._then:
            try:
                self._call(then, reply)
            except Exception:  # a bug in aserve: those behind it are called all the same
                logger.exception("internal error; please report this as a bug in aserve")
        self._then.clear()
        if connection is not None:
            self._exchange = None  # the connection's; this may be kept for longer

    def _call(self, then: Callable[[Departed], None], reply: Reply | None) -> None:
        if self._connection is not None:
            then(self._connection)
        elif reply is not None and self._exchange is not None:
            _give_up(self._exchange, reply)

    # --- called from both sides ---

    def then(self, then: Callable[[Departed], None], reply: Reply | None = None) -> None:
        """
        Call `then` with the Connection, on the event loop.

        If that is lost: give the exchange up, with its reply; None: the exchange is another's to end.
        """
        with self._lock:
            if not self._is_done.is_set():
                self._then.append((then, reply))
                return
        self._executor.post(self._call, then, reply)

    # --- called from a worker ---

    def wait(self) -> Departed:
        """
        Wait for the Connection.

        Raises:
            ClientDisconnected: it was lost on its way.
        """
        self._is_done.wait()
        if self._connection is None:
            raise ClientDisconnected("the client closed the connection")
        return self._connection


class Departures:
    """Connections on their way out of the lane."""

    def __init__(
        self,
        memory: Any,
        rides: dict[int, Ride],
        loop: asyncio.AbstractEventLoop,
        executor: Executor | InlineExecutor,
    ) -> None:
        self.set = memory.set  # the C structure of the lane
        self.rides = rides  # those in it, by descriptor
        self._memory = memory  # kept as long as an app that hangs may come back with a reply
        self.executor = executor
        self._loop = loop
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_over = False

    # --- called from a worker (with --threads 0: on the event loop) ---

    def leave(
        self,
        fd: int,
        service: Service,
        octets: bytes = b"",
        exchange: Exchange | None = None,
        on_ready: Callable[[Departed | None], None] | None = None,
    ) -> None:
        """
        Make a Connection of a released descriptor: with octets read, or with an exchange.

        The exchange is with the app; or the octets are all that is still to be sent of its response.

        `on_ready` is called on the event loop, with None if the connection is lost.
        """
        connection = Departed(service, octets, exchange)
        self.executor.post(self._begin, (fd, connection), on_ready)

    # --- called on the event loop ---

    def _begin(self, who: tuple[int, Departed], on_ready: Callable[[Departed | None], None] | None) -> None:
        task = self._loop.create_task(self._make_transport(*who, on_ready))
        self._tasks[task] = None  # a loop holds its tasks only weakly
        task.add_done_callback(self._tasks.pop)

    async def _make_transport(
        self, fd: int, connection: Departed, on_ready: Callable[[Departed | None], None] | None
    ) -> None:
        made: Departed | None = None
        try:
            sock = socket.socket(fileno=fd)
            try:
                await self._loop.connect_accepted_socket(lambda: connection, sock)
                made = connection
            except OSError as exc:
                logger.info("%s: a connection was lost on its way: %s", connection._service.name, exc)
                sock.close()
        finally:
            lib.lane_left(self.set)
            if on_ready is not None:
                on_ready(made)
        if self._is_over and made is not None:
            made.abort()

    def close(self) -> None:
        """The server stops: who is still on the way is closed on arrival."""
        self._is_over = True


class Departed(Connection):
    """A Connection that begins in the middle: with octets read, or with an exchange; see Departures.leave."""

    __slots__ = ("_adopted", "_initial")

    def __init__(self, service: Service, octets: bytes, exchange: Exchange | None) -> None:
        super().__init__(service)
        self._initial = octets
        self._adopted = exchange

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Go on where the lane has left off, before anything else is read."""
        super().connection_made(transport)
        exchange, self._adopted = self._adopted, None
        if self._service.is_draining:  # perhaps since this was made, and everybody else was told
            self._is_closing_soon = True
            if exchange is not None:
                exchange.keep_alive = False
        if exchange is not None:
            if isinstance(self._protocol, OneRequest):
                self._protocol.end()
            exchange.connection = self
            self._exchange = exchange
            if self._state == State.NEW:  # else its client has gone already
                self._state = State.ATTENDED
        initial, self._initial = self._initial, b""
        if not initial:
            return
        if exchange is None:
            self.data_received(initial)
        else:
            self._on_complete(exchange, initial)

    def refuse(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer the exchange with which this has begun, whose body does not come or cannot be kept."""
        self._exchange = None
        exchange.keep_alive = False
        if exchange.body is not None:
            exchange.body.close()
        self._refuse(exchange, why)


def _give_up(exchange: Exchange, reply: Reply) -> None:
    """Let go of an exchange whose connection is lost, and of what the app has made for it."""
    _discard(reply)
    if exchange.body is not None:
        exchange.body.close()
    exchange.response = None  # see `Ride.run`


def _discard(reply: Reply) -> None:
    """Nobody wants this reply any more; what the app gave is closed all the same, and its failure logged."""
    try:
        if isinstance(reply, Iterator):
            next(reply, None)  # one that has not begun would close nothing
        close = getattr(reply, "close", None)
        if close is not None:
            close()
    except (ClientDisconnected, ResponseTruncated):
        pass
    except Exception:
        logging.getLogger("aserve.app").exception("the app's iterable raised in close()")
