"""The fast lane: uwsgi and SCGI connections, which carry one request each, by the batch.

Owns:     accepting, reading and parsing many connections in one C call;
          sending and closing many in one.
Thread:   the event loop, but for Ride, which a worker runs.
Not here: anything a connection may need beyond one read and one write. What
          is not complete, or does not fit, is promoted to a Connection with
          all that was read or is to be written; so this lane changes nothing
          but the price (benchmarks/README.md).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
import threading
from typing import Any, cast

from ._cparsers import ffi, lib
from .body import BufferedBody
from .connection import Connection
from .errors import ClientDisconnected
from .exchange import Exchange
from .listeners import Listener
from .protocols import uwsgi
from .protocols.single import FRONT_VARS, SingleRequest, is_head_request
from .service import Service
from .states import State
from .wsgi import Reply

logger = logging.getLogger("aserve")

PROTOCOLS = {"uwsgi": lib.LANE_UWSGI, "scgi": lib.LANE_SCGI}

# Connections accepted by one call. Guess: a batch is rarely larger, and 64 requests are 1 ms of work.
BATCH_COUNT = 64
# Octets read from one connection by its first read: vars and a body of a usual form, or the
# 71,453 octets of mission.md's echo. A larger one is promoted.
READ_BYTES = 1 << 17
# A response up to this size is worth one copy: it mostly fits a socket's buffer (208 KiB on Linux).
RIDE_BYTES = 1 << 17
# How long not to accept when descriptors have run out: others must end first.
PAUSE_SECONDS = 0.2


def is_available(listener: Listener, service: Service) -> bool:
    """Whether this listener's connections can take the lane."""
    return bool(
        lib.lane_available()
        and service.config.lane == "auto"
        and listener.bind.protocol in PROTOCOLS
        # Inline, nobody could wait while a connection is promoted; live bodies are not complete.
        and not service.executor.is_inline
        and service.config.body == "buffer"
    )


