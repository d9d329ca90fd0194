"""A client of HTTP/2 that does what a client may, and what it may not: by the library h2, on a socket that waits.

Owns:     Client, one connection; Flood, one way to send much and mean nothing.
Not here: what is measured with it (bench_http2.py).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import h2.connection
import h2.events
import tls
from h2.config import H2Configuration
from h2.settings import SettingCodes
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

SECONDS = 10.0  # Guess: for any one answer
BATCH = 50  # frames that are sent at once


class Client:
    """One connection."""

    def __init__(self, port: int, window: int | None = None) -> None:
        """
        Connect. `window`: octets of each response that the server may send unasked.

        Raises:
            OSError: the server does not take it.
            ConnectionError: the server does not speak HTTP/2.
        """
        context = tls.client_context()
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.socket = context.wrap_socket(plain)
        if self.socket.selected_alpn_protocol() != "h2":
            self.close()
            raise ConnectionError("no HTTP/2")
        self.frames = h2.connection.H2Connection(H2Configuration(header_encoding=None))
        self.frames.initiate_connection()
        self.frames.increment_flow_control_window(1 << 28)
        if window is not None:
            self.frames.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def flush(self) -> None:
        """Send what is ready."""
        self.socket.sendall(self.frames.data_to_send())

    def ask(self, path: str, method: str = "GET", ends: bool = True) -> int:
        """Send a request; return the number of its stream."""
        number = self.frames.get_next_available_stream_id()
        self.frames.send_headers(number, fields(path, method), end_stream=ends)
        self.flush()
        return number

    def events(self, seconds: float = SECONDS) -> Iterator[Any]:
        """
        Yield what the server says, until it is silent for so long.

        Raises:
            OSError: it is silent, or gone.
        """
        while True:
            self.socket.settimeout(seconds)
            octets = self.socket.recv(1 << 16)
            if not octets:
                raise ConnectionError("the server has closed")
            yield from self.frames.receive_data(octets)
            self.flush()

    def wait_for(self, streams: set[int], seconds: float = SECONDS) -> dict[int, float]:
        """
        Return when each of these streams has ended, by the clock.

        Raises:
            OSError: one has not ended well.
        """
        ends: dict[int, float] = {}
        for event in self.events(seconds):
            if isinstance(event, h2.events.StreamReset) and event.stream_id in streams:
                raise ConnectionError("the server has reset the stream")
            if isinstance(event, h2.events.StreamEnded) and event.stream_id in streams:
                ends[event.stream_id] = time.perf_counter()
                if len(ends) == len(streams):
                    return ends
        raise AssertionError  # events() ends by an exception


def fields(path: str, method: str = "GET") -> list[tuple[str, str]]:
    """Return the field section of a request."""
    return [(":method", method), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)]


class Flood(NamedTuple):
    """One way to send frames that bring no request further."""

    name: str
    make: Callable[[Client, int], bytes]  # the octets of the frame with that number


def _reset(client: Client, number: int) -> bytes:
    stream = client.frames.get_next_available_stream_id()
    client.frames.send_headers(stream, fields("/nap"), end_stream=True)
    return bytes(client.frames.data_to_send()) + RstStreamFrame(stream, 8).serialize()


def _empty_data(client: Client, number: int) -> bytes:
    begin = b""
    if not number:
        client.frames.send_headers(1, fields("/", "POST"))
        begin = bytes(client.frames.data_to_send())
    return begin + DataFrame(1).serialize()


def _continuation(client: Client, number: int) -> bytes:
    if not number:
        return HeadersFrame(1, client.frames.encoder.encode(fields("/"))).serialize()
    return ContinuationFrame(1, client.frames.encoder.encode([("x", "y" * 100)])).serialize()


FLOODS = [
    Flood("rapid reset", _reset),
    Flood("pings", lambda client, number: PingFrame(0, b"12345678").serialize()),
    Flood("settings", lambda client, number: SettingsFrame(0, {SettingCodes.INITIAL_WINDOW_SIZE: 65535}).serialize()),
    Flood("empty data", _empty_data),
    Flood("continuations", _continuation),
]


def flood(port: int, way: Flood, seconds: float) -> tuple[int, float | None]:
    """Send frames for this long, reading nothing that comes; return their number, and after how many seconds the server ended it (None: it did not)."""
    client = Client(port)
    with contextlib.closing(client):
        client.socket.settimeout(SECONDS)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            try:
                client.socket.sendall(b"".join(way.make(client, count + each) for each in range(BATCH)))
            except socket.timeout:
                return count, None  # the server reads no more of it
            except OSError:
                return count, time.perf_counter() - began
            count += BATCH
    return count, None
