"""What goes out by the event loop's wire: the transport, the room in it, and what waits for room.

Owns:     Outbox: the order of what is written; the backlog, for whose end workers wait; how a response is cut short.
          Owner: what an outbox asks of its wire.
Thread:   event loop; workers, under the second banner. What both change is under the connection's lock: docs/threads.md.
Spec:     RFC 9112 section 9.
Not here: which way a response takes (sending.py); bodies that need no worker (large_bodies.py), iterables (stepping.py), temporary files
          (spooled.py); what is counted (response_memory.py); the states, and what follows the end of a response (wire_loop.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import sys
import threading
from typing import Callable, Protocol

from ..core.errors import ClientDisconnected
from ..core.exchange import ANSWERED, CLIENT_GONE, CUT, Exchange
from ..core.spool import ResponseSpool
from .connection import Connection, tells_its_end
from .listeners import UNSENT_BYTES, limit_unsent
from .response_memory import release_memory
from .sender import Sender, keep_rest
from .sendfile import call_close
from .states import Event, State

if sys.platform == "linux":
    import fcntl
    import termios

logger = logging.getLogger("aserve")

# A worker writes to the socket itself up to this size; a larger response hardly fits the socket's buffer.
DIRECT_BYTES = 1 << 16

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
RUNNING, LOOP_ENDS = State.RUNNING, State.LOOP_ENDS


class Owner(Protocol):
    """What an outbox asks of its wire."""

    @property
    def state(self) -> State:
        """Where the connection stands."""

    def transition(self, event: Event) -> None:
        """Change the state; the connection's lock is held."""

    def take_completion(self) -> bool:
        """Take the end of the exchange over from its worker; False: the connection is closing already."""

    def complete(self, exchange: Exchange) -> None:
        """The worker has written the whole response; the connection's lock is held."""

    def end_exchange(self, exchange: Exchange) -> None:
        """The response is with the transport, or lost: end the exchange."""

    def reset(self, why: str) -> None:
        """Close with a reset."""


class Nobody:
    """In place of the wire: before there is a transport, and after the last exchange. Each knows the other: that would wait for the garbage collector."""

    state = State.CLOSED

    def transition(self, event: Event) -> None:
        """Do nothing: there is no connection."""

    def take_completion(self) -> bool:
        """Return that it is over."""
        return False

    def complete(self, exchange: Exchange) -> None:
        """Do nothing: the exchange has ended."""

    def end_exchange(self, exchange: Exchange) -> None:
        """Do nothing: the exchange has ended."""

    def reset(self, why: str) -> None:
        """Do nothing: there is no transport."""


NOBODY = Nobody()