class Lane:
    """One listener's fast lane."""

    def __init__(self, service: Service, listener: Listener) -> None:
        self.service = service
        self._loop = service.loop
        self._listener = listener
        self._max_body_bytes = service.config.max_body_bytes
        self._batch = _Batch(service, listener)
        self._unpack_arrivals = struct.Struct("@QiiIIIIII").iter_unpack
        self._arrivals_view = ffi.buffer(self._batch.struct.arrivals, BATCH_COUNT * ffi.sizeof("lane_arrival"))
        self._departing: list[tuple[int, bytes]] = []  # descriptors and whole responses
        self._promotions: set[asyncio.Task[None]] = set()
        self._sent = ffi.new("int32_t[]", 1)
        self._template = cast(SingleRequest, service.new_protocol())

    def start(self) -> None:
        """Accept from now on."""
        self._loop.add_reader(self._listener.socket.fileno(), self._on_arrivals)

    def close(self) -> None:
        """Take what has already connected, then accept no more."""
        while self._on_arrivals():
            pass
        self._loop.remove_reader(self._listener.socket.fileno())

    # Arriving

    def _on_arrivals(self) -> bool:
        """Accept a batch; return whether there may be more."""
        batch = self._batch
        count = lib.lane_accept(batch.struct)
        if batch.struct.accept_errno in (errno.EMFILE, errno.ENFILE):
            self._pause()
        text = batch.vars[: batch.struct.vars_len].decode("latin-1")
        for arrival in self._unpack_arrivals(self._arrivals_view[: count * ffi.sizeof("lane_arrival")]):
            length, fd, consumed, start, size, vars_start, vars_size, nvars, modifier1 = arrival
            is_whole = consumed > 0 and consumed + length <= size and length <= self._max_body_bytes
            if is_whole and nvars and modifier1 in (uwsgi.WSGI, uwsgi.WSGI_MOUNT):
                exchange = self._template.new_exchange(text[vars_start : vars_start + vars_size], nvars)
                exchange.is_mounted = modifier1 == uwsgi.WSGI_MOUNT
                exchange.is_head = is_head_request(exchange.vars)
                if length:
                    exchange.body = BufferedBody(self.service.config.body_memory_bytes, is_chunked=False)
                    exchange.body.feed(batch.input[start + consumed : start + consumed + length])
                exchange.connection = ride = Ride(self, fd)
                self.service.executor.submit(ride.run, exchange)
            elif consumed > 0 and modifier1 == uwsgi.RPC:
                self._on_call(
                    fd, batch.input[start : start + consumed], text[vars_start : vars_start + vars_size], nvars
                )
            else:
                self._spawn(fd, Promoted(self.service, batch.input[start : start + size]))
        return count == BATCH_COUNT

    def _on_call(self, fd: int, packet: bytes, vars: str, nvars: int) -> None:
        """An RPC packet: like a request, once function and arguments are known."""
        exchange = self._template.new_exchange(vars, nvars)
        [exchange] = cast(uwsgi.Uwsgi, self._template).receive_call(exchange, packet)
        if exchange.rpc is None:  # refused: a Connection says why, and closes
            self._spawn(fd, Promoted(self.service, packet))
            return
        exchange.connection = ride = Ride(self, fd)
        self.service.executor.submit(ride.run, exchange)

    def _pause(self) -> None:
        # Level-triggered readiness would spin: leave the queue to the kernel for a while.
        logger.error("%s: out of file descriptors; not accepting for a moment (raise ulimit -n)", self.service.name)
        fd = self._listener.socket.fileno()
        self._loop.remove_reader(fd)
        self._loop.call_later(PAUSE_SECONDS, self._resume, fd)

    def _resume(self, fd: int) -> None:
        if self._listener.socket.fileno() == fd and not self.service.is_draining:
            self._loop.add_reader(fd, self._on_arrivals)

    # Departing

    def depart(self, fd: int, octets: bytes) -> None:
        """Send a whole response and close, together with the others of this turn."""
        self._departing.append((fd, octets))
        if len(self._departing) == 1:
            self._loop.call_soon(self._send_departing)

    def _send_departing(self) -> None:
        departing, self._departing = self._departing, []
        count = len(departing)
        if ffi.sizeof(self._sent) < 4 * count:
            self._sent = ffi.new("int32_t[]", 2 * count)
        fds = struct.pack(f"={count}i", *[fd for fd, _ in departing])
        sizes = struct.pack(f"={count}I", *[len(octets) for _, octets in departing])
        octets = b"".join([octets for _, octets in departing])
        if lib.lane_send(fds, sizes, count, octets, self._sent):
            for (fd, octets), sent in zip(departing, self._sent[0:count]):
                if sent >= 0:
                    self._spawn(fd, Promoted(self.service, rest=octets[sent:]))

    # Promoting

    def promote(self, ride: Ride, exchange: Exchange) -> None:
        """Make a Connection of this ride, whose worker waits for it."""
        self._spawn(ride.fd, Promoted(self.service, ride=ride, exchange=exchange))

    def _spawn(self, fd: int, connection: Promoted) -> None:
        task = self._loop.create_task(self._make_transport(fd, connection))
        self._promotions.add(task)  # a loop holds its tasks only weakly
        task.add_done_callback(self._promotions.discard)

    async def _make_transport(self, fd: int, connection: Promoted) -> None:
        sock = socket.socket(fileno=fd)
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock)
        except OSError as exc:
            logger.info("%s: a connection was lost on its way: %s", self.service.name, exc)
            sock.close()
            connection.fail()


