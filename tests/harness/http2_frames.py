"""Frames of HTTP/2 as octets, also such as no library makes (RFC 9113 sections 4 and 6)."""

import functools
import struct

from hpack import Encoder

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION, PRIORITY_UPDATE = 0, 1, 2, 3, 4, 6, 8, 9, 16
END_STREAM = ACK = 1
END_HEADERS = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def setting(number: int, value: int) -> bytes:
    """Return one setting of a SETTINGS frame."""
    return struct.pack("!HI", number, value)


@functools.lru_cache(None)
def section(method: bytes = b"GET", path: bytes = b"/", *further: tuple[bytes, bytes]) -> bytes:
    """Return a request's field section, which uses no table."""
    fields = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path), *further]
    return Encoder().encode([(name, value, True) for name, value in fields])
