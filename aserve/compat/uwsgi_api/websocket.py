"""The functions of the module `uwsgi` for WebSockets: the handshake, messages, pings.

Owns:     WEBSOCKET, by their names; the frames of a WebSocket of the app.
Thread:   the one that runs the app; another one may send at the same time.
Spec:     RFC 6455; uWSGI 2.0.30, "WebSocket support".
Not here: the socket of a request, which the server gives in its environ (connections/loop/websocket.py), finding the request (request.py).

As in uWSGI, a wait for a message answers pings, sends pings of its own, and raises OSError when the client has left, or does not answer them.
"""

from __future__ import annotations

import base64
import hashlib
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, Callable

from .request import environ_for
from .texts import Text, octets_of

KEY = "aserve.uwsgi_websocket"  # in the environ
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN, MASKED = 0x80, 0x80
MAX_BYTES = 1 << 20  # of a message: uWSGI's websockets-max-size
PING_SECONDS = 30.0  # uWSGI's websockets-ping-freq
PONG_SECONDS = 3.0  # uWSGI's websockets-pong-tolerance
PIECE_BYTES = 1 << 16
NOT_RECEIVED, NOT_SENT = "unable to receive websocket message", "unable to send websocket message"  # uWSGI's texts


class WebSocket:
    """One WebSocket, on the server's side."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._sock, self._clock = sock, clock
        self._octets = bytearray()  # received, and not read yet
        self._message = bytearray()  # of a message in several frames
        self._frames: deque[bytes] = deque()  # to be sent, in order
        self._lock = threading.RLock()  # held while frames are sent; an RLock knows its owner
        self._heard_at = clock()
        self._pinged_at = 0.0  # 0: no ping waits for its pong

    def send(self, kind: int, content: bytes) -> None:
        """
        Send a message in one frame.

        Raises:
            OSError: the client has left.
        """
        head = bytes((FIN | kind,))
        if len(content) < 126:
            head += bytes((len(content),))
        elif len(content) < 1 << 16:
            head += struct.pack("!BH", 126, len(content))
        else:
            head += struct.pack("!BQ", 127, len(content))
        try:
            self._frames.append(head + content)
            # A finalizer or signal handler that interrupts `sendall` does not wait: the interrupted call sends its frame afterwards.
            while self._frames and not self._lock._is_owned():  # type: ignore[attr-defined]
                with self._lock:
                    while self._frames:
                        self._sock.sendall(self._frames.popleft())
        except OSError:
            raise OSError(NOT_SENT) from None

    def receive(self, may_wait: bool) -> bytes:
        """
        Return the next message; b"": `may_wait` is False, and none is there.

        Raises:
            OSError: the client has left, has broken the protocol, or does not answer pings.
        """
        while True:
            frame = self._next_frame()
            if frame is not None:
                message = self._take(*frame)
                if message is not None:
                    return message
                continue
            if not self._read(self._seconds_left() if may_wait else 0.0) and not may_wait:
                return b""

    def _take(self, is_last: bool, kind: int, content: bytes) -> bytes | None:
        """Handle a frame; return a message that is whole with it."""
        if kind == PING:
            self.send(PONG, content)
        elif kind == CLOSE:
            self.send(CLOSE, content[:2])
            raise OSError(NOT_RECEIVED)
        elif kind in (CONTINUATION, TEXT, BINARY):
            self._message += content
            if len(self._message) > MAX_BYTES:
                raise OSError(NOT_RECEIVED)
            if is_last:
                message = bytes(self._message)
                self._message.clear()
                return message
        elif kind != PONG:
            raise OSError(NOT_RECEIVED)
        return None

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        """Return the next frame: whether it is the last of its message, its kind, its content; None: it is not whole yet."""
        octets = self._octets
        if len(octets) < 2:
            return None
        size, at = octets[1] & 0x7F, 2
        if not octets[1] & MASKED or octets[0] & 0x70:  # RFC 6455 section 5.1: a client masks; no extension was agreed
            raise OSError(NOT_RECEIVED)
        if size >= 126:
            form = "!H" if size == 126 else "!Q"
            if len(octets) < 2 + struct.calcsize(form):
                return None
            (size,) = struct.unpack_from(form, octets, 2)
            at += struct.calcsize(form)
        if size > MAX_BYTES:
            raise OSError(NOT_RECEIVED)
        if len(octets) < at + 4 + size:
            return None
        content = _unmask(bytes(octets[at : at + 4]), bytes(octets[at + 4 : at + 4 + size]))
        first = octets[0]
        del octets[: at + 4 + size]
        return bool(first & FIN), first & 0x0F, content

    def _read(self, seconds: float) -> bool:
        """Read what has come, or comes within `seconds`; return whether it was anything."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        try:
            octets = self._sock.recv(PIECE_BYTES)
        except OSError:
            octets = b""
        if not octets:
            raise OSError(NOT_RECEIVED)
        self._octets += octets
        self._heard_at, self._pinged_at = self._clock(), 0.0
        return True

    def _seconds_left(self) -> float:
        """Send a ping if it is time for one; return for how long to wait."""
        now = self._clock()
        if self._pinged_at:
            if now >= self._pinged_at + PONG_SECONDS:
                raise OSError(NOT_RECEIVED)
            return self._pinged_at + PONG_SECONDS - now
        if now >= self._heard_at + PING_SECONDS:
            self.send(PING, b"")
            self._pinged_at = now
            return PONG_SECONDS
        return self._heard_at + PING_SECONDS - now


