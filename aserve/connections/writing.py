"""The writing half of the event loop's wire: from what workers hand over to the transport.

Owns:     the order of what is written: memory first, then the response's spool; how a response is cut short.
Thread:   event loop only. What workers look at, too, is under the connection's lock: docs/threads.md.
Spec:     RFC 9112 section 9.
Not here: what workers do (sending.py), large bodies and files (large_bodies.py), receiving (wire_loop.py), time-outs (timeouts.py); what the octets are (wsgi/response.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any, Callable, cast

from ..core.errors import ClientDisconnected, ResponseTruncated
from ..core.exchange import ANSWERED, CLIENT_GONE, CUT, TIMED_OUT, Exchange
from ..core.spool import ResponseSpool
from ..wire_log import tell
from ..workers.inline import InlineExecutor, no_running_loop
from .connection import Connection, tells_its_end
from .progress import Progress
from .sender import Sender
from .sendfile import call_close
from .states import TRANSITIONS, Event, State

if sys.platform == "linux":
    import fcntl
    import termios

logger = logging.getLogger("aserve")

# What is read from a spool is a new object each time, and PyPy has its nursery for those up to
# about this size. Measured 2026-11-21, 64 readers of 8 MiB each: PyPy grew by 350 MB with 256 KiB.
SPOOL_PIECE_BYTES = 1 << 16
# With --threads 0, pieces that one response may send in one iteration of the loop. Guess.
ITERATION_PIECES = 64

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
RUNNING, LOOP_ENDS = State.RUNNING, State.LOOP_ENDS


class WritingHalf(asyncio.Protocol):
    """What the event loop writes; `SendingHalf` adds what workers do, and `LoopWire` the rest."""

    __slots__ = (
        "_backlog_bytes",
        "_buffered_bytes",
        "_can_bypass",
        "_executor",
        "_fd",
        "_is_write_paused",
        "_lock",
        "_on_writable",
        "_progress",
        "_put_bytes",
        "_sender",
        "_service",
        "_state",
        "_transport",
        "_unread_bytes",
        "_waiter",
        "connection",
    )  # fmt: skip

    _transport: asyncio.Transport
    way = "the event loop"
    in_lane = False

    def __init__(self, connection: Connection, can_bypass: bool = True) -> None:
        self.connection = connection
        self._can_bypass = can_bypass  # octets may go to the socket past the transport
        self._service = connection.service
        self._executor = connection.service.executor
        # Guards _state, _fd, _backlog_bytes and _waiter as well, where a worker meets the loop.
        self._lock = connection.lock
        self._state = State.NEW
        self._progress = Progress(connection.service.config)
        self._fd = -1
        self._is_write_paused = False
        self._on_writable: Callable[[], object] | None = None  # goes on with a body when there is room
        self._sender: Sender | None = None  # writes to the socket past the transport
        self._backlog_bytes = 0  # from a worker, not yet taken over by a transport with room
        self._buffered_bytes = 0  # of those, in the transport's buffer since it ran out of room
        # What the client reads, counted while it is behind: see _count_read.
        self._put_bytes = self._unread_bytes = 0
        self._waiter: threading.Lock | None = None  # locked; its release wakes a worker that waits until it may write

    def _transition(self, event: Event) -> None:
        """Change the state: nothing else does."""
        self._state = TRANSITIONS[self._state, event]
        if self._service.tells_wire:
            tell(self.connection, f"{event.name}: {self._state.name}")

    def _end_exchange(self, exchange: Exchange) -> None:
        """End an exchange whose response is with the transport, or lost; go on with the connection."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        """The transport has as much as it likes to."""
        self._is_write_paused = True
        self._progress.move()
        self._wake_waiter()  # a worker that waits for us has from now on a client to wait for, and may spool instead

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._is_write_paused = False
        self._progress.move()
        self._release_backlog()
        if self._on_writable is not None:
            # Not from in here: asyncio's selector transport (3.9 to 3.11 at least) loses its
            # connection twice when it is closed while it calls resume_writing.
            self._service.loop.call_soon(self._call_on_writable)

    def _count_read(self) -> int:
        """Count what the client has read since the last call, of what was put into the transport in pieces."""
        put_bytes = self._put_bytes + (self._sender.take_progress() if self._sender is not None else 0)
        unread_bytes = self._transport.get_write_buffer_size() + queued_bytes(self._fd)
        # Less than nothing: something else was put, such as the end of a response.
        read_bytes = max(self._unread_bytes + put_bytes - unread_bytes, 0)
        self._put_bytes, self._unread_bytes = 0, unread_bytes
        return read_bytes

    def _take_completion(self) -> bool:
        """Take the end of this exchange over from its worker; False: the connection is closing already."""
        with self._lock:
            if self._state == RUNNING:
                self._transition(Event.TAKE_COMPLETION)
            return self._state <= LOOP_ENDS

    # Sending: each is posted by a worker, or goes on where one of them had to wait for room

    def _on_complete(self, exchange: Exchange, octets: bytes) -> None:
        """The rest of the response is here."""
        # Take the completion first. Otherwise a second thread of the app could still write past the transport.
        if self._take_completion() and octets:
            self._transport.write(octets)
        self._end_exchange(exchange)

    def _on_rest(self, exchange: Exchange, rest: tuple[bytes | memoryview, ...]) -> None:
        """What another wire has not sent of a whole response is here."""
        if self._take_completion():
            for octets in rest:
                if octets:
                    self._transport.write(octets)
        self._end_exchange(exchange)

    def _on_piece(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """A piece of the response is here; more will follow."""
        if self._state > LOOP_ENDS or exchange is not self.connection.exchange or self._transport.is_closing():
            return  # the last: a second thread of the app wrote while the end was on its way here
        self._transport.write(octets)
        self._put_bytes += len(octets)
        self._buffered_bytes += len(octets)
        if not self._is_write_paused:
            self._release_backlog()

    def _on_spool(self, exchange: Exchange, _: None = None) -> None:
        """Octets are in the spool of the response: send a piece whenever there is room."""
        if exchange is not self.connection.exchange:
            return  # cut short meanwhile
        spool = cast(ResponseSpool, exchange.spool)
        if self._state > LOOP_ENDS or self._transport.is_closing():
            self._close_spool(spool)
            spool.has_reader = False
        elif self._is_write_paused:
            self._on_writable = functools.partial(self._on_spool, exchange)
            return
        else:
            try:
                octets = spool.read(SPOOL_PIECE_BYTES)
            except OSError as exc:
                logger.error("%s: a response was lost in its temporary file: %s", self._service.name, exc)
                self._note_end(exchange, CUT)
                self._abort("its temporary file cannot be read")
                self._on_spool(exchange)
                return
            if octets:
                self._transport.write(octets)
                self._service.loop.call_soon(self._on_spool, exchange)  # others have their turn
        self._wake_waiter()
        if spool.is_ended and not spool.has_reader:
            self._end_spooled(exchange)

    def _on_spooled(self, exchange: Exchange, why: str | None) -> None:
        """The app is done, and its response, or all there will ever be of it, is in the spool."""
        spool = cast(ResponseSpool, exchange.spool)
        spool.is_ended, spool.end_error = True, why
        if not spool.has_reader:
            self._end_spooled(exchange)

    def _end_spooled(self, exchange: Exchange) -> None:
        spool = cast(ResponseSpool, exchange.spool)
        self._close_spool(spool)
        if spool.end_error is None:
            self._end_exchange(exchange)
            return
        if self._state <= LOOP_ENDS and not tells_its_end(exchange):
            # The client gets what the app made before it failed; that is over when the transport is empty.
            self._transport.set_write_buffer_limits(high=0)
            if self._is_write_paused:
                self._on_writable = functools.partial(self._on_abort, exchange, spool.end_error)
                return
        self._on_abort(exchange, spool.end_error)

    def _close_spool(self, spool: ResponseSpool | None) -> None:
        close_file = spool.close() if spool is not None else None
        if close_file is not None:
            self._executor.submit(call_close, close_file)

    def _on_pieces(self, exchange: Exchange, pieces: Iterator[bytes | memoryview]) -> None:
        """
        Step an iterable while there is room; with --threads 0 it is the app's.

        Nothing is spooled: an iterable that is not stepped blocks no thread, and the disk would block the loop.
        """
        with no_running_loop():
            self._step(exchange, pieces)

    def _step(self, exchange: Exchange, pieces: Iterator[bytes | memoryview]) -> None:
        try:
            for count, octets in enumerate(pieces):
                if self._state > LOOP_ENDS or self._transport.is_closing():
                    raise ClientDisconnected("the client closed the connection")
                self._transport.write(octets)
                self._put_bytes += len(octets)
                if self._is_write_paused:
                    self._on_writable = self._further_steps(exchange, pieces)
                    return
                if count >= ITERATION_PIECES:
                    self._service.loop.call_soon(self._further_steps(exchange, pieces))
                    return
        except (ClientDisconnected, ResponseTruncated) as exc:
            cast(Any, pieces).close()
            self._on_abort(exchange, str(exc))
        else:
            self._end_exchange(exchange)

    def _further_steps(self, exchange: Exchange, pieces: Iterator[bytes | memoryview]) -> Callable[[], object]:
        go_on = functools.partial(self._on_pieces, exchange, pieces)
        return cast(InlineExecutor, self._executor).in_its_context(go_on) if self._executor.is_inline else go_on

    def _on_abort(self, exchange: Exchange, why: str) -> None:
        """The response cannot be finished: let the client see that it is cut short, in the way that loses least."""
        self._close_spool(exchange.spool)
        if exchange is not self.connection.exchange:
            return  # it has ended; what failed came after its last octet, and another may be under way
        exchange.keep_alive = False
        self._note_end(exchange, CUT)
        if self._take_completion():
            if tells_its_end(exchange) and not self._transport.is_closing():
                # RFC 9112 8: the framing shows it. A reset would destroy what the client has not read yet,
                # which may be whole responses before this one.
                logger.info("%s: response cut short: %s", self.connection.name, why)
            else:
                self._abort(why)
        self._end_exchange(exchange)

    def _note_end(self, exchange: Exchange, otherwise: str) -> None:
        """Note for the access log how an exchange ends, unless that is known: its client has left, or `otherwise`."""
        if exchange.end == ANSWERED:
            is_lost = self._state > LOOP_ENDS or self._transport.is_closing()
            exchange.end = CLIENT_GONE if is_lost else otherwise

    def _abort(self, why: str) -> None:
        """
        Close with a reset, so that nobody takes what was sent for the whole response.

        It also frees at once what the transport and the kernel hold for a client that does not read.
        """
        logger.info("%s: connection aborted: %s", self.connection.name, why)
        with self._lock:
            self._transition(Event.CLOSE)
        try:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:
            pass  # the client was quicker
        self._transport.abort()

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader."""
        # Completion first: from then on no worker ends the exchange between a look and the abort.
        if self._take_completion() and exchange is self.connection.exchange and exchange.response.head_is_out:
            exchange.end = TIMED_OUT
            self._abort(why)

    def _call_on_writable(self) -> None:
        self._release_backlog()
        on_writable = self._on_writable
        self._on_writable = None
        if on_writable is not None:
            on_writable()

    def _release_backlog(self) -> None:
        """Count no longer what the transport had, as it has gone or is lost; wake a worker that waits for that."""
        exchange, had_backlog = self.connection.exchange, self._backlog_bytes > 0
        with self._lock:
            self._backlog_bytes = max(self._backlog_bytes - self._buffered_bytes, 0)
            self._buffered_bytes = 0
        is_gone = had_backlog and not self._backlog_bytes
        # A whole response is counted to its end; what has gone was before it, such as early hints.
        if is_gone and exchange is not None and exchange.counted_bytes and not exchange.response.is_full:
            self._release_memory(exchange)
        if self._is_writable or self._state > LOOP_ENDS:
            self._wake_waiter()

    @property
    def _is_writable(self) -> bool:
        return self._backlog_bytes <= self._service.config.write_buffer_bytes

    def _release_memory(self, exchange: Exchange) -> None:
        """Count what is large of this exchange no longer: it is not in memory any more."""
        memory = self._service.budgets.memory
        with self._lock:
            counted_bytes, exchange.counted_bytes = exchange.counted_bytes, 0
            body, exchange.counted_body = exchange.counted_body, None
        if body is not None:
            memory.release_body(body)
            counted_bytes -= len(body)
        if counted_bytes:
            memory.release(counted_bytes)

    def _wake_waiter(self) -> None:
        """Let a worker that waits look again."""
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.release()


def queued_bytes(fd: int) -> int:
    """Return how many octets a socket has taken and its client has not; a slow one empties it long after us."""
    if sys.platform != "linux":
        return 0
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError):  # it is closed
        return 0
    return int(count)
