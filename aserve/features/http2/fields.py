"""Field sections of HTTP/2: a request's becomes a head of HTTP/1.1 for the one parser, and a head of ours becomes a field section.

Owns:     `encode_head`: the rules that HTTP/2 adds to those of HTTP/1.1; `decode_head`, `decode_upgrade`; `content_length`, `is_trailer_section`.
Thread:   any; pure.
Spec:     RFC 9113 sections 8.1 to 8.5; RFC 8441 (WebSockets).
Not here: the rules for targets, Host, names, values and limits of both protocols (cparsers/http1.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.errors import AserveError
from ...core.patterns import lazy_pattern
from ...proxies.forwarded import DEFAULT_PORTS

Field = tuple[bytes, bytes]

_NAME = lazy_pattern(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")  # a token (RFC 9110 5.6.2) without capital letters
_BAD_VALUE = lazy_pattern(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
_BAD_PSEUDO = lazy_pattern(rb"[\0-\x20\x7f]")
_METHOD = lazy_pattern(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PSEUDO = frozenset([b":method", b":scheme", b":authority", b":path"])
# RFC 9113 8.2.2: fields of a connection, which a stream has not.
CONNECTION_FIELDS = frozenset([b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"])
PROTOCOL = b":protocol"  # of a CONNECT that asks for a WebSocket
_PSEUDO_OR_PROTOCOL = _PSEUDO | {PROTOCOL}
# RFC 8441 5.1 has no key. An app wants one, and its answer to that goes no further than here.
_UPGRADE = [
    (b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-key", b"AAAAAAAAAAAAAAAAAAAAAA=="),
]  # fmt: skip
_KEYS = frozenset([b"sec-websocket-key", b"sec-websocket-accept"])
UNLIKE_LENGTH = "a body that is longer or shorter than its Content-Length"
_STATUS_LINE = lazy_pattern(rb"HTTP/1\.1 ([0-9]{3}) [^\r\n]*", re.DOTALL)


class Malformed(AserveError):
    """A request that breaks RFC 9113: its stream is reset. The text names the rule."""


def encode_head(fields: Iterable[Field], takes_websockets: bool = False) -> bytes:
    """
    Return the head of HTTP/1.1 that says the same; `takes_websockets`: a CONNECT may ask for one.

    Raises:
        Malformed: it is no request of HTTP/2.
    """
    pseudo, regular = _split(fields, _PSEUDO_OR_PROTOCOL if takes_websockets else _PSEUDO)
    if PROTOCOL in pseudo:
        regular = _as_upgrade(pseudo, regular)
    method, path, authority = pseudo.get(b":method"), pseudo.get(b":path"), pseudo.get(b":authority")
    if method is None or not _METHOD.fullmatch(method):
        raise Malformed("a request without a valid :method")
    if method == b"CONNECT":
        target, path = authority or b"-", None
    elif path is None or b":scheme" not in pseudo:
        raise Malformed("a request without :path or :scheme")
    elif not path.startswith((b"/", b"*")):
        raise Malformed("a :path that does not begin with a slash")
    else:
        target = path
    lines = [b"%b %b HTTP/1.1" % (method, target)]
    hosts = [value for name, value in regular if name == b"host"]
    if authority is not None:
        # RFC 9110 4.2: with the port of its scheme or without, a host is the same.
        scheme = pseudo.get(b":scheme", b"").decode("latin-1").lower()
        port = f":{DEFAULT_PORTS[scheme]}".encode() if scheme in DEFAULT_PORTS else b""
        if any(host.lower().removesuffix(port) != authority.lower().removesuffix(port) for host in hosts):
            raise Malformed("a Host field that differs from :authority")
        lines.append(b"host: " + authority)
        hosts = hosts[1:]  # a further one is one too many
    lines += [b"host: " + host for host in hosts]
    cookies = [value for name, value in regular if name == b"cookie"]
    if cookies:
        lines.append(b"cookie: " + b"; ".join(cookies))  # RFC 9113 8.2.3: one field, split for compression
    lines += [b"%b: %b" % field for field in regular if field[0] not in (b"host", b"cookie")]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _as_upgrade(pseudo: dict[bytes, bytes], regular: list[Field]) -> list[Field]:
    """Turn a CONNECT for a WebSocket into the GET of HTTP/1.1 that says the same; one for another protocol is refused as any CONNECT."""
    if pseudo.get(b":method") != b"CONNECT" or not {b":authority", b":path", b":scheme"} <= pseudo.keys():
        raise Malformed("a :protocol without CONNECT, :authority, :path or :scheme")
    if pseudo[PROTOCOL].lower() != b"websocket":
        return regular
    pseudo[b":method"] = b"GET"
    return [*_UPGRADE, *(field for field in regular if field[0] not in _KEYS)]


def _split(fields: Iterable[Field], known: frozenset[bytes] = _PSEUDO) -> tuple[dict[bytes, bytes], list[Field]]:
    """Return the pseudo-header fields and the others, each checked by itself."""
    pseudo: dict[bytes, bytes] = {}
    regular: list[Field] = []
    for name, value in fields:
        if name[:1] == b":":
            if regular:
                raise Malformed("a pseudo-header field after other fields")
            if name not in known:
                raise Malformed("an unknown pseudo-header field")
            if name in pseudo:
                raise Malformed("a repeated pseudo-header field")
            if not value or (_BAD_VALUE if name == b":authority" else _BAD_PSEUDO).search(value):
                raise Malformed("a pseudo-header field that is empty, or with a space or a control character")
            pseudo[name] = value
        else:
            _check(name, value)
            regular.append((name, value))
    return pseudo, regular


def _check(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name):
        raise Malformed("a field name that is not a token in lower case")
    if _BAD_VALUE.search(value):
        raise Malformed("a field value with a line end, a NUL, or a space at an end")
    if name in CONNECTION_FIELDS or (name == b"te" and value.lower() != b"trailers"):
        raise Malformed(f"the field {name.decode('ascii')}, which is for connections of HTTP/1.1")


def content_length(fields: Iterable[Field]) -> int | None:
    """Return the Content-Length of a request; None without a valid one: the parser refuses what is none."""
    values = [value for name, value in fields if name == b"content-length"]
    if len(values) != 1 or not values[0].isdigit():
        return None
    digits = values[0].lstrip(b"0") or b"0"
    return int(digits) if len(digits) < 20 else None


def is_trailer_section(fields: Iterable[Field]) -> bool:
    """Whether these fields may end a request (RFC 9113 section 8.1); they are dropped, as those of HTTP/1.1 are."""
    try:
        return not _split(fields)[0]
    except Malformed:
        return False


def decode_head(head: bytes) -> tuple[int, list[Field]]:
    """
    Return the status and the field section of a head of ours, without the empty line at its end.

    Raises:
        Malformed: an app has written it to its socket, and it is no head.
    """
    line, *lines = head.split(b"\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise Malformed("an app's handshake of a WebSocket that is none")  # all others wsgi/response.py makes
    fields = [(b":status", match[1])]
    for each in lines:
        name, _, value = each.partition(b":")
        name = name.lower()
        if name not in CONNECTION_FIELDS:
            fields.append((name, value.strip(b" \t")))
    return int(match[1]), fields


def decode_upgrade(head: bytes) -> tuple[int, list[Field]]:
    """
    Return the same of a head that an app has written to its socket: to agree to a WebSocket is 200 here.

    Raises:
        Malformed: it is no head.
    """
    status, (line, *fields) = decode_head(head)
    kept = [field for field in fields if field[0] not in _KEYS]
    for field in kept:
        _check(*field)
    return (200, [(b":status", b"200"), *kept]) if status == 101 else (status, [line, *kept])
