"""HTTP/1.1 by llhttp through httptools: an option in place of our C parser.

Owns:     the same rules as http1.py (see there), with llhttp for the grammar and Python for the checks left out by llhttp; chunks are decoded as
          there (chunked.py).
Thread:   event loop only.
Spec:     RFC 9112; docs/parser-differences.md lists the differences.
Not here: as in http1.py.

Longer than other files: llhttp leaves many checks to this one class.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable
from urllib.parse import unquote_to_bytes

from .._cparsers import lib
from ..core.errors import RequestRefused
from ..core.exchange import HTTP_1_0, Exchange
from .base import Limits, RequestReceiver, WireProtocol, body_too_large, new_body, refusal
from .chunked import Chunks
from .refused_head import known_request, looks_like

try:
    import httptools
except ImportError:  # PyPy; settings/table.py refuses the setting
    httptools = None  # type: ignore[assignment]

# Octets fed at once: the most by which an endless head exceeds the limit before the count.
_FEED_BYTES = 4096
_LINE_END, _HEAD_END = b"\r\n", b"\r\n\r\n"

# RFC 9112 3.2, RFC 3986 3.2.2: uri-host [ ":" port ], without userinfo, path or list.
_HOST = re.compile(
    rb"(?:(?:(?:[A-Za-z0-9\-._~!$&'()*+;=]|%[0-9A-Fa-f]{2})+|\[(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]+\])(?::[0-9]*)?)?"
)
_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})|%00")
_ABSOLUTE = re.compile(rb"https?://([^/?]+)(.*)", re.IGNORECASE | re.DOTALL)
_CODING = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9112 7, without parameters
_REST_OF_LENGTH = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
# Replaces octets above ASCII in a request line for llhttp by the quote: accepted in a target, and nowhere else in the line.
_MASK = bytes(range(0x80)) + b'"' * 0x80
_DROPPED_NAMES = (b"PROXY",)  # httpoxy, as in cparsers/vars.c


class HTTPTools1(RequestReceiver):
    """One connection's requests: a WireProtocol."""

    __slots__ = (
        "_chunked", "_chunks", "_exchanges", "_fields", "_head_bytes", "_head_tail", "_is_head_begun", "_is_held", "_length", "_limits",
        "_line", "_parser", "_target", "_underscored", "is_continue_due",
    )  # fmt: skip

    is_single = False

    def __init__(self, limits: Limits, chunks: Chunks) -> None:
        self._limits = limits
        self._chunks = chunks
        self._exchange = self._body = None
        self.unparsed = b""
        self._parser: Any = httptools.HttpRequestParser(self)  # None: refused or at the end
        self._exchanges: list[Exchange] = []  # completed by the call under way
        self._is_head_begun = False
        self._head_bytes = 0  # of the head under way, and of the empty lines in front
        self._head_tail = b""  # the last octets, maybe half of the head's end
        self._line = b""  # the request line as received so far; whole with the LF
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._underscored: list[tuple[bytes, bytes]] = []
        self._length = 0  # of the body
        self._chunked: Any = None  # the state of the decoder of a chunked body
        self.is_continue_due = False
        self._is_held = False  # a WebSocket was asked for: the next octets may not be HTTP

    def receive(self, data: bytes) -> list[Exchange]:
        """Feed octets from the network; see WireProtocol.receive."""
        if self.unparsed:
            data = self.unparsed + data
            self.unparsed = b""
        self._exchanges = []
        position = 0
        while position < len(data) and self._parser is not None:
            if self._is_held or (len(self._exchanges) >= self._limits.max_pipelined and self.live_body is None):
                self.unparsed = data[position:]
                break
            if self._chunked is not None:
                position += self._decode(data, position)
            else:
                position += self._feed(data[position : self._end_of_slice(data, position)])
        exchanges, self._exchanges = self._exchanges, []  # not kept here until more comes
        return exchanges

    @property
    def is_mid_message(self) -> bool:
        """See WireProtocol."""
        return self._is_head_begun or super().is_mid_message

    @property
    def has_unparsed(self) -> bool:
        """Whether `receive(b"")` may return more."""
        return bool(self.unparsed) and not self._is_held

    def go_on(self) -> None:
        """See WireProtocol."""
        self._is_held = False

    def _end_of_slice(self, data: bytes, position: int) -> int:
        """
        Return the end of the next slice to feed: not beyond the end of a head, or of a body.

        llhttp does not say where in a slice a head ends, and has no limits for chunk extensions, trailers and empty lines.
        """
        end = min(position + _FEED_BYTES, len(data))
        if self._body is not None:
            left: int = self._length - self._body.length
            return min(end, position + left)
        octets = self._head_tail + data[position:end]
        found = octets.find(_HEAD_END)
        if found < 0:
            self._head_tail = octets[1 - len(_HEAD_END) :]
            return end
        end = position + found + len(_HEAD_END) - len(self._head_tail)
        self._head_tail = b""
        return end

    def _feed(self, data: bytes) -> int:
        """Feed a slice to llhttp; return the number of octets taken."""
        self.is_continue_due = False  # octets of the body, or of the framing
        if self._body is None:
            self._head_bytes += len(data)
            if self._line or not (data.isascii() and data.endswith(_HEAD_END)):  # most heads come whole, in ASCII
                data = self._take_line(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            # WebSocket, the second protocol served (RFC 9110 7.8), has no body; otherwise the next request follows.
            self._parser = httptools.HttpRequestParser(self)
            if self._exchange is not None and self._chunked is None:
                # Or the body: llhttp stops in front of a body, too. Feed another parser a head that announces the body.
                self._parser.feed_data(_REST_OF_LENGTH % self._length)
            self._is_held = bool(self._exchanges) and self._exchanges[-1].asks_websocket
            return int(exc.args[0])
        except httptools.HttpParserCallbackError as exc:
            why = exc.__context__
            self._remember()
            self._refuse(why if isinstance(why, RequestRefused) else _explain(exc, data))
        except httptools.HttpParserError as exc:
            self._refuse(
                _explain(exc, data if self._body is None and not (self._is_head_begun and self._target) else b"")
            )
        else:
            if self._chunked is not None:
                self._parser = httptools.HttpRequestParser(self)  # for the next head
            elif self._head_bytes == len(_LINE_END) and not self._is_head_begun:
                self._head_bytes = 0  # RFC 9112 2.2: an empty line after a request does not begin the next
            elif self._head_bytes >= self._limits.max_head_bytes:
                self._refuse(refusal(lib.ASERVE_HEAD_TOO_LARGE))
        return len(data)

    def _take_line(self, data: bytes) -> bytes:
        """Keep octets of the request line; return the slice masked for llhttp, stricter here than request_line.c."""
        if self._line.endswith(b"\n"):
            return data
        begin = 0 if self._line else len(data) - len(data.lstrip(_LINE_END))
        end = data.find(b"\n", begin) + 1 or len(data)
        piece = data[begin:end]
        self._line += piece
        return data if piece.isascii() else data[:begin] + piece.translate(_MASK) + data[end:]

    def _decode(self, data: bytes, position: int) -> int:
        """Decode octets of a chunked body; return how many."""
        self.is_continue_due = False
        try:
            consumed = self._chunks.decode(self._chunked, data, position, self._body)
        except RequestRefused as why:
            self._refuse(why)
            return len(data)
        if self._chunked.done:
            self._chunked = None
            self._end_request()
        return consumed

    # Called by httptools

    def on_message_begin(self) -> None:
        """A request line begins."""
        if self._exchange is not None:
            return  # the body of an Upgrade follows
        self._is_head_begun = True
        self._target = b""
        self._fields, self._underscored = [], []

    def on_url(self, piece: bytes) -> None:
        """A piece of the request target."""
        if self._exchange is not None:
            return
        self._target += piece
        if len(self._target) > self._limits.max_line_bytes:
            raise refusal(lib.ASERVE_TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field line of the head."""
        if self._exchange is not None:
            return
        self._fields.append((name.upper(), value.strip(b" \t")))
        if len(self._fields) > self._limits.max_fields:
            raise refusal(lib.ASERVE_TOO_MANY_FIELDS)

    def on_headers_complete(self) -> None:
        """The head is complete."""
        if self._exchange is not None:
            return
        method: bytes = self._parser.get_method()
        if not self._line.isascii():
            begin = self._line.translate(_MASK).index(self._target, len(method))
            self._target = self._line[begin : begin + len(self._target)]
        line_bytes = len(method) + len(self._target) + len("  HTTP/1.1")
        if line_bytes > self._limits.max_line_bytes:
            raise refusal(lib.ASERVE_TARGET_TOO_LONG)
        if self._head_bytes > self._limits.max_head_bytes:
            raise refusal(lib.ASERVE_HEAD_TOO_LARGE)
        self._is_head_begun, self._head_bytes = False, 0
        is_1_1 = self._check_version(method)
        length, is_chunked = self._check_framing(is_1_1)
        expects = is_1_1 and self._check_expectation()  # RFC 9110 10.1.1: ignored in HTTP/1.0
        pairs = self._build_pairs(method, is_1_1)
        vars = b"\0".join([part for pair in pairs for part in pair])
        exchange = self._exchange = Exchange(vars.decode("latin-1"))
        if self._underscored and self._limits.underscores is not None:
            self._limits.underscores.look_at_fields(self._underscored, exchange)
        if b"FORWARDED" in vars or b"HTTP_X_REAL_IP" in vars:  # in a name, or by chance in a value
            self._limits.strip_forwarded(exchange)
        if not is_1_1:
            exchange.form = HTTP_1_0
        # RFC 9112 9.3: close wins; in HTTP/1.0 llhttp prefers a keep-alive beside the close.
        is_kept = is_1_1 or b"close" not in self._elements(b"CONNECTION")
        exchange.keep_alive = is_kept and self._parser.should_keep_alive()
        exchange.is_head = method == b"HEAD"
        if is_1_1 and method == b"GET" and not length and not is_chunked and self._parser.should_upgrade():
            exchange.asks_websocket = exchange.is_for_loop = b"websocket" in self._elements(b"UPGRADE")
        if length or is_chunked:
            self._body = exchange.body = new_body(self._limits, is_chunked, length)
            self._length, self._chunked = length, self._chunks.begin() if is_chunked else None
            self.is_continue_due = expects
            if self._limits.is_live:
                self._exchanges.append(exchange)

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        assert self._body is not None
        if self._chunked is not None:
            # llhttp has ended the head too early, as in some versions at a bare LF.
            raise refusal(lib.ASERVE_BARE_LF)
        self.is_continue_due = False
        if self._body.length + len(piece) > self._limits.max_body_bytes:
            raise body_too_large(self._limits)
        self._body.feed(piece)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._body is not None and self._parser.should_upgrade():
            return  # llhttp skips the body of an Upgrade, still to come
        self._end_request()

    def _end_request(self) -> None:
        if self.live_body is not None:
            self.live_body.feed_end()
        else:
            assert self._exchange is not None
            self._exchanges.append(self._exchange)
        self._exchange = self._body = None
        self._line = b""
        self.is_continue_due = False

    # Checks left out by llhttp

    def _check_version(self, method: bytes) -> bool:
        version: str = self._parser.get_http_version()
        if not version.startswith("1."):
            raise refusal(lib.ASERVE_UNSUPPORTED_VERSION)
        if method == b"CONNECT":
            raise refusal(lib.ASERVE_UNSUPPORTED_METHOD)
        return version != "1.0"

    def _values(self, wanted: bytes) -> list[bytes]:
        return [value for name, value in self._fields if name == wanted]

    def _elements(self, wanted: bytes) -> list[bytes]:
        """Return the elements of a list of names, in lower case (RFC 9110 section 5.6.1)."""
        return [element.strip(b" \t") for element in b",".join(self._values(wanted)).lower().split(b",")]

    def _check_framing(self, is_1_1: bool) -> tuple[int, bool]:
        """Return the length of the body, or whether the body is chunked."""
        lengths, codings = self._values(b"CONTENT-LENGTH"), self._values(b"TRANSFER-ENCODING")
        if lengths and codings:
            raise refusal(lib.ASERVE_LENGTH_AND_ENCODING)
        if len(lengths) > 1:
            raise refusal(lib.ASERVE_REPEATED_CONTENT_LENGTH)
        if lengths and not (re.fullmatch(rb"[0-9]+", lengths[0]) and int(lengths[0]) < 1 << 63):
            raise refusal(lib.ASERVE_BAD_CONTENT_LENGTH)
        if codings:
            if not is_1_1:
                raise refusal(lib.ASERVE_ENCODING_IN_1_0)
            names = [name.strip(b" \t").lower() for name in b",".join(codings).split(b",")]
            if (
                names[-1] != b"chunked"
                or names.count(b"chunked") > 1
                or not all(_CODING.fullmatch(name) for name in names)
            ):
                raise refusal(lib.ASERVE_BAD_TRANSFER_ENCODING)
            if len(names) > 1:
                raise refusal(lib.ASERVE_UNKNOWN_CODING)
        return (int(lengths[0]) if lengths else 0), bool(codings)

    def _check_expectation(self) -> bool:
        expectations = self._values(b"EXPECT")
        if any(value.lower() != b"100-continue" for value in expectations):
            raise refusal(lib.ASERVE_UNKNOWN_EXPECTATION)
        return bool(expectations)

    def _check_host(self, is_1_1: bool) -> None:
        hosts = self._values(b"HOST")
        if len(hosts) > 1:
            raise refusal(lib.ASERVE_REPEATED_HOST)
        if not hosts and is_1_1:
            raise refusal(lib.ASERVE_MISSING_HOST)
        if hosts and not _HOST.fullmatch(hosts[0]):
            raise refusal(lib.ASERVE_BAD_HOST)

    def _build_pairs(self, method: bytes, is_1_1: bool) -> list[tuple[bytes, bytes]]:
        """Return the vars block's pairs, in the order of the C parser."""
        self._check_host(is_1_1)
        path, query, authority = self._split_target(method)
        if _BAD_PERCENT.search(path):
            raise refusal(lib.ASERVE_BAD_PERCENT)
        pairs = [
            (b"REQUEST_METHOD", method),
            (b"REQUEST_URI", self._target),
            (b"PATH_INFO", unquote_to_bytes(path)),
            (b"QUERY_STRING", query),
            (b"SERVER_PROTOCOL", b"HTTP/1.1" if is_1_1 else b"HTTP/1.0"),
        ]
        content_type: bytes | None = None
        for name, value in self._fields:
            if b"_" in name or name in _DROPPED_NAMES:
                if b"_" in name:
                    self._underscored.append((name, value))
                continue
            if name == b"HOST" and authority is not None:
                value, authority = authority, b""
            name = name.replace(b"-", b"_")
            if name not in (b"CONTENT_TYPE", b"CONTENT_LENGTH"):
                name = b"HTTP_" + name
            elif name == b"CONTENT_TYPE":
                if content_type not in (None, value):
                    raise refusal(lib.ASERVE_REPEATED_CONTENT_TYPE)
                content_type = value
            pairs.append((name, value))
        if authority:
            pairs.append((b"HTTP_HOST", authority))  # RFC 9112 3.2.2, from an HTTP/1.0 client without Host
        return pairs

    def _split_target(self, method: bytes) -> tuple[bytes, bytes, bytes | None]:
        """Return path, query and, of the absolute form, the authority (RFC 9112 section 3.2)."""
        target, authority = self._target, None
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None:
            authority, target = absolute[1], absolute[2]
            if not _HOST.fullmatch(authority):
                raise refusal(lib.ASERVE_BAD_HOST)
            if not target.startswith(b"/"):
                target = b"/" + target
        if b"#" in target or not (target.startswith(b"/") or (target == b"*" and method == b"OPTIONS")):
            raise refusal(lib.ASERVE_BAD_TARGET)
        if target == b"*":
            target = b""  # the server as a whole has no path
        path, _, query = target.partition(b"?")
        return path, query, authority

    def _remember(self) -> None:
        """Keep the request line of a head refused once whole: llhttp's own errors may come earlier."""
        if self._exchange is None and not self._is_head_begun:
            parser = self._parser
            version = parser.get_http_version().encode("ascii")
            self._exchange = known_request(b"%b %b HTTP/%b\r\n" % (parser.get_method(), self._target, version))

    def _refuse(self, why: RequestRefused) -> None:
        """Answer with an error, and parse no more."""
        self._refuse_request(why, self._exchanges)
        self._parser = self._chunked = None
        self._is_head_begun = False
        self.is_continue_due = False


def _explain(exc: Exception, octets: bytes) -> RequestRefused:
    """Return the refusal of a head refused by llhttp; `octets`: the start of the head."""
    likeness = looks_like(octets)
    if likeness:
        return RequestRefused(400, likeness)
    if httptools is not None and isinstance(exc, httptools.HttpParserInvalidMethodError):
        return refusal(lib.ASERVE_BAD_METHOD)
    return RequestRefused(400, f"{exc or type(exc).__name__} (llhttp)")


def new_factory(limits: Limits) -> Callable[[], WireProtocol]:
    return functools.partial(HTTPTools1, limits, Chunks(limits))
