"""Clients that speak in octets, over a blocking socket, with TLS or without: strict about received octets."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from .waiting import PATIENCE_SECONDS


class Truncated(Exception):
    """The connection ended within a response; `octets` is the received part."""

    def __init__(self, octets: bytes, is_reset: bool) -> None:
        super().__init__(f"truncated after {octets[-200:]!r}, {'reset' if is_reset else 'closed'}")
        self.octets = octets
        self.is_reset = is_reset


class Reply(NamedTuple):
    """One response."""

    version: str
    status: int
    reason: str
    fields: list[tuple[str, str]]  # unchanged
    body: bytes
    framing: str  # "length", "chunked", "close" or "none"

    def get(self, name: str) -> str | None:
        """Return the value of a field that occurs at most once."""
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} repeated: {values}"
        return values[0] if values else None

    def json(self) -> Any:
        """Return the body, read as JSON."""
        return json.loads(self.body)


class RawClient:
    """A blocking socket that speaks in octets; each wait ends after ten seconds."""

    Truncated = Truncated
    authority = ""  # whose certificates are believed
    protocol = "HTTP/1.1"  # in the app's view

    def __init__(self, address: Any, receive_buffer_bytes: int | None = None) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        if receive_buffer_bytes:
            # Before connect(), or the window is already open.
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            self.sock.connect(address)
        except OSError:
            self.sock.close()
            raise
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self.is_reset = False

    # Sending

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def request(self, target: str = "/", *fields: str, method: str = "GET", body: bytes = b"") -> None:
        """Send an HTTP/1.1 request; Content-Length is added for a body."""
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def fetch(self, target: str = "/", *fields: str, method: str = "GET", body: bytes = b"") -> Reply:
        """Send a request, return the response."""
        self.request(target, *fields, method=method, body=body)
        return self.recv_response(is_head=method == "HEAD")

    def end_sending(self) -> None:
        """Half-close: no more will be sent."""
        self.sock.shutdown(socket.SHUT_WR)

    # Receiving

    def recv_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._fill()
        end = self._buffer.index(mark) + len(mark)
        return self._cut(end)

    def recv_exactly(self, count: int) -> bytes:
        """Receive `count` octets."""
        if len(self._buffer) < count:
            parts, have = [self._buffer], len(self._buffer)
            self._buffer = b""
            while have < count:
                try:
                    data = self._recv()
                except Truncated:
                    self._buffer = b"".join(parts)
                    raise Truncated(self._buffer, self.is_reset) from None
                parts.append(data)
                have += len(data)
            self._buffer = b"".join(parts)
        return self._cut(count)

    def recv_head(self) -> Reply:
        """Receive a response's head."""
        head = self.recv_until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = head[:-4].split("\r\n")
        version, status, reason = (status_line + " ").split(" ", 2)
        assert re.fullmatch(r"[0-9]{3}", status), f"no status line: {status_line!r}"
        fields = []
        for line in lines:
            name, colon, value = line.partition(": ")
            assert colon and "\n" not in value and "\r" not in value, f"no field line: {line!r}"
            fields.append((name, value))
        return Reply(version, int(status), reason.rstrip(), fields, b"", "none")

    def recv_response(self, is_head: bool = False) -> Reply:
        """Receive one response (a 1xx counts as one); strict about framing."""
        reply = self.recv_head()
        length, coding = reply.get("Content-Length"), reply.get("Transfer-Encoding")
        assert length is None or coding is None, "two framings"
        if is_head or reply.status < 200 or reply.status in (204, 304):
            return reply
        if coding is not None:
            assert coding == "chunked", coding
            return reply._replace(body=b"".join(self.recv_chunks()), framing="chunked")
        if length is not None:
            return reply._replace(body=self.recv_exactly(int(length)), framing="length")
        return reply._replace(body=self.recv_to_end(), framing="close")

    def recv_chunks(self) -> Iterator[bytes]:
        """Receive a chunked body, chunk by chunk."""
        while True:
            size = int(self.recv_until(b"\r\n"), 16)
            chunk = self.recv_exactly(size)
            end = self.recv_exactly(2)
            assert end == b"\r\n", f"behind a chunk: {end!r}"
            if not size:
                return
            yield chunk

    def ask(self, data: bytes) -> bytes:
        """Send octets; return all octets until the connection closes."""
        self.send(data)
        return self.recv_to_end()

    def recv_to_end(self) -> bytes:
        """Receive until the server closes; a reset raises Truncated."""
        while True:
            try:
                self._fill()
            except Truncated as exc:
                if exc.is_reset:
                    raise
                return self._cut(len(self._buffer))

    def is_closed(self) -> bool:
        """Wait for the server's FIN or reset; False if octets come instead, or nothing for ten seconds."""
        try:
            self._fill()
        except Truncated:
            return True
        except TimeoutError:
            return False
        return False

    def is_quiet(self) -> bool:
        """Whether the server has neither sent anything more nor closed, as of now."""
        if self._buffer:
            return False
        self.sock.setblocking(False)
        try:
            self._fill()
        except BlockingIOError:
            return True
        except Truncated:
            return False
        finally:
            self.sock.settimeout(PATIENCE_SECONDS)
        return False

    # Ending

    def close(self) -> None:
        """Close, the usual way."""
        self.sock.close()

    def reset(self) -> None:
        """Close with a reset, as a crashing client."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _fill(self) -> None:
        self._buffer += self._recv()

    def _recv(self) -> bytes:
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            self.is_reset = True
            data = b""
        except socket.timeout as exc:  # before 3.10 not yet the same as TimeoutError
            raise TimeoutError(str(exc)) from None
        if not data:
            raise Truncated(self._buffer, self.is_reset)
        return data

    def _cut(self, end: int) -> bytes:
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        return data


class TLSClient(RawClient):
    """The same in TLS; a connection that ends without a closure alert counts as reset."""

    def __init__(
        self, address: Any, receive_buffer_bytes: int | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(address, receive_buffer_bytes)
        if context is None:
            context = ssl.create_default_context(cafile=self.authority)
        try:
            # Without PyPy's help: a socket closed in the handshake would be a warning.
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost", suppress_ragged_eofs=False)
        except BaseException:
            self.sock.close()
            raise

    def end_sending(self) -> None:
        """Half-close the socket below: a FIN, and no closure alert."""
        socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def is_quiet(self) -> bool:
        """Whether the server has neither sent anything more nor closed, as of now."""
        try:
            return super().is_quiet()
        except ssl.SSLWantReadError:
            return True

    def _recv(self) -> bytes:
        try:
            return super()._recv()
        except ssl.SSLEOFError:
            self.is_reset = True
            raise Truncated(self._buffer, self.is_reset) from None


def fetch_once(address: Any, target: str = "/", *fields: str) -> Reply:
    """Return the response to a request on a fresh connection."""
    with contextlib.closing(RawClient(address)) as client:
        return client.fetch(target, "Connection: close", *fields)
