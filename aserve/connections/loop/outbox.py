"""The output side of the event loop's wire: the transport, the room there, and octets waiting for room.

Owns:     Outbox: the order of writes; the backlog, with workers waiting for the end; cutting a response short. Owner: the wire's methods for an
          outbox.
Thread:   event loop; workers, under the second banner. The connection's lock guards the common state: docs/threads.md.
Spec:     RFC 9112 section 9.
Not here: the choice of a way for a response (sending.py); bodies without a worker (large_bodies.py), iterables (stepping.py), temporary files
          (spooled.py); counting memory (response_memory.py); the states, and going on after a response (wire_loop.py).

Longer than other files: all methods read or change the one backlog in front of the transport.
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

from ...core.errors import ClientDisconnected
from ...core.exchange import ANSWERED, CLIENT_GONE, CUT, Exchange
from ...core.spool import ResponseSpool
from ...tls.sessions import OwnSession
from ..connection import Connection, tells_its_end
from ..listeners import UNSENT_BYTES, limit_unsent
from ..states import Event, State
from .response_memory import release_memory, room_bytes
from .sender import Sender, keep_rest
from .sendfile import call_close

if sys.platform == "linux":
    import fcntl
    import termios

logger = logging.getLogger("aserve")

# A worker writes to the socket itself up to this size; a larger response hardly fits the socket's buffer.
DIRECT_BYTES = 1 << 16

# Measured: a member looked up in an enum class costs CPython 3.11 three times a global.
RUNNING, LOOP_ENDS = State.RUNNING, State.LOOP_ENDS


class Owner(Protocol):
    """The wire, in an outbox's view."""

    @property
    def state(self) -> State:
        """The state of the connection."""

    def transition(self, event: Event) -> None:
        """Change the state; the connection's lock is held."""

    def take_completion(self) -> bool:
        """Take the end of the exchange over from a worker; False: the connection is closing already."""

    def complete(self, exchange: Exchange) -> None:
        """End the exchange: the worker has written the whole response; the connection's lock is held."""

    def end_exchange(self, exchange: Exchange) -> None:
        """End the exchange: the response is with the transport, or lost."""

    def reset(self, why: str) -> None:
        """Close with a reset."""


class Nobody:
    """In place of the wire before there is a transport, and after the last exchange: breaks the cycle of references between wire and outbox."""

    state = State.CLOSED

    def transition(self, event: Event) -> None:
        """Do nothing: there is no connection."""

    def take_completion(self) -> bool:
        """Return False: the connection is over."""
        return False

    def complete(self, exchange: Exchange) -> None:
        """Do nothing: the exchange has ended."""

    def end_exchange(self, exchange: Exchange) -> None:
        """Do nothing: the exchange has ended."""

    def reset(self, why: str) -> None:
        """Do nothing: there is no transport."""


NOBODY = Nobody()


