"""The fast wire: a worker reads a request and sends its response by itself, for the connections of lane.py.

Owns:     FastWire: a response that one write can send; for any other the connection is handed over to the
          event loop first.
Thread:   two, under banners: workers reply, the event loop takes over.
Not here: receiving (lane.py), the way to the event loop (handover.py); responses in pieces, from files, to clients that
          are slow (sending.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, cast

from ..._cparsers import ffi, lib
from ...core.errors import ClientDisconnected, RequestRefused
from ...core.exchange import CLIENT_GONE, Exchange
from ...wsgi import FileResponse, Reply
from ..carrier import IN_LANE, StreamConnection
from ..connection import Connection, discard_reply, drop_exchange
from ..loop.pump import Large
from ..loop.sender import keep_rest
from ..loop.sendfile import call_close
from .handover import Handover, Handovers

if TYPE_CHECKING:
    from ..loop.wire_loop import LoopWire

# A response up to this size mostly fits a socket's buffer (208 KiB on Linux).
REPLY_BYTES = 1 << 17
# A file up to this size is read where the lane cannot send it. Guess: scripts and pictures of a page, not its videos.
FILE_BYTES = 1 << 20

_reply = lib.lane_reply
# The results if the client is gone, and if it had left before all was sent.
LOST, LATE = lib.LANE_LOST, lib.LANE_LATE
UNSENT = lib.LANE_UNSENT
HELD = lib.LANE_HELD  # all is taken, but a session of TLS has records that the socket has not


class FastWire:
    """Reads and writes below a connection in the lane."""

    __slots__ = ("_early", "_handover", "_handovers", "fd")
    way = "the fast path"
    in_lane = True

    def __init__(self, handovers: Handovers, fd: int) -> None:
        # The connection is found by the exchange: a reference to it here would make a cycle, which only the garbage collector frees.
        self._handovers = handovers
        # The connection's lock guards the three below while the response is not whole: other threads of the app may
        # send octets, and a deadline may take the exchange from its worker.
        self.fd = fd  # -1 once the connection has left the lane: another may have the number
        self._handover: Handover | None = None  # set once the connection leaves
        # With --threads 0: octets that the app has sent before it returned, and the socket has not taken.
        self._early: tuple[bytes | memoryview, ...] = ()

    # --- called from a worker (with --threads 0: on the event loop) ---

    def reply(self, exchange: Exchange, reply: Any) -> bool:
        """See Wire.reply."""
        if type(reply) is bytes:
            head, body = reply, b""
        elif type(reply) is tuple and len(reply[1]) <= REPLY_BYTES:
            head, body = reply
        else:
            if lib.lane_has_left(self._handovers.set, self.fd):
                exchange.end = CLIENT_GONE
            return not self._reply_large(exchange, reply) and self._reply_otherwise(exchange, reply)
        if self._handover is not None or self._early:
            return self._reply_otherwise(exchange, reply)
        # No lock: the response is whole. So the app's other threads send nothing more (Response.join_senders), and no
        # deadline takes the exchange from its worker (Run.end).
        exchange.connection.exchange = None
        size, body_size = len(head), len(body)
        sent = _reply(self._handovers.set, self.fd, head, size, body, body_size, exchange.keep_alive)
        if sent == size + body_size:
            return True
        if sent in (LOST, LATE):
            exchange.end = CLIENT_GONE
            return True
        sent = size + body_size if sent == HELD else sent
        self.leave_lane_with(exchange, head[max(sent, 0) :], keep_rest(body, max(sent - size, 0)))
        return False

    def _reply_large(self, exchange: Exchange, reply: Reply) -> bool:
        """Let the pump send a large body, or a file; False: it cannot."""
        pump = self._handovers.pump
        if pump is None or self._handover is not None or type(reply) not in (tuple, FileResponse):
            return False
        return pump.take(self, exchange, cast(Any, reply))

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """See Wire.send."""
        if self._handovers.executor.is_inline:
            self._send_early(exchange, octets)
        else:
            self._hand_over(exchange).wait().send(exchange, octets)

    def _send_early(self, exchange: Exchange, octets: bytes) -> None:
        # No transport can be made while the app runs. PEP 3333: octets given to write() may not wait for the app's end.
        with exchange.connection.lock:
            if exchange is not exchange.connection.exchange:
                raise ClientDisconnected("the response has ended")
            sent = 0
            if not self._early:
                part = ffi.new("lane_part *", (ffi.from_buffer(octets), len(octets)))
                # Below 0: full, or closed: a transport meets the same error, and handles it.
                sent = lib.lane_send(self._handovers.set, self.fd, part, 1)
                if sent == HELD:
                    self._early = (b"",)
                    return
            if sent < len(octets):
                self._early += (keep_rest(octets, max(sent, 0)),)

    def _reply_otherwise(self, exchange: Exchange, reply: Reply) -> bool:
        """Hand the connection over, then send a reply of any form."""
        if self._handovers.executor.is_inline:
            self.hand_over_and_call(exchange, lambda wire: self._reply_after_early(wire, exchange, reply), reply)
            return False
        try:
            wire = self._hand_over(exchange).wait()
        except ClientDisconnected:
            discard_reply(exchange, reply)
            return False
        return wire.reply(exchange, reply)

    def _reply_after_early(self, wire: LoopWire, exchange: Exchange, reply: Reply) -> None:
        early, self._early = self._early, ()
        try:
            for octets in early:
                wire.send(exchange, octets)
        except ClientDisconnected as exc:
            wire.fail(exchange, str(exc))
            discard_reply(exchange, reply)
            return
        if wire.reply(exchange, reply):
            exchange.connection.end_exchange(exchange)

    def leave_lane_with(self, exchange: Exchange, *rest: bytes | memoryview) -> None:
        """Let the event loop send the rest of a whole response, which the socket has not taken, before anything else."""
        try:
            with exchange.connection.lock:
                handover = self._leave_lane(exchange, rest)
        except ClientDisconnected:
            discard_reply(exchange, b"")
            return
        handover.call_when_ready(lambda wire: None, b"")

    def fail(self, exchange: Exchange, why: str) -> None:
        """See Wire.fail."""
        self.hand_over_and_call(exchange, lambda wire: wire.fail(exchange, why))

    # --- called by the pump, in its own thread ---

    @property
    def session(self) -> Any:
        """See PumpedWire."""
        return lib.lane_session(self._handovers.set, self.fd)

    def end_large(self, exchange: Exchange) -> None:
        """End the exchange, as all of the response is sent; go on with the connection."""
        exchange.connection.exchange = None  # now: the next request may come before the call returns
        if _reply(self._handovers.set, self.fd, b"", 0, b"", 0, exchange.keep_alive):
            self.leave_lane_with(exchange, b"")  # for the loop to close, as the client may still send
        else:
            exchange.connection.end_exchange(exchange)

    def go_on_large(self, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
        """Let the event loop send the rest, as the client is slow; the budgets count `large`."""
        self.hand_over_and_call(large.exchange, lambda wire: wire.go_on_large(large, reply), cast(Any, large))

    # --- called by the pump, or on the event loop ---

    def drop(self, exchange: Exchange) -> None:
        """Close a connection whose client has left before a worker has begun its request, or as the pump sends its response."""
        exchange.end = CLIENT_GONE
        fd = self.detach(exchange)
        if fd is not None:
            os.close(fd)
        connection = exchange.connection
        connection.service.lost.discard(exchange)
        connection.end_exchange(exchange)

    def detach(self, exchange: Exchange) -> int | None:
        """Take a connection out of the lane whose request no worker has; return its descriptor. None: it has left the lane, or that was closed."""
        connection, handovers = exchange.connection, self._handovers
        with connection.lock:
            fd, self.fd = self.fd, -1
            handovers.connections.pop(fd, None)
            connection.exchange = None
            if fd < 0 or not lib.lane_release(handovers.set, fd):
                return None
        end_session(handovers.set, fd)
        lib.lane_left(handovers.set)
        return fd

    # --- called on the event loop ---

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over; the worker is inside the app, and has nothing to do with the descriptor."""
        self.hand_over_and_call(exchange, lambda wire: wire.take_over(exchange, why), None)

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader; a worker that waits for its client has handed over."""
        if self._handover is not None:
            self._handover.call_when_ready(lambda wire: wire.abort_slow_reader(exchange, why))

    # --- called from both sides ---

    @property
    def is_held(self) -> bool:
        """Whether octets that were sent wait in a session of TLS, for the event loop to send."""
        return self.fd >= 0 and bool(lib.lane_holds(self._handovers.set, self.fd))

    def hand_over_and_call(
        self, exchange: Exchange, callback: Callable[[LoopWire], None], reply: Reply | None = b""
    ) -> None:
        """Hand over, and call back with the new wire on the event loop; `reply`: see Handover.call_when_ready."""
        try:
            self._hand_over(exchange).call_when_ready(callback, reply)
        except ClientDisconnected:
            drop_exchange(exchange, reply)

    def _hand_over(self, exchange: Exchange) -> Handover:
        """
        Take the connection out of the lane, unless it has left; return the Handover, which is ready when the event loop has it.

        Raises:
            ClientDisconnected: the exchange has ended, or the connection.
        """
        with exchange.connection.lock:
            if self._handover is not None:
                return self._handover  # the other wire checks whether this exchange is current
            if exchange is not exchange.connection.exchange:
                raise ClientDisconnected("the response has ended")
            return self._leave_lane(exchange, ())

    def _leave_lane(self, exchange: Exchange, rest: tuple[bytes | memoryview, ...]) -> Handover:
        """Take the connection out of the lane, with the lock held; `rest`: the unsent octets of a whole response."""
        connection = exchange.connection
        fd, self.fd = self.fd, -1
        self._handovers.connections.pop(fd, None)  # or the lane would keep the connection for as long as it lives
        if fd < 0 or not lib.lane_release(self._handovers.set, fd):
            connection.exchange = None
            raise ClientDisconnected("the connection is closed")
        connection.exchange = exchange
        self._handover = self._handovers.begin(fd, connection, exchange, rest)
        return self._handover


class StreamWire(FastWire):
    """The same below a stream of HTTP/2; `fd` is its number."""

    __slots__ = ()

    # --- called from a worker ---

    def reply(self, exchange: Exchange, reply: Any) -> bool:
        """See Wire.reply."""
        return super().reply(exchange, _octets_of(reply) if type(reply) is FileResponse else reply)

    def _reply_large(self, exchange: Exchange, reply: Reply) -> bool:
        """Let the lane send a body in memory as the client makes room; False: the event loop makes frames of the reply."""
        handovers = self._handovers
        if self._handover is not None or type(reply) is not tuple or not reply[1]:
            return False
        head, body = cast("tuple[bytes, bytes]", reply)
        large = Large(self, exchange, (head, body), exchange.connection.service.budgets, cast(Any, handovers.executor))
        if not large.reserve():
            return False
        large.pins = ffi.from_buffer(body)
        number, exchange.connection.exchange = self.fd, exchange
        handovers.kept[number] = large  # now: the end may come before the call returns
        result = lib.lane_keep(handovers.set, number, head, len(head), large.pins, len(body))
        large.is_kept = not result
        if large.is_kept and not handovers.is_over:
            return True
        if handovers.kept.pop(number, None) is None:
            return True  # it has ended
        if result == UNSENT:
            large.close()
            return False
        self.end_kept(large, lib.PUMP_SENT if result > 0 else lib.PUMP_GONE, 0)
        return True

    def leave_lane_with(self, exchange: Exchange, *rest: bytes | memoryview) -> None:
        """Send a whole response, of which nothing is sent, as the client makes room; see FastWire for any other."""
        head, end, body = cast(bytes, rest[0]).partition(b"\r\n\r\n")  # with a small body, or of C with any
        if not self._reply_large(exchange, (head + end, cast(bytes, body or (*rest, b"")[1]))):
            super().leave_lane_with(exchange, *rest)

    # --- called from both sides ---

    def _leave_lane(self, exchange: Exchange, rest: tuple[bytes | memoryview, ...]) -> Handover:
        """See FastWire; the head may be sent, and a part of the body."""
        sent_bytes = lib.lane_taken(self._handovers.set, self.fd)
        if sent_bytes >= 0:
            connection = cast(StreamConnection, exchange.connection)
            connection.unsent_bytes = exchange.response.promised_after(sent_bytes)
        return super()._leave_lane(exchange, rest)

    # --- called from a worker, or by the leader ---

    def end_kept(self, large: Large, outcome: int, unsent_bytes: int) -> None:
        """End the exchange whose response the lane has sent; or let the event loop send the rest, as the client is slow."""
        exchange, body = large.exchange, cast(bytes, large.reply[1])
        if outcome == lib.PUMP_LATE:
            cast(StreamConnection, exchange.connection).unsent_bytes = unsent_bytes
            self.go_on_large(large, (b"", memoryview(body)[len(body) - unsent_bytes :]))
            return
        if outcome == lib.PUMP_GONE:
            exchange.end = CLIENT_GONE
        exchange.connection.service.lost.discard(exchange)
        large.close()
        self.end_large(exchange)

    # --- called on the event loop, or by the leader ---

    @property
    def has_left(self) -> bool:
        """Whether the client has reset the stream, or is gone."""
        return self.fd >= 0 and bool(lib.lane_has_left(self._handovers.set, self.fd))

    def drop(self, exchange: Exchange) -> None:
        """See FastWire: the stream is closed already."""
        exchange.end = CLIENT_GONE
        connection, handovers = exchange.connection, self._handovers
        with connection.lock:
            fd, self.fd = self.fd, -1
            connection.exchange = None
            if fd >= 0 and lib.lane_release(handovers.set, fd):
                handovers.begin_stream(fd, b"")
        connection.service.lost.discard(exchange)
        connection.end_exchange(exchange)


def _octets_of(reply: FileResponse) -> FileResponse | tuple[bytes, bytes]:
    """Read a file that is not long, and close it: the lane sends octets. The event loop sends any other, and meets its errors."""
    if reply.size > FILE_BYTES or not reply.has_builtin_close:
        return reply
    try:
        body = os.pread(reply.file.fileno(), reply.size, reply.offset)
    except (OSError, ValueError):  # closed or detached by the app
        return reply
    if len(body) < reply.size:
        return reply
    call_close(reply.close)
    return reply.head, body


def stream_in_lane(handovers: Handovers, of: Connection, number: int) -> Connection:
    """Return the connection of a stream with this number, on this connection of HTTP/2."""
    made = StreamConnection(of, IN_LANE)
    made.wire = StreamWire(handovers, number)
    return made


def end_session(set: Any, fd: int) -> None:
    """End the session of TLS, if there is one, of a connection that has left the lane and will be closed."""
    session = lib.lane_take_session(set, fd)
    if session != ffi.NULL:
        lib.tls_end(session)


def refuse(exchange: Exchange, why: RequestRefused) -> None:
    """Answer an exchange with an error before the app has it: its body does not come, or no thread was free; called by leader and event loop."""
    exchange.connection.wire.hand_over_and_call(exchange, lambda wire: wire.refuse(exchange, why))
