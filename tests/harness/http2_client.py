"""The client of HTTP/2 on a socket; tests of HTTP/1.1 can use it: octets of HTTP/1.1 are sent as streams.

It receives responses in the order of requests. A client in memory is in http2.py; http2_load.py and http2_websockets.py are made of this one.
"""

from __future__ import annotations

import collections
import http.client
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import h2.connection
import h2.events

from .client import RawClient, Reply, TLSClient, Truncated
from .http2 import CONFIG, receive
from .waiting import PATIENCE_SECONDS

Field = tuple[bytes, bytes]


class Stream:
    """The received part of one response."""

    def __init__(self) -> None:
        self.heads: collections.deque[list[Field]] = collections.deque()
        self.body = bytearray()
        self.is_ended = False
        self.reset_code: int | None = None
        self.is_raised = False  # its reset

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.is_ended or self.reset_code is not None

    @property
    def has_news(self) -> bool:
        """Whether there is something to receive."""
        return bool(self.heads or self.body) or (self.reset_code is not None and not self.is_raised)


class HTTP2Client(TLSClient):
    """A RawClient whose requests are streams; windows open as the test takes octets."""

    protocol = "HTTP/2.0"

    def __init__(
        self, address: Any, receive_buffer_bytes: int | None = None, context: ssl.SSLContext | None = None,
        on_event: Callable[[Any], object] = lambda event: None,
    ) -> None:  # fmt: skip
        """`on_event`: called with each event of h2."""
        self._connect(address, receive_buffer_bytes, context)
        self.frames = h2.connection.H2Connection(CONFIG)
        self._on_event = on_event
        self.streams: dict[int, Stream] = {}
        self.goaways: list[tuple[int | None, int]] = []
        self._asked: collections.deque[int] = collections.deque()  # whose final heads have not been received
        self._current = 0  # the stream whose body is being received
        self._octets = b""  # of an incomplete frame
        self._unsent = b""  # of HTTP/1.1: an incomplete request
        self._open: tuple[int, int | None] | None = (
            None  # the stream whose body is being sent, and how much is left; None: chunks
        )
        self._is_at_end = False
        self.frames.initiate_connection()
        self.flush()

    def _connect(self, address: Any, receive_buffer_bytes: int | None, context: ssl.SSLContext | None) -> None:
        context = context or ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols(["h2"])
        super().__init__(address, receive_buffer_bytes, context)

    # Sending

    def end_sending(self) -> None:
        """Half-close."""
        self._is_at_end = True
        super().end_sending()

    def flush(self) -> None:
        """Send the frames that h2 has ready, unless the last octet has been announced."""
        octets = self.frames.data_to_send()
        if not self._is_at_end:
            self.send_octets(octets)

    def send_octets(self, octets: bytes) -> None:
        """Send octets unchanged, such as frames that h2 would not make."""
        self.sock.sendall(octets)

    def ask(self, fields: Iterable[Field], body: bytes | None = None, is_whole: bool = True) -> int:
        """Begin a stream; return its number."""
        stream_id = self.frames.get_next_available_stream_id()
        self.streams[stream_id] = Stream()
        self._asked.append(stream_id)
        self.frames.send_headers(stream_id, list(fields), end_stream=is_whole and body is None)
        if body is not None:
            self.send_data(stream_id, body, is_whole)
        self.flush()
        return stream_id

    def send_data(self, stream_id: int, octets: bytes, is_last: bool) -> None:
        """Send octets as the windows allow, while the stream is open."""
        while True:
            self.flush()
            if self.streams[stream_id].is_over:
                return
            room = min(self.frames.local_flow_control_window(stream_id), self.frames.max_outbound_frame_size)
            if octets and not room:
                self._fill()
                continue
            piece, octets = octets[:room], octets[room:]
            self.frames.send_data(stream_id, piece, end_stream=is_last and not octets)
            if not octets:
                return

    def send(self, data: bytes) -> None:
        """Send these octets of HTTP/1.1 as frames."""
        self._unsent += data
        while self._unsent:
            if self._open is not None:
                if not self._send_body():
                    return
            elif b"\r\n\r\n" in self._unsent:
                head, _, self._unsent = self._unsent.partition(b"\r\n\r\n")
                self._send_head(*head.split(b"\r\n"))
            else:
                return

    def _send_head(self, line: bytes, *lines: bytes) -> None:
        method, target, _ = line.split(b" ")
        fields = [(name.lower(), value.strip(b" \t")) for name, _, value in (each.partition(b":") for each in lines)]
        given = dict(fields)
        is_chunked, length = (
            given.get(b"transfer-encoding", b"").lower() == b"chunked",
            int(given.get(b"content-length", b"0")),
        )
        scheme, authority = b"https", given.get(b"host", b"")
        if b"://" in target:
            scheme, _, rest = target.partition(b"://")
            authority, slash, path = rest.partition(b"/")
            target = slash + path
        pseudo = [(b":method", method), (b":scheme", scheme), (b":authority", authority), (b":path", target)]
        fields = [field for field in fields if field[0] not in (b"host", b"transfer-encoding")]
        is_whole = not is_chunked and not length
        stream_id = self.ask(pseudo + fields, is_whole=is_whole)
        self._open = None if is_whole else (stream_id, None if is_chunked else length)

    def _send_body(self) -> bool:
        """Send a part of a body; False: it is not there."""
        assert self._open is not None
        stream_id, left = self._open
        if left is None:
            line, end, rest = self._unsent.partition(b"\r\n")
            size = int(line.partition(b";")[0], 16) if end else 0
            if not end or (size and len(rest) < size + 2) or (not size and b"\r\n" not in rest):
                return False
            octets, self._unsent = rest[:size], rest[size + 2 :] if size else rest.partition(b"\r\n")[2]
            is_last = not size
        else:
            octets, self._unsent = self._unsent[:left], self._unsent[left:]
            left -= len(octets)
            is_last = not left
        self._open = None if is_last else (stream_id, left)
        self.send_data(stream_id, octets, is_last)
        self.flush()
        return True

    # Receiving

    def receive(self) -> None:
        """Receive the next frames; the end raises Truncated."""
        self._fill()

    def bodies(self, *asked: int) -> list[bytes]:
        """Return the bodies of these streams once all are over; give the server room for what has come."""
        streams, given = [self.streams[stream_id] for stream_id in asked], dict.fromkeys(asked, 0)
        while not all(stream.is_over for stream in streams):
            self.receive()
            counts = {stream_id: len(self.streams[stream_id].body) - given[stream_id] for stream_id in asked}
            if sum(counts.values()) <= 10_000:
                continue
            for stream_id, count in counts.items():
                given[stream_id] += count
                if count:
                    self.frames.increment_flow_control_window(count)
                if count and not self.streams[stream_id].is_over:
                    self.frames.increment_flow_control_window(count, stream_id)
            self.flush()
        return [bytes(stream.body) for stream in streams]

    def wait_for_settings(self) -> None:
        """Wait until the server's settings have come."""
        while self.frames.remote_settings.max_header_list_size is None:
            self._fill()

    def recv_head(self) -> Reply:
        """Receive the head of a response; a reset raises Truncated."""
        stream_id = self._asked[0]
        stream = self.streams[stream_id]
        try:
            self._wait(stream, lambda: bool(stream.heads))
        except Truncated:
            self._asked.popleft()
            raise
        fields = stream.heads.popleft()
        status = int(dict(fields)[b":status"])
        if status >= 200:
            self._current = self._asked.popleft()
        names = ["-".join(map(str.capitalize, name.decode("ascii").split("-"))) for name, _ in fields]
        shown = [(name, value.decode("latin-1")) for name, (_, value) in zip(names, fields) if name != ":status"]
        return Reply("HTTP/2", status, http.client.responses.get(status, ""), shown, b"", "none")

    def recv_response(self, is_head: bool = False) -> Reply:
        """Receive one response (a 1xx counts as one)."""
        reply = self.recv_head()
        if reply.status < 200:
            return reply
        body = b"".join(self.recv_chunks())
        if is_head or reply.status in (204, 304):
            assert not body
            return reply
        length = reply.get("Content-Length")
        assert length is None or int(length) == len(body)
        return reply._replace(body=body, framing="chunked" if length is None else "length")

    def recv_exactly(self, count: int) -> bytes:
        """Receive `count` octets of a body."""
        stream, found = self.streams[self._current], bytearray()
        while len(found) < count:
            try:
                self._wait(stream, lambda: bool(stream.body))
            except Truncated as exc:
                raise Truncated(bytes(found), exc.is_reset) from None
            found += self._take(stream, count - len(found))
        return bytes(found)

    def recv_chunks(self) -> Iterator[bytes]:
        """Receive a body, piece by piece."""
        stream, found = self.streams[self._current], b""
        while True:
            try:
                self._wait(stream, lambda: bool(stream.body) or stream.is_ended)
            except Truncated as exc:
                raise Truncated(found, exc.is_reset) from None
            if not stream.body:
                return
            piece = self._take(stream, len(stream.body))
            found = (found + piece)[-1000:]
            yield piece

    def recv_to_end(self) -> bytes:
        """Receive until the server closes; return the octets of bodies received meanwhile."""
        while True:
            try:
                self._fill()
            except Truncated as exc:
                if exc.is_reset:
                    raise
                return b"".join(bytes(stream.body) for stream in self.streams.values())

    def is_quiet(self) -> bool:
        """Whether the server has neither answered anything more nor closed, as of now."""
        self.sock.setblocking(False)
        try:
            while True:
                self._fill()
        except (BlockingIOError, ssl.SSLWantReadError):
            return not self.goaways and not any(stream.has_news for stream in self.streams.values())
        except Truncated:
            return False
        finally:
            self.sock.settimeout(PATIENCE_SECONDS)

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if a response comes instead, or nothing for ten seconds."""
        try:
            while not any(stream.has_news for stream in self.streams.values()):
                self._fill()
        except Truncated:
            return True
        except TimeoutError:
            pass
        return False

    def _wait(self, stream: Stream, condition: Any) -> None:
        while not condition():
            if stream.is_over:
                stream.is_raised = True
                raise Truncated(bytes(stream.body), False)
            self._fill()

    def _take(self, stream: Stream, count: int) -> bytes:
        """Take octets of a body, and give the server room for as many."""
        octets = bytes(stream.body[:count])
        del stream.body[:count]
        self.frames.increment_flow_control_window(len(octets))
        if not stream.is_over:
            self.frames.increment_flow_control_window(len(octets), self._current)
        self.flush()
        return octets

    def _fill(self) -> None:
        self._octets = receive(self.frames, self._octets + self._recv(), self._note)
        self.flush()

    def _note(self, event: Any) -> None:
        self._on_event(event)
        stream = self.streams.get(getattr(event, "stream_id", 0))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append((event.last_stream_id, int(event.error_code)))
        elif stream is None:
            return
        elif isinstance(event, (h2.events.ResponseReceived, h2.events.InformationalResponseReceived)):
            stream.heads.append([(bytes(name), bytes(value)) for name, value in event.headers])
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
        elif isinstance(event, h2.events.StreamEnded):
            stream.is_ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset_code = int(event.error_code)


class CleartextClient(HTTP2Client):
    """The same without TLS, with prior knowledge (RFC 9113 3.3)."""

    def _connect(self, address: Any, receive_buffer_bytes: int | None, _: ssl.SSLContext | None) -> None:
        RawClient.__init__(self, address, receive_buffer_bytes)