class Outbox:
    __slots__ = (
        "_buffered_bytes", "_connection", "_lock", "_on_writable", "_put_bytes", "_sender", "_unread_bytes", "_waiter", "_wire",
        "backlog_bytes", "can_bypass", "executor", "fd", "is_write_paused", "service", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, connection: Connection, can_bypass: bool) -> None:
        """Make the outbox of a connection. `can_bypass`: octets may go to the socket past the transport."""
        self.can_bypass = can_bypass
        self.service = connection.service
        self.executor = connection.service.executor
        self.fd = -1
        self.is_write_paused = False  # the transport's buffer is over the limit
        self._wire: Owner = NOBODY
        self._connection = connection
        # Guards fd, backlog_bytes and _waiter, where a worker meets the loop.
        self._lock = connection.lock
        self._on_writable: Callable[[], object] | None = None  # goes on with a body when there is room
        self._sender: Sender | None = None  # writes to the socket past the transport
        self.backlog_bytes = 0  # from a worker, not yet taken over by a transport with room
        self._buffered_bytes = 0  # of those, in the transport's buffer since the last lack of room
        # The octets read by the client, counted while the client is behind: see count_read.
        self._put_bytes = self._unread_bytes = 0
        self._waiter: threading.Lock | None = None  # locked; a release wakes the worker waiting to write

    # --- called on the event loop: the transport ---

    def connect(self, wire: Owner, transport: asyncio.Transport) -> None:
        """Write to this transport from now on."""
        self._wire, self.transport = wire, transport
        if self.can_bypass:
            self.fd = transport.get_extra_info("socket").fileno()

    def lose(self) -> None:
        """Forget the descriptor, about to close; the connection's lock is held."""
        self.fd = -1

    def leave(self) -> None:
        """Forget the wire: no exchange is left."""
        self._wire = NOBODY

    @property
    def is_over(self) -> bool:
        """Whether the loop writes no more: the connection is closing, or gone."""
        return self._wire.state > LOOP_ENDS

    @property
    def is_lost(self) -> bool:
        """Whether octets written now cannot reach the client."""
        return self._wire.state > LOOP_ENDS or self.transport.is_closing()

    @property
    def is_behind(self) -> bool:
        """Whether octets wait for the client to read."""
        return self.is_write_paused or self._sender is not None

    @property
    def is_empty(self) -> bool:
        """Whether neither the transport nor TLS holds octets: such octets would be lost in a move of the descriptor."""
        return self.can_bypass and not self.transport.is_closing() and not self.transport.get_write_buffer_size()

    @property
    def may_enter_lane(self) -> bool:
        """Whether the lane could go on with what the transport has: the socket, and a session of TLS."""
        has_parts = self.can_bypass or self.session is not None
        return has_parts and not self.transport.is_closing() and not self.transport.get_write_buffer_size()

    @property
    def transport_fd(self) -> int:
        """The transport's own descriptor."""
        return int(self.transport.get_extra_info("socket").fileno())

    @property
    def session(self) -> OwnSession | None:
        """The session of TLS, if the lane can take it."""
        found = None if self._connection.is_stream else self.transport.get_extra_info("ssl_object")
        return found if isinstance(found, OwnSession) else None

    def pause_writing(self) -> None:
        """Record a transport's buffer over the limit."""
        self.is_write_paused = True
        self.wake_waiter()  # the worker was waiting for the loop; now for the client, and may spool instead

    def resume_writing(self) -> None:
        """Go on writing: the transport has room again."""
        self.is_write_paused = False
        self._release_backlog()
        if self._on_writable is not None:
            # Not from in here: asyncio's selector transport (3.9 to 3.11 at least), closed while calling resume_writing, loses the connection
            # twice.
            self.service.loop.call_soon(self.go_on)

    def when_writable(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` when the transport, now full, has room or is lost."""
        self._on_writable = go_on

    def when_empty(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` as soon as the transport is empty, or is lost."""
        if self._wire.take_completion():
            self.transport.set_write_buffer_limits(high=0)
            if self.is_write_paused:
                self._on_writable = go_on
                return
        go_on()

    def go_on(self) -> None:
        """Call the function waiting for room: there is room, or the transport is lost."""
        self._release_backlog()
        on_writable = self._on_writable
        self._on_writable = None
        if on_writable is not None:
            on_writable()

    def count_read(self) -> int:
        """Count the octets read by the client since the last call, of those put into the transport in pieces."""
        put_bytes = self._put_bytes + (self._sender.take_progress() if self._sender is not None else 0)
        unread_bytes = self.transport.get_write_buffer_size() + queued_bytes(self.fd)
        # Below zero: other octets were put, such as the end of a response.
        read_bytes = max(self._unread_bytes + put_bytes - unread_bytes, 0)
        self._put_bytes, self._unread_bytes = 0, unread_bytes
        return read_bytes

    def start_sender(self, sender: Sender) -> bool:
        """Let a Sender write to the socket past the transport; see Sender.start."""
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
        """Stop sending: the transport is gone. A worker ends an exchange still there."""
        if self._sender is not None:
            self._sender.cancel()
        exchange = self._connection.exchange
        if exchange is not None:
            self.note_end(exchange, CUT)
            self.service.lost.add(exchange)
            self.close_spool(exchange.spool)

    def reset(self) -> None:
        """Close with a reset: a cut response must not look complete; transport and kernel free their octets at once."""
        try:
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:
            pass  # the client has closed first
        self.transport.abort()

    # --- called on the event loop: responses ---

    def on_complete(self, exchange: Exchange, octets: bytes) -> None:
        """Write the rest of the response, and end the exchange."""
        # Take the completion first. Otherwise a second thread of the app could still write past the transport.
        if self._wire.take_completion() and octets:
            self.transport.write(octets)
        self._wire.end_exchange(exchange)

    def on_rest(self, exchange: Exchange, rest: tuple[bytes | memoryview, ...]) -> None:
        """Send the rest of a whole response begun on another wire."""
        if self._wire.take_completion():
            for octets in rest:
                if octets:
                    self.transport.write(octets)
        self._wire.end_exchange(exchange)

    def on_piece(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """Write a piece of the response; more will follow."""
        if exchange is not self._connection.exchange or self.is_lost:
            return  # the exchange has ended: a second thread of the app wrote while the end was on the way here
        self.write_piece(octets)
        self._buffered_bytes += len(octets)
        if not self.is_write_paused:
            self._release_backlog()

    def write_piece(self, octets: bytes | memoryview) -> None:
        """Write a piece, and count the octets as unread by the client."""
        self.transport.write(octets)
        self._put_bytes += len(octets)

    def end(self, exchange: Exchange) -> None:
        """End the exchange: all of the response is with the transport, or with the kernel."""
        self._wire.end_exchange(exchange)

    def cut(self, exchange: Exchange, why: str) -> None:
        """Cut a response short: show the client the cut, in the way with the least loss."""
        self.close_spool(exchange.spool)
        if exchange is not self._connection.exchange:
            return  # the exchange has ended: the failure came after the last octet, and another exchange may be running
        exchange.keep_alive = False
        self.note_end(exchange, CUT)
        if self._wire.take_completion():
            if tells_its_end(exchange) and not self.transport.is_closing():
                # RFC 9112 8: the framing shows the cut. A reset would destroy octets still unread by the client, maybe whole responses before this
                # one.
                logger.info("%s: response cut short: %s", self._connection.name, why)
            else:
                self._wire.reset(why)
        self._wire.end_exchange(exchange)

    def cut_lost(self, exchange: Exchange, why: str) -> None:
        """Reset the connection: the rest of the response is lost by our fault. The caller ends the exchange."""
        self.note_end(exchange, CUT)
        self._wire.reset(why)

    def note_end(self, exchange: Exchange, otherwise: str) -> None:
        """Record for the access log the end of an exchange, unless known: the client has left, or `otherwise`."""
        if exchange.end == ANSWERED:
            exchange.end = CLIENT_GONE if self.is_lost else otherwise

    def is_current(self, exchange: Exchange) -> bool:
        """Return whether this exchange has not ended."""
        return exchange is self._connection.exchange

    def close_spool(self, spool: ResponseSpool | None) -> None:
        """Close the temporary file of a response."""
        close_file = spool.close() if spool is not None else None
        if close_file is not None:
            self.executor.submit(call_close, close_file)

    def _release_backlog(self) -> None:
        """Stop counting octets of the transport, now sent or lost; wake a waiting worker."""
        exchange, had_backlog = self._connection.exchange, self.backlog_bytes > 0
        with self._lock:
            self.backlog_bytes = max(self.backlog_bytes - self._buffered_bytes, 0)
            self._buffered_bytes = 0
        is_gone = had_backlog and not self.backlog_bytes
        # A whole response is counted until the end; the sent octets were earlier ones, such as early hints.
        if is_gone and exchange is not None and exchange.counted_bytes and not exchange.response.is_full:
            release_memory(self._connection, exchange)
        if self.has_room or self.is_over:
            self.wake_waiter()

    def wake_waiter(self) -> None:
        """Let a waiting worker check the condition again."""
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.release()

    # --- called from a worker (with --threads 0: on the event loop) ---

    def write_past(self, exchange: Exchange, octets: bytes | memoryview, is_last: bool) -> bytes | memoryview | None:
        """Write to the socket past the transport; return the octets left for the loop, None: none. `is_last`: then the exchange ends."""
        wire = self._wire
        with self._lock:
            if (
                wire.state != RUNNING
                or not self.can_bypass
                or len(octets) > DIRECT_BYTES
                or self.transport.get_write_buffer_size()
                or exchange is not self._connection.exchange  # ended since the check in `send`
            ):
                return octets
            self.executor.waking.append(None)
            try:
                sent = os.write(self.fd, octets) if octets else 0
            except OSError:
                return octets  # full, or closed: the transport meets the same error, and handles it
            finally:
                self.executor.waking.pop()
            if sent < len(octets):
                wire.transition(Event.TAKE_COMPLETION)
                return octets[sent:]
            if is_last:
                wire.complete(exchange)
            return None

    def put(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """Let the loop write a piece; from now on no octets may overtake the piece."""
        with self._lock:
            self.backlog_bytes += len(octets)
        self.executor.post(self.on_piece, exchange, keep_rest(octets))

    def take_completion(self) -> bool:
        """See Owner.take_completion."""
        return self._wire.take_completion()

    @property
    def has_room(self) -> bool:
        """Whether the backlog leaves room for more."""
        return self.backlog_bytes <= room_bytes(self._connection)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """
        Wait for a condition, itself free of waits, checked after each step of the loop.

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
    """Return the number of a socket's octets not yet received by the client, a long time for a slow client."""
    if sys.platform != "linux":
        return 0
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError):  # the socket is closed
        return 0
    return int(count)
