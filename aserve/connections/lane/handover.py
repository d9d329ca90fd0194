"""Moving a connection from the lane to the event loop: it gets another wire, and all other code keeps the same Connection.

Owns:     Handover, one connection on its way; Handovers, all of a lane.
Thread:   two, under banners: workers begin one, the event loop makes the transport.
Not here: which connections need the event loop, and why (wire_fast.py, lane.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Callable, cast

from ..._cparsers import ffi, lib
from ...core.errors import ClientDisconnected
from ...core.exchange import ANSWERED, CLIENT_GONE, Exchange
from ...tls.sessions import OwnSession
from ...workers.executor import Executor
from ...workers.inline import InlineExecutor
from ...wsgi import Reply
from ..accepting.preface import Beginning, begin
from ..accepting.tls_transport import TLSTransport
from ..carrier import Carrier
from ..connection import Connection, discard_reply, drop_exchange
from ..loop.pump import Large, Pump
from ..loop.wire_loop import LoopWire
from ..service import Service
from ..wire_log import tell

logger = logging.getLogger("aserve")

LOST_ON_ITS_WAY = "%s: a connection was lost on its way: %s"


class Handover:
    """
    A connection on its way from the lane to the event loop.

    Code that needs its new wire waits for it, or gives a callback.
    """

    __slots__ = ("_callbacks", "_exchange", "_executor", "_is_done", "_lock", "_wire")

    def __init__(self, executor: Executor | InlineExecutor, exchange: Exchange) -> None:
        self._executor = executor
        self._exchange: Exchange | None = exchange  # until it is done
        self._is_done = threading.Event()
        self._lock = threading.Lock()  # guards the two below until it is done
        self._wire: LoopWire | None = None  # None: the connection was lost on its way
        self._callbacks: list[tuple[Callable[[LoopWire], None], Reply | None]] = []

    # --- called on the event loop ---

    def on_ready(self, wire: LoopWire | None) -> None:
        """The wire is made; None: the connection is lost."""
        with self._lock:
            self._wire = wire
            self._is_done.set()
        for callback, reply in self._callbacks:
            self._call_back(callback, reply)
        self._callbacks.clear()
        if wire is not None:
            self._exchange = None  # owned by the connection; this object may live longer

    def _call_back(self, callback: Callable[[LoopWire], None], reply: Reply | None) -> None:
        exchange, wire = self._exchange, self._wire
        if wire is None:
            assert exchange is not None  # only a wire takes it from here
            drop_exchange(exchange, reply)
            return
        try:
            callback(wire)
        except Exception:  # a bug in aserve: this request is lost, further callbacks are not
            logger.exception("internal error; please report this as a bug in aserve")
            wire.abort()

    # --- called from both sides ---

    def call_when_ready(self, callback: Callable[[LoopWire], None], reply: Reply | None = None) -> None:
        """
        Call `callback` with the wire, on the event loop.

        If the connection is lost, see drop_exchange.
        """
        with self._lock:
            if not self._is_done.is_set():
                self._callbacks.append((callback, reply))
                return
        self._executor.post(self._call_back, callback, reply)

    # --- called from a worker ---

    def wait(self) -> LoopWire:
        """
        Wait for the wire.

        Raises:
            ClientDisconnected: the connection was lost on its way.
        """
        self._is_done.wait()
        if self._wire is None:
            raise ClientDisconnected("the client closed the connection")
        return self._wire


class Handovers:
    """Connections on their way out of a lane."""

    def __init__(
        self,
        memory: Any,
        connections: dict[int, Connection],
        loop: asyncio.AbstractEventLoop,
        executor: Executor | InlineExecutor,
        pump: Pump | None = None,
    ) -> None:
        self.set = memory.set  # the C structure of the lane
        self.connections = connections  # of the lane, by descriptor
        self._memory = memory  # kept as long as a hanging app may return with a reply
        self.executor = executor
        self.pump = pump  # sends large bodies of connections that stay; None: the event loop does
        self.kept: dict[int, Large] = {}  # responses that the lane sends on streams, by their numbers
        self._loop = loop
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._carriers: dict[int, asyncio.Task[Carrier | None]] = {}  # that have left, by their numbers in the lane
        self.is_over = False

    # --- called from a worker (with --threads 0: on the event loop) ---

    def begin(
        self, fd: int, connection: Connection, exchange: Exchange, rest: tuple[bytes | memoryview, ...]
    ) -> Handover:
        """Hand over a connection with a running exchange. If `rest` is not empty, the app is done: send `rest`, then end the exchange."""
        handover = Handover(self.executor, exchange)
        can_bypass = connection.service.wrap is None and not connection.is_stream
        wire = LoopWire(connection, is_new=False, can_bypass=can_bypass, rest=rest)
        self.executor.post(self._begin, (fd, wire), handover.on_ready)
        return handover

    def begin_idle(self, fd: int, connection: Connection, octets: bytes, is_new: bool) -> None:
        """Hand over a connection with octets of its next request; `is_new`: its client is not identified yet."""
        can_bypass = connection.service.wrap is None
        wire = begin(connection, octets) if is_new else LoopWire(connection, octets, False, can_bypass)
        self.executor.post(self._begin, (fd, wire), None)

    def begin_handshake(self, fd: int, service: Service, seconds: int = 0) -> None:
        """Let the event loop go on with a handshake of TLS, which began so many seconds ago, or begin it."""
        self.executor.post(self._begin_task, self._finish_handshake(fd, service, seconds), None)

    def begin_carrier(self, number: int) -> None:
        """Hand over a connection of HTTP/2, by its number; `lane_let_go` is due."""
        self.executor.post(self._begin_task, self._end_carrying(number), None)

    def begin_stream(self, number: int, head: bytes, body: bytes = b"") -> None:
        """Hand over a stream that the lane has released, by its request, which no thread has begun; `head` empty: nobody waits for an answer."""
        self.executor.post(self._begin_task, self._carry_new(number, head, body), None)

    # --- called by the leader, or on the event loop ---

    def on_ended(self, number: int, outcome: int, unsent_bytes: int) -> None:
        """End a response that the lane has kept, unless it has ended: see LANE_ENDED."""
        large = self.kept.pop(number, None)
        if large is not None:
            cast(Any, large.wire).end_kept(large, outcome, unsent_bytes)

    def drop_kept(self, number: int) -> None:
        """Forget a response that the lane has kept, if there is one; C reads no more of the body."""
        large = self.kept.pop(number, None)
        if large is not None:
            large.close()
            discard_reply(large.exchange, b"")

    # --- called on the event loop ---

    def _begin_task(self, coroutine: Coroutine[Any, Any, None], _: None) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks[task] = None  # a loop holds its tasks only weakly
        task.add_done_callback(self._tasks.pop)

    async def _end_carrying(self, number: int) -> None:
        try:
            await self._carrier_at(number)
        finally:
            lib.lane_let_go(self.set, number)

    async def _carry_new(self, number: int, head: bytes, body: bytes) -> None:
        carrier = await self._carrier_at(lib.lane_carrier_of(self.set, number))
        stream_id = lib.lane_take_stream(self.set, number)
        if carrier is not None:
            carrier.begin(stream_id, head, body)

    async def _carry(self, number: int, wire: LoopWire, on_ready: Callable[[LoopWire | None], None] | None) -> None:
        """Give a stream with a running exchange to the carrier that has left the lane."""
        made: LoopWire | None = None
        try:
            carrier = await self._carrier_at(lib.lane_carrier_of(self.set, number))
            stream_id = lib.lane_take_stream(self.set, number)
            if carrier is not None and carrier.adopt(stream_id, wire):
                made = wire
        finally:
            if made is None:
                self._lose(wire.connection)
            if on_ready is not None:
                on_ready(made)

    async def _carrier_at(self, number: int) -> Carrier | None:
        """Return a connection of HTTP/2 that has left the lane, or take it out; None: it is lost. A number stays its own until the caller ends."""
        task = self._carriers.get(number)
        if task is None:
            task = self._carriers[number] = self._loop.create_task(self._take_carrier(number))
        carrier = await asyncio.shield(task)
        if carrier is None and self._carriers.get(number) is task:
            del self._carriers[number]
        return carrier

    async def _take_carrier(self, number: int) -> Carrier | None:
        fd = lib.lane_release_carrier(self.set, number)
        if fd < 0:
            return None
        connection = self.connections[number]
        new_carrier = connection.service.carriers.in_lane
        assert new_carrier is not None  # else no such connection comes into the lane
        carrier = new_carrier(connection)
        running = functools.partial(lib.lane_running, self.set, number)
        carrier.leave_lane(self.set, number, running, functools.partial(self._drop_carrier, number))
        lost = await self._connect(fd, self._with_session(fd, carrier))
        if lost is not None:
            logger.info(LOST_ON_ITS_WAY, connection.service.name, lost)
            carrier.connection_lost(lost)
            return None
        if self.is_over:
            carrier.abort()
        return carrier

    def _drop_carrier(self, number: int) -> None:
        self._carriers.pop(number, None)
        lib.lane_drop_carrier(self.set, number)

    async def _finish_handshake(self, fd: int, service: Service, seconds: int) -> None:
        session = lib.lane_take_session(self.set, fd)
        transport = TLSTransport.shaking(service, OwnSession(session) if session != ffi.NULL else None, seconds)
        if await self._connect(fd, transport) is None and self.is_over:
            transport.abort()

    def _with_session(self, fd: int, protocol: LoopWire | Beginning | Carrier) -> asyncio.Protocol:
        session = lib.lane_take_session(self.set, fd)
        return protocol if session == ffi.NULL else TLSTransport.of(OwnSession(session), cast(Any, protocol))

    async def _connect(self, fd: int, protocol: asyncio.Protocol) -> OSError | None:
        """Give a connection that has left the lane to the event loop; an error: the client has gone again."""
        try:
            sock = socket.socket(fileno=fd)
            try:
                await self._loop.connect_accepted_socket(lambda: protocol, sock)
            except OSError as exc:
                sock.close()
                return exc
            return None
        finally:
            lib.lane_left(self.set)

    def _begin(self, who: tuple[int, LoopWire | Beginning], on_ready: Callable[[LoopWire | None], None] | None) -> None:
        connection = who[1].connection
        if connection.service.tells_wire:
            tell(connection, f"leaves the fast path because of its {'response' if on_ready else 'request'}")
        carry: Callable[..., Any] = self._carry if connection.is_stream else self._make_transport
        self._begin_task(carry(*who, on_ready), None)

    async def _make_transport(
        self, fd: int, wire: LoopWire | Beginning, on_ready: Callable[[LoopWire | None], None] | None
    ) -> None:
        made: LoopWire | Beginning | None = None
        try:
            lost = await self._connect(fd, self._with_session(fd, wire))
            if lost is None:
                made = wire
            else:
                logger.info(LOST_ON_ITS_WAY, wire.connection.service.name, lost)
        finally:
            if made is None:
                self._lose(wire.connection)
            if on_ready is not None:
                on_ready(cast("LoopWire | None", made))  # it comes with an exchange, which a Beginning has not
        if self.is_over and made is not None:
            made.abort()

    def _lose(self, connection: Connection) -> None:
        """Record a lost connection; its exchange, if it has one, is with a worker, which may never return to end it."""
        exchange, connection.exchange = connection.exchange, None
        if exchange is not None:
            exchange.end = CLIENT_GONE if exchange.end == ANSWERED else exchange.end
            connection.service.lost.add(exchange)

    def end_kept(self) -> None:
        """End the responses that the lane has kept; it is closed."""
        for number, large in self.kept.copy().items():
            if large.is_kept:  # otherwise its worker finds out
                self.on_ended(number, lib.PUMP_GONE, 0)

    def close(self) -> None:
        """Close connections that are on their way as soon as they arrive: the server stops."""
        self.is_over = True
