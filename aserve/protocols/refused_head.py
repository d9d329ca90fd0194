"""A refused head of HTTP/1.x: the request line, for the log, and the likely protocol in HTTP's place.

Owns:     known_request, looks_like.
Thread:   event loop only.
Spec:     RFC 9112 section 3.
Not here: refusing, and the reason (cparsers/http1.c, httptools1.py); the same for uwsgi and SCGI (cparsers/aserve.c).
"""

from __future__ import annotations

import re

from ..core.exchange import Exchange
from ..core.patterns import lazy_pattern

# As strict as cparsers/request_line.c: no octet passes that could end a value of the vars, or a line of the log.
_REQUEST_LINE = lazy_pattern(rb"(?:\r\n)*([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-\"$-~\x80-\xff]+) (HTTP/1\.[0-9])\r\n")


# Other protocols, sent to the wrong bind, by their first octets.
_OTHERS = [
    (
        lazy_pattern(rb"\x16(?:\x03|\Z)"),  # RFC 8446 section 5.1: a handshake's record
        "this looks like TLS: let the client use http://, or bind this address with https://",
    ),
    (
        lazy_pattern(rb"PRI \* HTTP/2\.0\r\n"),  # RFC 9113 section 3.4
        "this looks like HTTP/2 with prior knowledge: let the client, or the front server, use HTTP/1.1; or see --http2 h2c",
    ),
    (
        lazy_pattern(rb"PROXY (?:TCP[46]|UNKNOWN)|(?:\r\n){2}\x00\r\nQUIT\n"),
        "this looks like the PROXY protocol: bind this address with proxy+http://, or let the front server not send it",
    ),
    (
        lazy_pattern(rb"[0-9]+:CONTENT_LENGTH\x00"),
        "this looks like SCGI: let the front server use HTTP (nginx: proxy_pass), or bind this address with scgi://",
    ),
    (
        lazy_pattern(
            rb"\x00..\x00.\x00[A-Z]", re.DOTALL
        ),  # a packet's header, and the length and first letter of a var
        "this looks like uwsgi: let the front server use HTTP (nginx: proxy_pass), or bind this address with uwsgi://",
    ),
]


def looks_like(octets: bytes, position: int = 0) -> str:
    """Return the likely protocol of refused octets, and the remedy; "": unknown here."""
    return next((text for pattern, text in _OTHERS if pattern.match(octets, position)), "")


def known_request(octets: bytes, position: int = 0) -> Exchange | None:
    """
    Return a request made of the request line; None: the line is incomplete or malformed.

    The path is not decoded: the fault may be an escape in the path.
    """
    match = _REQUEST_LINE.match(octets, position)
    if match is None:
        return None
    method, target, version = [part.decode("latin-1") for part in match.groups()]
    path, _, query = target.partition("?")
    pairs = (
        "REQUEST_METHOD", method, "REQUEST_URI", target, "PATH_INFO", path, "QUERY_STRING", query, "SERVER_PROTOCOL",
        version,
    )  # fmt: skip
    exchange = Exchange("\0".join(pairs))
    exchange.is_head = method == "HEAD"
    return exchange