class Outbox:
    """What goes out by one wire."""

    __slots__ = (
        "_backlog_bytes", "_buffered_bytes", "_connection", "_lock", "_on_writable", "_put_bytes", "_sender", "_unread_bytes", "_waiter", "_wire",
        "can_bypass", "executor", "fd", "is_write_paused", "service", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, connection: Connection, can_bypass: bool) -> None:
        """Make that of a connection. `can_bypass`: octets may go to the socket past the transport."""
        self.can_bypass = can_bypass
        self.service = connection.service
        self.executor = connection.service.executor
        self.fd = -1
        self.is_write_paused = False  # the transport has as much as it likes to
        self._wire: Owner = NOBODY
        self._connection = connection
        # Guards fd, _backlog_bytes and _waiter, where a worker meets the loop.
        self._lock = connection.lock
        self._on_writable: Callable[[], object] | None = None  # goes on with a body when there is room
        self._sender: Sender | None = None  # writes to the socket past the transport
        self._backlog_bytes = 0  # from a worker, not yet taken over by a transport with room
        self._buffered_bytes = 0  # of those, in the transport's buffer since it ran out of room
        # What the client reads, counted while it is behind: see count_read.
        self._put_bytes = self._unread_bytes = 0
        self._waiter: threading.Lock | None = None  # locked; its release wakes a worker that waits until it may write

    # --- called on the event loop: the transport ---

    def connect(self, wire: Owner, transport: asyncio.Transport) -> None:
        """Write to this transport from now on."""
        self._wire, self.transport = wire, transport
        if self.can_bypass:
            self.fd = transport.get_extra_info("socket").fileno()

    def lose(self) -> None:
        """Forget the descriptor, which closes; the connection's lock is held."""
        self.fd = -1

    def leave(self) -> None:
        """Forget the wire: no exchange of it is left."""
        self._wire = NOBODY

    @property
    def is_over(self) -> bool:
        """Whether the loop writes no more: the connection is closing, or gone."""
        return self._wire.state > LOOP_ENDS

    @property
    def is_lost(self) -> bool:
        """Whether nothing that is written now reaches the client."""
        return self._wire.state > LOOP_ENDS or self.transport.is_closing()

    @property
    def is_behind(self) -> bool:
        """Whether something waits for the client to read."""
        return self.is_write_paused or self._sender is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the transport, nor in TLS, that a descriptor does not take along."""
        return self.can_bypass and not self.transport.is_closing() and not self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """The transport has as much as it likes to."""
        self.is_write_paused = True
        self.wake_waiter()  # a worker that waits for us has from now on a client to wait for, and may spool instead

    def resume_writing(self) -> None:
        """The transport has room again."""
        self.is_write_paused = False
        self._release_backlog()
        if self._on_writable is not None:
            # Not from in here: asyncio's selector transport (3.9 to 3.11 at least) loses its
            # connection twice when it is closed while it calls resume_writing.
            self.service.loop.call_soon(self.go_on)

    def when_writable(self, go_on: Callable[[], object]) -> None:
        """Call it when the transport has room, which it has not, or is lost."""
        self._on_writable = go_on

    def when_empty(self, go_on: Callable[[], object]) -> None:
        """Call it as soon as the transport has nothing more to send, or is lost."""
        if self._wire.take_completion():
            self.transport.set_write_buffer_limits(high=0)
            if self.is_write_paused:
                self._on_writable = go_on
                return
        go_on()

    def go_on(self) -> None:
        """Go on with what waits for room: there is some, or the transport is lost."""
        self._release_backlog()
        on_writable = self._on_writable
        self._on_writable = None
        if on_writable is not None:
            on_writable()

    def count_read(self) -> int:
        """Count what the client has read since the last call, of what was put into the transport in pieces."""
        put_bytes = self._put_bytes + (self._sender.take_progress() if self._sender is not None else 0)
        unread_bytes = self.transport.get_write_buffer_size() + queued_bytes(self.fd)
        # Less than nothing: something else was put, such as the end of a response.
        read_bytes = max(self._unread_bytes + put_bytes - unread_bytes, 0)
        self._put_bytes, self._unread_bytes = 0, unread_bytes
        return read_bytes

    def start_sender(self, sender: Sender) -> bool:
        """Let it write to the socket past the transport; see Sender.start."""
        limit_unsent(self.transport.get_extra_info("socket"), sender.unsent_bytes)
        self._sender = sender
        is_started = sender.start()
        if not is_started:
            self.end_sender()
        return is_started

    def end_sender(self) -> None:
        """Write by the transport again."""
        self._sender = None
        if not self.transport.is_closing():
            self.transport.set_write_buffer_limits()
            limit_unsent(self.transport.get_extra_info("socket"), UNSENT_BYTES)

    def stop(self) -> None:
        """Stop sending: the transport is gone. Its worker ends an exchange that is left."""
        if self._sender is not None:
            self._sender.cancel()
        exchange = self._connection.exchange
        if exchange is not None:
            self.note_end(exchange, CUT)
            self.service.lost.add(exchange)
            self.close_spool(exchange.spool)

    def reset(self) -> None:
        """Close with a reset, so that what was sent does not pass for the whole; what transport and kernel hold is free at once."""
        try:
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:
            pass  # the client was quicker
        self.transport.abort()

    # --- called on the event loop: responses ---

    def on_complete(self, exchange: Exchange, octets: bytes) -> None:
        """The rest of the response is here."""
        # Take the completion first. Otherwise a second thread of the app could still write past the transport.
        if self._wire.take_completion() and octets:
            self.transport.write(octets)
        self._wire.end_exchange(exchange)

    def on_rest(self, exchange: Exchange, rest: tuple[bytes | memoryview, ...]) -> None:
        """What another wire has not sent of a whole response is here."""
        if self._wire.take_completion():
            for octets in rest:
                if octets:
                    self.transport.write(octets)
        self._wire.end_exchange(exchange)

    def on_piece(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """A piece of the response is here; more will follow."""
        if exchange is not self._connection.exchange or self.is_lost:
            return  # the last: a second thread of the app wrote while the end was on its way here
        self.write_piece(octets)
        self._buffered_bytes += len(octets)
        if not self.is_write_paused:
            self._release_backlog()

    def write_piece(self, octets: bytes | memoryview) -> None:
        """Write a piece, and count it as what the client has to read."""
        self.transport.write(octets)
        self._put_bytes += len(octets)

    def end(self, exchange: Exchange) -> None:
        """All of the response is with the transport, or with the kernel."""
        self._wire.end_exchange(exchange)

    def cut(self, exchange: Exchange, why: str) -> None:
        """The response cannot be finished: let the client see that it is cut short, in the way that loses least."""
        self.close_spool(exchange.spool)
        if exchange is not self._connection.exchange:
            return  # it has ended; what failed came after its last octet, and another may be under way
        exchange.keep_alive = False
        self.note_end(exchange, CUT)
        if self._wire.take_completion():
            if tells_its_end(exchange) and not self.transport.is_closing():
                # RFC 9112 8: the framing shows it. A reset would destroy what the client has not read yet,
                # which may be whole responses before this one.
                logger.info("%s: response cut short: %s", self._connection.name, why)
            else:
                self._wire.reset(why)
        self._wire.end_exchange(exchange)

    def cut_lost(self, exchange: Exchange, why: str) -> None:
        """Reset the connection: what is left of the response is lost by our fault. Something else ends the exchange."""
        self.note_end(exchange, CUT)
        self._wire.reset(why)

    def note_end(self, exchange: Exchange, otherwise: str) -> None:
        """Note for the access log how an exchange ends, unless that is known: its client has left, or `otherwise`."""
        if exchange.end == ANSWERED:
            exchange.end = CLIENT_GONE if self.is_lost else otherwise

    def is_current(self, exchange: Exchange) -> bool:
        """Return whether this exchange has not ended."""
        return exchange is self._connection.exchange

    def close_spool(self, spool: ResponseSpool | None) -> None:
        """Close what waits of a response in a temporary file."""
        close_file = spool.close() if spool is not None else None
        if close_file is not None:
            self.executor.submit(call_close, close_file)

    def _release_backlog(self) -> None:
        """Count no longer what the transport had, as it has gone or is lost; wake a worker that waits for that."""
        exchange, had_backlog = self._connection.exchange, self._backlog_bytes > 0
        with self._lock:
            self._backlog_bytes = max(self._backlog_bytes - self._buffered_bytes, 0)
            self._buffered_bytes = 0
        is_gone = had_backlog and not self._backlog_bytes
        # A whole response is counted to its end; what has gone was before it, such as early hints.
        if is_gone and exchange is not None and exchange.counted_bytes and not exchange.response.is_full:
            release_memory(self._connection, exchange)
        if self.has_room or self.is_over:
            self.wake_waiter()

    def wake_waiter(self) -> None:
        """Let a worker that waits look again."""
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.release()

    # --- called from a worker (with --threads 0: on the event loop) ---

    def write_past(self, exchange: Exchange, octets: bytes | memoryview, is_last: bool) -> bytes | memoryview | None:
        """Write to the socket past the transport; return what the loop must write, None: nothing. `is_last`: then it has ended."""
        wire = self._wire
        with self._lock:
            if (
                wire.state != RUNNING
                or not self.can_bypass
                or len(octets) > DIRECT_BYTES
                or self.transport.get_write_buffer_size()
                or exchange is not self._connection.exchange  # it has ended since `send` looked
            ):
                return octets
            self.executor.waking.append(None)
            try:
                sent = os.write(self.fd, octets) if octets else 0
            except OSError:
                return octets  # full, or gone: the transport meets the same, and knows what to do
            finally:
                self.executor.waking.pop()
            if sent < len(octets):
                wire.transition(Event.TAKE_COMPLETION)
                return octets[sent:]
            if is_last:
                wire.complete(exchange)
            return None

    def put(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """Let the loop write a piece; from now on nothing may overtake it."""
        with self._lock:
            self._backlog_bytes += len(octets)
        self.executor.post(self.on_piece, exchange, keep_rest(octets))

    def take_completion(self) -> bool:
        """See Owner.take_completion."""
        return self._wire.take_completion()

    @property
    def has_room(self) -> bool:
        """Whether so little waits that more may be put."""
        return self._backlog_bytes <= self.service.config.write_buffer_bytes

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """
        Wait for a condition, looked at anew with each step of the loop; it must not wait itself.

        Raises:
            ClientDisconnected: the client is gone.
        """
        waiter = threading.Lock()
        waiter.acquire()
        while True:
            with self._lock:
                if self.is_lost:
                    raise ClientDisconnected("the client closed the connection")
                if is_so():
                    return
                self._waiter = waiter
            waiter.acquire()


def queued_bytes(fd: int) -> int:
    """Return how many octets a socket has taken and its client has not; a slow one empties it long after us."""
    if sys.platform != "linux":
        return 0
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError):  # it is closed
        return 0
    return int(count)
