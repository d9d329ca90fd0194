"""The pairs of corpus/desync as streams of HTTP/2: the sent frames, and the expected end.

A request that HTTP/1.1 accepts is sent as meant, each of the pair on its own stream. A refused one is sent as by a client that wants another server,
behind a front server, to read two: its lines are fields, and all behind its head is its body.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable

from .desync import Pair
from .http2_client import Field, HTTP2Client
from .over_http2 import FILES_NOT_OVER_HTTP2

# Accepted over HTTP/1.1, as another request follows the body.
BODIES = {"body-longer-than-length"}


def expected_of(pair: Pair) -> dict[str, Any] | None:
    """Return the expected end of a pair over HTTP/2: as over HTTP/1.1, but no refusal ends the connection; None: the pair has no meaning."""
    if pair.name.startswith(tuple(FILES_NOT_OVER_HTTP2)):
        return None
    expected = {**pair.expected, **pair.by("http2"), "then": "open"}
    if is_one(pair):
        expected.update(seen=[], answers=[["cut", *pair.expected["answers"]]])
    return expected


def is_one(pair: Pair) -> bool:
    """Tell whether the pair is sent as one request, which is refused."""
    return not pair.expected["seen"] or pair.name in BODIES


def sendings(pair: Pair) -> list[Callable[[HTTP2Client], object]]:
    """Return the functions that send a pair; of one request, with its Host as :authority, too."""
    if not is_one(pair):
        return [lambda client: client.send(pair.raw)]
    head, _, rest = pair.raw.partition(b"\r\n\r\n")
    fields = fields_of(head)
    forms = [fields]
    if [name for name, _ in fields].count(b"host") == 1:
        forms.append([(b":authority" if name == b"host" else name, value) for name, value in fields])
        forms[1].sort(key=lambda field: not field[0].startswith(b":"))
    return [functools.partial(HTTP2Client.ask, fields=form, body=rest) for form in forms]


def fields_of(head: bytes) -> list[Field]:
    """Return a head's lines as fields; folds, and ends other than CR LF, stay in values."""
    line, *lines = re.split(rb"\r\n(?![ \t])", head)
    method, _, rest = line.partition(b" ")
    fields = [(b":method", method), (b":scheme", b"https"), (b":path", rest.rpartition(b" ")[0])]
    for each in lines:
        name, _, value = each.partition(b":")
        fields.append((name.lower(), value.strip(b" \t")))
    return fields
