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
from typing import Any, Callable, cast

from ._cparsers import lib
from .connection import Connection
from .errors import ClientDisconnected, RequestRefused, ResponseTruncated, WrittenOff
from .exchange import Exchange
from .executor import Executor
from .inline import InlineExecutor
from .protocols.single import SingleRequest
from .service import Service
from .states import State
from .wsgi import Reply

logger = logging.getLogger("aserve")

# A response up to this size mostly fits a socket's buffer (208 KiB on Linux).
RIDE_BYTES = 1 << 17

_reply = lib.lane_reply


class Ride:
    """One connection in the lane."""

    __slots__ = (
        "_access_log", "_departures", "_early", "_respond", "_service", "_set", "_successor", "base_environ", "exchange", "fd", "quiet_seconds", "remote_addr", "remote_port",
    )  # fmt: skip

    def __init__(self, departures: Departures, service: Service, fd: int, peer: str) -> None:
        self._departures = departures
        self._set = departures.set
        self._service = service
        self._respond = service.gateway.respond
        self._access_log = service.access_log
        self.base_environ = service.base_environ
        self.fd = fd  # -1 once the connection has left the lane: the number may be another's
        self.remote_addr, _, self.remote_port = peer.partition("\0")
        self.exchange: Exchange | None = None  # that is with the app, or whose body is still to come
        self.quiet_seconds = 0  # since the last part of that body
        self._successor: Connection | None = None  # the same connection, out of the lane while the app runs
        self._early: list[bytes] = []  # with --threads 0: what the socket has not taken before the app has returned

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
            if self._successor is not None or self._early:
                self._leave(exchange, reply)
                return
            self.exchange = None
            size, body_size = len(head), len(body)
            sent = _reply(self._set, self.fd, head, size, body, body_size, exchange.keep_alive)
            if sent != size + body_size:
                self._leave(exchange, (head + body)[max(sent, 0) :], is_begun=sent > 0)
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

    def _lose(self, exchange: Exchange) -> None:
        """Close the connection of an exchange that has failed, if it is still this one's."""
        if exchange is not self.exchange:
            return
        self.exchange = None
        if self._successor is not None:
            self._departures.executor.post(self._successor._on_abort, exchange, "internal error")
            self._successor = None
            return
        fd = self._release()
        if fd >= 0:
            os.close(fd)
            lib.lane_left(self._set)

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Send a piece of the response before the app has returned; see OutgoingHalf.send."""
        if exchange is not self.exchange:
            raise ClientDisconnected("the response has ended")
        if self._departures.executor.is_inline:
            self._send_early(octets)
        else:
            self._succeed(exchange).send(exchange, octets)

    def _send_early(self, octets: bytes) -> None:
        # Nobody can make a transport while the app runs. PEP 3333: what write() is given may not wait for its end.
        if not self._early:
            try:
                octets = octets[os.write(self.fd, octets) :]
            except OSError:
                pass  # full, or gone: a transport meets the same, and knows what to do
        if octets:
            self._early.append(octets)

    def leave_refused(self, why: RequestRefused) -> None:
        """A body does not come: leave, and say so."""
        exchange, self.exchange = self.exchange, None
        assert exchange is not None
        self._depart(exchange, lambda connection: connection.refuse(exchange, why), b"")

    def leave_failed(self, exchange: Exchange, exc: OSError) -> None:
        """A body cannot be kept: leave, and say so."""
        self.exchange = None
        self._depart(exchange, lambda connection: connection.fail(exchange, exc), b"")

    # --- called on the event loop ---

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Connection.take_over; the worker is inside the app, and has nothing to do with the descriptor."""
        if self._successor is not None:
            self._successor.take_over(exchange, why)
        elif exchange is self.exchange:
            self.exchange = None
            self._depart(exchange, lambda connection: connection.take_over(exchange, why), b"")

    def cut(self, exchange: Exchange, why: str) -> None:
        """See OutgoingHalf.cut; who waits there has left the lane."""
        if self._successor is not None:
            self._successor.cut(exchange, why)

    # --- called from a worker (with --threads 0: on the event loop) ---

    def _leave(self, exchange: Exchange, reply: Reply, is_begun: bool = False) -> None:
        """Hand a reply of any form to a Connection; nothing is kept of it here, where the next may be long in coming."""
        self.exchange = None
        if is_begun:
            # What is left of it, behind what the socket has taken.
            self._depart(exchange, lambda connection: connection._on_complete(exchange, cast(bytes, reply)), reply)
        elif self._departures.executor.is_inline:
            self._depart(exchange, lambda connection: self._deliver_early(connection, exchange, reply), reply)
        else:
            try:
                connection = self._succeed(exchange)
            except ClientDisconnected:
                _discard(reply)
                return
            self._successor = None
            connection.deliver(exchange, reply)

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

    def _depart(self, exchange: Exchange, on_made: Callable[[Departed], None], reply: Reply) -> None:
        def on_ready(connection: Departed | None) -> None:
            if connection is None:
                _discard(reply)
            else:
                on_made(connection)

        fd = self._release()
        if fd >= 0:
            self._departures.leave(fd, self._service, exchange=exchange, on_ready=on_ready)
        else:
            _discard(reply)

    def _release(self) -> int:
        """Take the connection out of the lane, for good; return its descriptor, or -1 when it is there no more."""
        fd, self.fd = self.fd, -1
        return fd if fd >= 0 and lib.lane_release(self._set, fd) else -1

    def _succeed(self, exchange: Exchange) -> Connection:
        """Wait until the loop has made a Connection of this, if it has not yet."""
        if self._successor is not None:
            return self._successor
        fd = self._release()
        if fd < 0:
            raise ClientDisconnected("the connection is closed")
        is_ready = threading.Lock()
        is_ready.acquire()
        made: list[Departed | None] = []

        def on_ready(connection: Departed | None) -> None:
            made.append(connection)
            is_ready.release()

        self._departures.leave(fd, self._service, exchange=exchange, on_ready=on_ready)
        is_ready.acquire()
        self._successor = made[0]
        if self._successor is None:
            raise ClientDisconnected("the client closed the connection")
        return self._successor


class Departures:
    """Connections on their way out of the lane."""

    def __init__(self, memory: Any, loop: asyncio.AbstractEventLoop, executor: Executor | InlineExecutor) -> None:
        self.set = memory.set  # the C structure of the lane
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
        Make a Connection of a released descriptor: with octets read, or with an exchange that is with the app.

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
    """A Connection that begins in the middle: with octets read, or with an exchange."""

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
            if isinstance(self._protocol, SingleRequest):
                self._protocol.end()
            if isinstance(exchange.connection, Ride):  # not a view of what a trusted proxy tells
                exchange.connection = self
            self._exchange = exchange
            if self._state == State.NEW:  # else its client has gone already
                self._state = State.ATTENDED
        elif self._initial:
            self.data_received(self._initial)
            self._initial = b""

    def refuse(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer for the client's fault the exchange with which this has begun."""
        self._end_request(exchange)
        self._refuse(exchange, why)

    def fail(self, exchange: Exchange, exc: OSError) -> None:
        """The body of that exchange cannot be kept."""
        self._end_request(exchange)
        self._fail(exc)

    def _end_request(self, exchange: Exchange) -> None:
        self._exchange = None
        exchange.keep_alive = False
        if exchange.body is not None:
            exchange.body.close()


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
