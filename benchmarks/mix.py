"""A sequence of requests as a proxy's kept connection carries them: mostly plain ones, now and then another.

Owns:     the kinds of requests; what is sent and what must come back, step by step; the file that
          mixed_load.c reads.
Not here: the app that answers (apps.mixed), who sends them (mixed_load.c).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

KINDS = ("stream", "post", "pair", "expect")
OK = b"HTTP/1.1 200 "
# Of apps.mixed's answers.
HELLO = b"My Own Hello World!"
SECOND = b"The second of a pair."
POST_OCTETS = 1000


class Step(NamedTuple):
    """What is sent, how the reply begins and ends, and how many requests are answered with it."""

    request: bytes
    begin: bytes
    end: bytes
    count: int = 1  # 0: the next step belongs to the same request


def build_mix(kinds: Collection[str], every: int, fields: Sequence[str] = ()) -> list[Step]:
    """
    Return one round of the sequence: each kind once, with `every` - 1 plain requests before it.

    `every` = 0, or no kinds: plain requests alone. `fields`: field lines that each request has besides.
    """
    plain = Step(_head("GET / HTTP/1.1", fields), OK, HELLO)
    if not every or not kinds:
        return [plain]
    return [step for kind in kinds for step in [plain] * (every - 1) + _steps_of(kind, fields)]


def _steps_of(kind: str, fields: Sequence[str]) -> list[Step]:
    body = b"x" * POST_OCTETS
    answer = b"%d octets" % len(body)
    if kind == "stream":
        # RFC 9112 7.1: the last chunk.
        return [Step(_head("GET /stream HTTP/1.1", fields), OK, b"\r\n0\r\n\r\n")]
    if kind == "post":
        half = len(body) // 2
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:], b""))
        return [Step(_head("POST /post HTTP/1.1", fields, "Transfer-Encoding: chunked") + chunks, OK, answer)]
    if kind == "pair":
        pair = _head("GET / HTTP/1.1", fields) + _head("GET /second HTTP/1.1", fields)
        return [Step(pair, OK, SECOND, 2)]
    head = _head("POST /post HTTP/1.1", fields, f"Content-Length: {len(body)}", "Expect: 100-continue")
    return [Step(head, b"HTTP/1.1 100 ", b"\r\n\r\n", 0), Step(body, OK, answer)]


def _head(line: str, fields: Sequence[str], *more: str) -> bytes:
    return "\r\n".join([line, "Host: 127.0.0.1", *fields, *more, "", ""]).encode("latin-1")


def pack(steps: Sequence[Step]) -> bytes:
    """Return the octets of the file that mixed_load.c reads."""
    parts = [b"%d\n" % len(steps)]
    for request, begin, end, count in steps:
        parts += [b"%d %d %d %d\n" % (len(request), len(begin), len(end), count), request, begin, end]
    return b"".join(parts)