class Ride:
    """One connection in the lane: the exchange's `connection` until it must be promoted."""

    __slots__ = ("_lane", "_promoted", "_ready", "base_environ", "fd")

    remote_addr = remote_port = ""  # the front server's vars tell the client's

    def __init__(self, lane: Lane, fd: int) -> None:
        self._lane = lane
        self.fd = fd
        self.base_environ = lane.service.base_environ
        self._promoted: Connection | None = None
        self._ready: threading.Lock | None = None

    # --- called from a worker ---

    def run(self, exchange: Exchange) -> None:
        """Let the app answer; depart, or go on as a Connection."""
        lane = self._lane
        try:
            reply: Any = lane.service.gateway.respond(exchange)
            if type(reply) is tuple and len(reply[1]) <= RIDE_BYTES:
                reply = b"".join(reply)
            if type(reply) is bytes and self._promoted is None:
                self._depart(exchange, reply)
            else:
                self._deliver(exchange, reply)
        except BaseException:  # a bug in aserve: this request is lost, nothing else
            logger.exception("internal error; please report this as a bug in aserve")

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Send a piece of the response before the app has returned; see OutgoingHalf.send."""
        self._promote(exchange).send(exchange, octets)

    def _depart(self, exchange: Exchange, octets: bytes) -> None:
        lane = self._lane
        executor = lane.service.executor
        if lane.service.access_log is not None:
            lane.service.access_log.write(exchange)
        if not executor.is_quiet:
            executor.post(lane.depart, self.fd, octets)
            return
        # The last one out writes for itself; nobody else knows this descriptor.
        executor.coming.append(None)
        try:
            sent = os.write(self.fd, octets) if octets else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(octets)  # the front server is gone
        finally:
            executor.coming.pop()
        if sent == len(octets):
            os.close(self.fd)
        else:
            executor.post(lane.depart, self.fd, octets[sent:])

    def _deliver(self, exchange: Exchange, reply: Reply) -> None:
        try:
            connection = self._promote(exchange)
        except ClientDisconnected:
            close = getattr(reply, "close", None)
            if close is not None:
                close()
            return
        connection.deliver(exchange, reply)

    def _promote(self, exchange: Exchange) -> Connection:
        """Wait until the loop has made a Connection of this, if it has not yet."""
        if self._promoted is not None:
            return self._promoted
        self._ready = threading.Lock()
        self._ready.acquire()
        self._lane.service.executor.post(self._lane.promote, self, exchange)
        self._ready.acquire()
        promoted = cast("Connection | None", self._promoted)  # set by `ready` meanwhile
        if promoted is None:
            raise ClientDisconnected("the front server closed the connection")
        return promoted

    # --- called on the event loop ---

    def ready(self, connection: Connection | None) -> None:
        """The promotion is done, or has failed."""
        self._promoted = connection
        assert self._ready is not None
        self._ready.release()


class Promoted(Connection):
    """A Connection that begins in the middle: with octets read, with an exchange, or with a rest to send."""

    __slots__ = ("_adopted", "_initial", "_rest", "_ride")

    def __init__(
        self,
        service: Service,
        initial: bytes = b"",
        rest: bytes = b"",
        ride: Ride | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(service)
        self._initial = initial
        self._rest = rest
        self._ride = ride
        self._adopted = exchange

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Go on where the lane has left off, before anything else is read."""
        super().connection_made(transport)
        if self._ride is not None:
            assert self._adopted is not None
            cast(SingleRequest, self._protocol).end()
            self._adopted.connection = self
            self._exchange = self._adopted
            self._state = State.ATTENDED
            self._ride.ready(self)
        elif self._rest:
            cast(SingleRequest, self._protocol).end()
            self._transport.write(self._rest)
            self._close()
        elif self._initial:
            self.data_received(self._initial)
        self._initial = self._rest = b""

    def fail(self) -> None:
        """The transport could not be made."""
        if self._ride is not None:
            self._ride.ready(None)


class _Batch:
    """The C structure of `lane_accept` and the memory it points to."""

    def __init__(self, service: Service, listener: Listener) -> None:
        config = service.config
        input_bytes, vars_bytes = 16 * READ_BYTES, 4 * config.max_head_bytes + BATCH_COUNT * 4096
        self._input = ffi.new("char[]", input_bytes)
        self._vars = ffi.new("char[]", vars_bytes)
        self._arrivals = ffi.new("lane_arrival[]", BATCH_COUNT)
        self.input = ffi.buffer(self._input, input_bytes)
        self.vars = ffi.buffer(self._vars, vars_bytes)
        self.struct = ffi.new("lane_batch *")
        self.struct.listener = listener.socket.fileno()
        self.struct.protocol = PROTOCOLS[listener.bind.protocol]
        self.struct.input = self._input
        self.struct.input_cap = input_bytes
        self.struct.read_cap = READ_BYTES
        self.struct.vars = self._vars
        self.struct.vars_cap = vars_bytes
        self.struct.max_head_len = config.max_head_bytes
        self.struct.max_vars = config.max_fields + FRONT_VARS
        self.struct.arrivals = self._arrivals
        self.struct.arrivals_cap = BATCH_COUNT
