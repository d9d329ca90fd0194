"""Accepting connections on the general path.

Owns:     Acceptor, accepting on a listener that is not the lane's; accepting the kernel's queue at the end; the protocol
          with which a connection begins.
Thread:   event loop only.
Not here: how many connections there may be (limit.py); accepting in the lane (cparsers/lane_accept.c); one connection
          (wire_loop.py).

The event loops' own accepting is not used: asyncio's logs a traceback a second when descriptors run out, and uvloop's
closes the connections that it cannot take.

If processes share the listeners, each accepts few connections at a time, and leaves them to a process
that has less to do: load_board.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
from collections.abc import Iterable
from typing import Any, Callable

from ...core.descriptors import accept
from ...settings import Bind
from ..connection import Connection
from ..limit import ConnectionLimit
from ..listeners import Listener
from ..load_board import REST_SECONDS
from ..service import Service
from .greeting import Greeting, LogThrottle
from .preface import begin
from .tls_transport import TLSTransport

# accept(2): a shortage is not the client's fault, and the connection stays in the queue.
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# An accepted connection's transport is made in a task. Iterations of the loop until it is there: three are needed,
# five make sure.
CONNECT_ITERATIONS = 5


class Acceptor:
    """Accepts on one listening socket, and makes its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: ConnectionLimit,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._socket = listening  # non-blocking
        self._make = make
        self._is_reading = False
        self._rest: asyncio.TimerHandle | None = None  # while other processes accept
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Accept from now on."""
        self._loop.add_reader(self._socket.fileno(), self._on_ready)
        self._is_reading = True

    def stop(self) -> None:
        """Accept no more; after this the socket may be closed."""
        self._limit.forget_acceptor(self)
        if self._rest is not None:
            self._rest.cancel()
        self._pause_accepting()

    def end_rest(self) -> None:
        """Check again whether to accept."""
        self.stop()
        self.start()

    def _pause_accepting(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _on_ready(self) -> None:
        """Accept the connections that the kernel has queued."""
        if self._limit.is_full():
            self._pause_accepting()
            self._limit.pause_at_limit(self)
            return
        quota = self._limit.quota()
        if not quota:
            self._pause_accepting()
            self._limit.rest_acceptor(self)
            self._rest = self._loop.call_later(REST_SECONDS, self.end_rest)
        for _ in range(quota):
            try:
                sock, _ = accept(self._socket)
            except OSError as exc:
                if exc.errno in SHORTAGES:
                    self._pause_accepting()
                    self._limit.pause_for_descriptors(self, exc)
                return  # the queue is empty; or accept(2) reports that a queued client has left
            sock.setblocking(False)
            connection = self._make()
            self._limit.add_accepted(connection)
            task = self._loop.create_task(self._connect(sock, connection))
            self._tasks.add(task)  # a loop holds its tasks only weakly
            task.add_done_callback(self._tasks.discard)
            if self._limit.is_full():
                return  # the next iteration finds the rest

    async def _connect(self, sock: socket.socket, connection: asyncio.Protocol) -> None:
        try:
            with contextlib.suppress(OSError):  # gone again
                await make_transport(self._loop, lambda: connection, sock)
        finally:
            self._limit.discard_pending(connection)


def start_acceptors(
    loop: asyncio.AbstractEventLoop, limit: ConnectionLimit, pairs: Iterable[tuple[Listener, Service]]
) -> list[Acceptor]:
    """Accept on these listeners from now on."""
    acceptors = []
    for listener, service in pairs:
        acceptors.append(Acceptor(loop, limit, listener.socket, protocol_factory(service, listener.bind)))
        acceptors[-1].start()
    return acceptors


async def let_connect() -> None:
    """Wait until accepted connections have their transports."""
    for _ in range(CONNECT_ITERATIONS):
        await asyncio.sleep(0)


async def accept_queued(
    loop: asyncio.AbstractEventLoop, listener: Listener, make: Callable[[], asyncio.Protocol]
) -> None:
    """Stop listening, and accept the connections that the kernel has queued: a front server has sent its request already."""
    for sock in listener.take_queued():
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # gone again
            await make_transport(loop, make, sock)


async def make_transport(
    loop: asyncio.AbstractEventLoop, make: Callable[[], asyncio.Protocol], sock: socket.socket
) -> None:
    """
    Make the transport of a connection, whose protocol `make` returns.

    Raises:
        OSError: the client has gone again, or there is no memory; the socket is closed.
    """
    try:
        await loop.connect_accepted_socket(make, sock)
    except OSError:
        sock.close()
        raise


def protocol_factory(service: Service, bind: Bind) -> Callable[[], asyncio.Protocol]:
    """Return a function that makes the protocol of each connection of a listener."""
    if service.wrap is not None:
        return functools.partial(TLSTransport, service)
    if bind.is_proxied:
        assert service.peers is not None  # settings/table.py
        return functools.partial(Greeting, service, service.peers, LogThrottle(service))
    return lambda: begin(Connection(service))
