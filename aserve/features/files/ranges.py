"""Parts of a representation, as a client requests them.

Owns:     the field Range; the body of a response with several parts.
Thread:   any; pure.
Spec:     RFC 9110 sections 14.1 to 14.6.
Not here: whether parts may be sent at all (conditions.py), the response (reply.py).
"""

from __future__ import annotations

import os
import re

from ...core.named_tuple import NamedTuple

# Apache's MaxRanges. More are no resumed download, but an attack on the CPU (CVE-2011-3192).
MAX_RANGES = 200

_SPEC = re.compile(r"([0-9]{1,18})-([0-9]{1,18})?\Z|-([0-9]{1,18})\Z")


class Part(NamedTuple):
    """Octets of a file."""

    offset: int
    size: int


def parse_range(field: str, size: int) -> list[Part] | None:
    """
    Return the parts of `size` octets requested by a Range field; [] if all lie outside.

    None: send the whole. The field is malformed, or has another unit; the file is empty; or the parts are too many, or overlap, together larger
    than the whole (RFC 9110 14.2).
    """
    unit, equals, specs = field.partition("=")
    if unit.strip().lower() != "bytes" or not equals or not size:
        return None
    parts: list[Part] = []
    texts = [text.strip() for text in specs.split(",")]
    if len(texts) > MAX_RANGES:
        return None
    for text in filter(None, texts):
        spec = _SPEC.match(text)
        if spec is None:
            return None
        first, last, suffix = spec[1], spec[2], spec[3]
        if suffix is not None:
            begin, end = max(size - int(suffix), 0), size
        else:
            begin, end = int(first), size
            if last is not None:
                if int(last) < begin:
                    return None
                end = min(int(last) + 1, size)
        if begin < end:
            parts.append(Part(begin, end - begin))
    if not any(texts) or sum(part.size for part in parts) > size:
        return None
    return parts


def content_range(part: Part, size: int) -> str:
    return f"bytes {part.offset}-{part.offset + part.size - 1}/{size}"


class Multipart(NamedTuple):
    """The framing of a multipart/byteranges body (RFC 9110 14.6)."""

    content_type: str
    heads: list[bytes]  # before each part
    tail: bytes
    length: int  # of the whole body


def multipart(parts: list[Part], size: int, content_type: str) -> Multipart:
    """Return the framing around these parts."""
    boundary = os.urandom(12).hex()
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    heads = [
        f"\r\n--{boundary}\r\n{kind}Content-Range: {content_range(part, size)}\r\n\r\n".encode("latin-1")
        for part in parts
    ]
    tail = f"\r\n--{boundary}--\r\n".encode("latin-1")
    length = sum(map(len, heads)) + sum(part.size for part in parts) + len(tail)
    return Multipart(f"multipart/byteranges; boundary={boundary}", heads, tail, length)
