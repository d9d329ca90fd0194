"""What can be said of a head that no protocol takes: its request line, for the log.

Owns:     known_request.
Thread:   event loop only.
Spec:     RFC 9112 section 3.
Not here: what is refused, and why (cparsers/http1.c, httptools1.py).
"""

from __future__ import annotations

import re

from ..exchange import Exchange

# As strict as cparsers/request_line.c: no octet passes that could end a value of the vars, or a line of the log.
_REQUEST_LINE = re.compile(rb"(?:\r\n)*([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-\"$-~\x80-\xff]+) (HTTP/1\.[0-9])\r\n")


def known_request(octets: bytes, position: int = 0) -> Exchange | None:
    """
    Return a request of which the request line is known; None: that is not whole, or none.

    Its path is not decoded: the fault may be an escape in it.
    """
    match = _REQUEST_LINE.match(octets, position)
    if match is None:
        return None
    method, target, version = [part.decode("latin-1") for part in match.groups()]
    path, _, query = target.partition("?")
    pairs = (
        "REQUEST_METHOD",
        method,
        "REQUEST_URI",
        target,
        "PATH_INFO",
        path,
        "QUERY_STRING",
        query,
        "SERVER_PROTOCOL",
        version,
    )
    exchange = Exchange("\0".join(pairs))
    exchange.is_head = method == "HEAD"
    return exchange
