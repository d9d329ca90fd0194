"""One stream: to a wire it is a transport of its own, whose octets become frames.

Owns:     StreamTransport: the response's heads and octets that wait to be sent; pausing both ways; its end.
Thread:   event loop only; is_closing() any.
Spec:     RFC 9113 sections 5.1, 5.2 and 8.1.
Not here: the states (states.py); frames and windows (cparsers/h2.h); the order of streams (turns.py); the response (wsgi/response.py), its way here (connections/loop/outbox.py).
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from typing import TYPE_CHECKING, Any, Callable

from ...connections.loop.response_memory import STREAM_BYTES
from ...core.patterns import lazy_pattern
from ...protocols.http2 import DEFAULT_URGENCY
from .states import TRANSITIONS, Event, State

if TYPE_CHECKING:
    from ...connections.loop.websocket import WebSocket
    from ...connections.loop.wire_loop import LoopWire
    from .request import StreamRequest

logger = logging.getLogger("aserve")

HIGH_BYTES = STREAM_BYTES  # more waits only where it is counted
NO_HANDSHAKE = "an app's handshake of a WebSocket that is none"  # all other heads wsgi/response.py makes
_HEAD_END = b"\r\n\r\n"
_STATUS_LINE = lazy_pattern(rb"HTTP/1\.1 ([0-9]{3}) ")
_LENGTH = lazy_pattern(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
HEAD, BODY, CLOSED = State.HEAD, State.BODY, State.CLOSED


class NoSocket:
    """In place of a socket: an option for one stream must not change the connection of all."""

    family = socket.AF_UNSPEC

    def setsockopt(self, *_: object) -> None:
        """Do nothing."""

    def fileno(self) -> int:
        """Return -1, as of a closed one."""
        return -1


_NO_SOCKET = NoSocket()


class StreamTransport(asyncio.Transport):
    """The transport of one stream."""

    __slots__ = (
        "_extra", "_high", "_is_paused", "_is_reading", "_left", "_on_change", "_unfinished", "has_no_body", "heads", "pending",
        "request", "state", "stream_id", "unread_bytes", "urgency", "wire",
    )  # fmt: skip

    def __init__(
        self, stream_id: int, wire: LoopWire, request: StreamRequest, extra: Callable[[str, Any], Any],
        on_change: Callable[[StreamTransport], None],
    ) -> None:  # fmt: skip
        """`extra`: get_extra_info of the connection. `on_change`: called when there is something to send, or to read further."""
        self.stream_id, self.request = stream_id, request
        self.wire: LoopWire | WebSocket = wire
        self._extra, self._on_change = extra, on_change
        self.urgency = DEFAULT_URGENCY
        self.state = HEAD  # changed by `_transition` alone
        # Receiving
        self.unread_bytes = 0  # received, and not yet given back to the client's window
        self._is_reading = True
        # Sending
        self.heads: list[tuple[bool, bytes]] = []  # whether it is the last one, and its lines of HTTP/1.1
        self.has_no_body = False  # of a response to HEAD
        self.pending: bytearray | memoryview = bytearray()
        self._unfinished = b""  # of a head
        self._left: int | None = None  # octets that the response's Content-Length still promises
        self._high = HIGH_BYTES
        self._is_paused = False

    def _transition(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    # --- called by the session ---

    def begin(self) -> None:
        """Pass on the head of the request, which the wire has."""
        self.wire.connection_made(self)
        if self.request.is_ended and self.request.asks_websocket:
            self.wire.eof_received()

    def go_on(self, unsent_bytes: int) -> None:
        """Expect the rest of a response whose head is sent; -1: of any length."""
        self._transition(Event.FINAL_HEAD)
        self._left = unsent_bytes if unsent_bytes >= 0 else None

    def receive(self, data: bytes, is_last: bool) -> None:
        """Pass on octets of the request's body, or of a WebSocket."""
        self.request.is_ended = is_last
        if data or not self.request.asks_websocket:
            self.wire.data_received(data)
        if is_last and self.request.asks_websocket:
            self.wire.eof_received()

    def take(self, count: int) -> bytes:
        """Take octets to send."""
        octets = bytes(self.pending[:count])
        if type(self.pending) is bytearray:
            del self.pending[:count]
        else:
            self.pending = self.pending[count:] or bytearray()
        return octets

    def on_sent(self) -> None:
        """Let the wire write more, if all is sent: what is left would keep a large object in memory that is not counted any more."""
        if self._is_paused and not self.pending:
            self._is_paused = False
            self.wire.resume_writing()

    def lose(self) -> None:
        """End the stream: it is closed, or reset."""
        if self.state is not CLOSED:
            self._transition(Event.LOST)
            self.pending = bytearray()
            self.wire.connection_lost(None)

    @property
    def is_sendable(self) -> bool:
        """Whether there is something to send, if its window has room."""
        return bool(self.heads or self.pending or self.state > BODY)

    # --- asyncio.Transport: called by the wire ---

    def write(self, data: Any) -> None:
        """Send octets: heads of HTTP/1.1 up to the final one, then the body."""
        if self.state > BODY or not data:
            return
        if self.state is HEAD:
            rest = self._read_heads(self._unfinished + bytes(data))
            if rest is None:
                logger.info("stream reset: %s", NO_HANDSHAKE)
                self.abort()
                return
            data = rest
        if len(data) > HIGH_BYTES and not self.pending:
            self.pending = memoryview(data)  # no copy: the caller has counted the object alone
        else:
            if type(self.pending) is memoryview:
                self.pending = bytearray(self.pending)
            self.pending += data
        if self._left is not None:
            self._left -= len(data)
        self._pause_if_full()
        self._on_change(self)

    def _read_heads(self, data: bytes) -> bytes | None:
        """Take heads; return the octets behind the final one, None if there is no head."""
        while True:
            head, end, rest = data.partition(_HEAD_END)
            if not end:
                self._unfinished = data
                return b""
            line = _STATUS_LINE.match(head)
            if line is None:
                return None
            status = int(line[1])
            is_final = status >= 200 or (status == 101 and self.request.asks_websocket)
            self.heads.append((is_final, head))
            if is_final:
                self._expect_body(status, head)
                return rest
            data = rest

    def _expect_body(self, status: int, head: bytes) -> None:
        self._transition(Event.FINAL_HEAD)
        self._unfinished = b""
        if not self.has_no_body and status not in (204, 304):
            length = _LENGTH.search(head)
            self._left = None if length is None else int(length[1])

    def _pause_if_full(self) -> None:
        if not self._is_paused and len(self.pending) > self._high:
            self._is_paused = True
            self.wire.pause_writing()

    def set_protocol(self, protocol: Any) -> None:
        """Give the stream to a WebSocket."""
        self.wire = protocol

    def can_write_eof(self) -> bool:
        """Return False: a response ends by the end of its stream."""
        return False

    def close(self) -> None:
        """Send what is pending, then end the stream."""
        if self.state <= BODY:
            self._transition(Event.CUT if self._left else Event.CLOSE)
            self._on_change(self)

    def abort(self) -> None:
        """Reset the stream."""
        if self.state is not CLOSED:
            self._transition(Event.CUT)
            self.pending = bytearray()
            self._on_change(self)

    def is_closing(self) -> bool:
        """Return whether no more octets will be sent."""
        return self.state > BODY

    def pause_reading(self) -> None:
        """Give no more room to the client for now."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give room to the client again."""
        if not self._is_reading:
            self._is_reading = True
            self._on_change(self)

    def is_reading(self) -> bool:
        """Return whether the client gets room for more."""
        return self._is_reading

    def get_write_buffer_size(self) -> int:
        """Return how many octets have not been sent."""
        return len(self.pending)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limit for `pause_writing`; `low` has no effect: `resume_writing` follows when all is sent."""
        self._high = HIGH_BYTES if high is None else high
        self._pause_if_full()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the connection's extra information, but for its socket."""
        return _NO_SOCKET if name == "socket" else self._extra(name, default)