def _unmask(mask: bytes, content: bytes) -> bytes:
    size = len(content)
    whole = int.from_bytes(mask * (size // 4 + 1), "little") & ((1 << 8 * size) - 1)
    return (int.from_bytes(content, "little") ^ whole).to_bytes(size, "little")


def websocket_handshake(key: Text | None = None, origin: Text | None = None, protocol: Text | None = None) -> None:
    """
    Answer the request for a WebSocket; `key`: by default that of the request.

    Raises:
        OSError: the request asks for none, or the client has left.
        RuntimeError: there is no request here. The same for all of these.
    """
    environ = environ_for("websocket_handshake")
    sock, found = (
        environ.get("werkzeug.socket"),
        octets_of(key) if key else environ.get("HTTP_SEC_WEBSOCKET_KEY", "").encode(),
    )
    if sock is None or not found:
        raise OSError("unable to complete websocket handshake")
    accept = base64.b64encode(hashlib.sha1(found + GUID).digest())  # noqa: S324 - the protocol's
    lines = [b"HTTP/1.1 101 Web Socket Protocol Handshake", b"Upgrade: WebSocket", b"Connection: Upgrade"]
    given = octets_of(origin) if origin else environ.get("HTTP_ORIGIN", "").encode("latin-1")
    asked = octets_of(protocol) if protocol else environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").encode("latin-1")
    lines.append(b"Sec-WebSocket-Origin: " + (given or b"*"))
    if asked:
        lines.append(b"Sec-WebSocket-Protocol: " + asked)
    lines.append(b"Sec-WebSocket-Accept: " + accept)
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise OSError("unable to complete websocket handshake")
    sock.settimeout(None)
    try:
        sock.sendall(b"\r\n".join([*lines, b"", b""]))
    except OSError:
        raise OSError("unable to complete websocket handshake") from None
    environ[KEY] = WebSocket(sock)


def _here(name: str, fault: str) -> WebSocket:
    found = environ_for(name).get(KEY)
    if found is None:
        raise OSError(fault)
    return found  # type: ignore[no-any-return]


def websocket_recv(request_context: Any = None) -> bytes:
    """
    Wait for the next message, and return it.

    Raises:
        OSError: the client has left, or there was no handshake. The same for all of these.
    """
    return _here("websocket_recv", NOT_RECEIVED).receive(True)


def websocket_recv_nb(request_context: Any = None) -> bytes:
    """Return the next message, or b"" if none has come."""
    return _here("websocket_recv_nb", NOT_RECEIVED).receive(False)


def websocket_send(message: Text, request_context: Any = None) -> None:
    """Send a message of text."""
    _here("websocket_send", NOT_SENT).send(TEXT, octets_of(message))


def websocket_send_binary(message: Text, request_context: Any = None) -> None:
    """Send a message of octets."""
    _here("websocket_send_binary", NOT_SENT).send(BINARY, octets_of(message))


def connection_fd() -> int:
    """Return the descriptor of a WebSocket's socket, to be waited for."""
    sock = environ_for("connection_fd").get("werkzeug.socket")
    if sock is None:
        raise OSError("only a request for a WebSocket has a socket of its own here")
    return sock.fileno()  # type: ignore[no-any-return]


WEBSOCKET: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        websocket_handshake, websocket_recv, websocket_recv_nb, websocket_send, websocket_send_binary, connection_fd,
    )
}  # fmt: skip
