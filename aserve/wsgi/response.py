"""The response: from start_response's arguments and the body to octets.

Owns:     checking what the app gave, the head, the choice of framing
          (length, chunked, close), the count of octets against Content-Length.
Thread:   a worker; error_response() on either side.
Spec:     PEP 3333; RFC 9112 sections 4, 6 and 7; RFC 9110 sections 6.6.1, 8.6.
Not here: calling the app and closing its iterable (gateway.py), writing to the
          transport (outgoing.py).
"""

from __future__ import annotations

import http
import logging
import re
import threading
import time
from email.utils import formatdate
from types import TracebackType
from typing import Any, Callable

from ..body import LiveBody
from ..errors import AppError, ResponseTruncated
from ..exchange import HTTP_1_1, Exchange
from ..forks import forked, leave_if_forked

Headers = list[tuple[str, str]]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType]
logger = logging.getLogger("aserve.app")

# A body at least this long is not copied behind its head.
# Guess: 64 KiB, a copy of some 5 us; far above any page that matters for speed.
LARGE_BODY_BYTES = 65536

_new_sending = threading.Lock()

# RFC 9110 10.2.3: when a client may come again for whose request there was no room. Guess: some uploads have ended by then.
RETRY_SECONDS = 10

# What a field name means to us, found by one dictionary look-up a field.
PLAIN, CONTENT_LENGTH, DATE, SERVER, HOP_BY_HOP, UNIQUE = range(6)
_SPECIAL_FIELDS = {
    "content-length": CONTENT_LENGTH,
    # What hardly comes twice, or is a secret: such heads are not kept.
    "etag": UNIQUE,
    "last-modified": UNIQUE,
    "location": UNIQUE,
    "set-cookie": UNIQUE,
    "date": DATE,
    "server": SERVER,
    # PEP 3333 "Other HTTP Features", RFC 9110 7.6.1: the connection is ours, not the app's.
    "connection": HOP_BY_HOP,
    "keep-alive": HOP_BY_HOP,
    "proxy-authenticate": HOP_BY_HOP,
    "proxy-authorization": HOP_BY_HOP,
    "proxy-connection": HOP_BY_HOP,
    "te": HOP_BY_HOP,
    "trailer": HOP_BY_HOP,
    "transfer-encoding": HOP_BY_HOP,
    "upgrade": HOP_BY_HOP,
}
# Names and statuses already checked, as the app spells them. Bounded, since an app may
# make names up; an app that uses more than these only pays for the check each time.
_known_fields: dict[str, int] = {}
_known_statuses: dict[str, tuple[int, bool]] = {}  # status: (code, whether it has no body)
_KNOWN_MAX = 1024
# Heads built lately, by what was given for them: an app has few of them, and start_response takes
# 0.4 us with one that is known instead of 1.0 (2026-11-21, benchmarks/bench_respond.py).
AppHead = tuple[bytes, int, bool, int, bool, bool]  # octets, code, has no body, length or -1, has Date, has Server
_known_heads: dict[tuple[Any, ...], AppHead] = {}
_KNOWN_HEAD_BYTES = 1024  # longer ones are not kept: at most 1 MiB, and as much for the keys

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5: HTAB alone is allowed
_STATUS = re.compile(r"([1-9][0-9]{2}) .*", re.DOTALL)


# RFC 9110's words, where Python has those of its predecessors (before 3.13).
REASONS = {413: "Content Too Large", 414: "URI Too Long"}


class StandingFields:
    """Date and Server, which end every head; `refresh` is called once a second."""

    __slots__ = ("_server", "forked_count", "octets")

    def __init__(self, server_name: str) -> None:
        self._server = f"Server: {server_name}\r\n" if server_name else ""
        self.refresh()

    def refresh(self) -> None:
        """Set the time of the Date field (RFC 9110 section 6.6.1)."""
        self.forked_count = len(forked)  # of the process that serves
        self.octets = self.without(False, False)

    def without(self, has_date: bool, has_server: bool) -> bytes:
        """Return the fields that the app has not given itself, and the empty line."""
        date = "" if has_date else f"Date: {formatdate(time.time(), usegmt=True)}\r\n"
        return f"{date}{'' if has_server else self._server}\r\n".encode("latin-1")


class Response:
    """One response while the app makes it: heads and chunks in, octets out."""

    __slots__ = (
        "_exchange", "_has_no_body", "_head", "_is_chunked", "_length", "_standing", "_tail", "code", "head_is_out", "is_full",
        "sending_lock", "sent_bytes",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, standing: StandingFields) -> None:
        self._exchange = exchange
        self._standing = standing
        self._head: bytes | None = None  # status line and the app's field lines, once started
        self.code = 0  # none yet
        self.head_is_out = False
        self._is_chunked = False
        self.is_full = False  # no more of the body can be sent: the app need not make it
        self.sent_bytes = 0  # of the body
        self.sending_lock: threading.RLock | None = None  # made for whoever sends before the app has returned

    @property
    def sending(self) -> threading.RLock:
        """
        Held from making a piece until it is sent: a second thread of the app may write(), too, or send early hints.

        The same thread may have it already: with --threads 0 an iterable waits for its client while the loop goes on.
        """
        if self.sending_lock is None:
            with _new_sending:
                self.sending_lock = self.sending_lock or threading.RLock()
        return self.sending_lock

    def join_senders(self) -> bool:
        """Wait, when the whole response was made, for what a second thread is just sending; False: it has called write()."""
        with self.sending:
            return not self._exchange.is_written

    def replace(self, status: int) -> None:
        """Let a whole response of ours go out instead: whatever the app still sends comes too late."""
        self.code = status
        self.head_is_out = self.is_full = True
        self._length, self._has_no_body = -1, False

    @property
    def exchange(self) -> Exchange:
        """Whose response this is."""
        return self._exchange

    @property
    def tells_its_end(self) -> bool:
        """Whether what was sent says where the body ends, and that is not by the end of the connection."""
        return self._is_chunked or self._length >= 0 or self._has_no_body

    # Starting

    def start_response(self, status: str, headers: Headers, exc_info: ExcInfo | None = None) -> Callable[[bytes], None]:
        """
        PEP 3333 start_response: check and keep status and headers; return write().

        Raises:
            AppError: status or headers break PEP 3333, or this is a second call without exc_info.
            BaseException: the one in exc_info, when the head has already gone out.
        """
        if exc_info is not None:
            try:
                if self.head_is_out:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._head is not None:
            raise AppError("start_response was called a second time without exc_info")
        prefix = self._exchange.form.status_prefix
        head = None
        if type(headers) is list:
            try:
                head = _known_heads.get((prefix, status, *headers))
            except TypeError:  # a field that is a list, or no field at all
                pass
        octets, code, has_no_body, length, has_date, has_server = head or _build_app_head(prefix, status, headers)
        self._head = octets
        self.code = code
        if code < 200:
            self._exchange.keep_alive = False  # the client goes on waiting for a final response
        self._has_no_body = has_no_body or self._exchange.is_head
        self._length = length
        standing = self._standing
        self._tail = standing.without(has_date, has_server) if has_date or has_server else standing.octets
        return self.write

    def early_hints(self, headers: Headers) -> None:
        """
        wsgi.early_hints: send a 103 response with these fields (RFC 8297); nothing to an HTTP/1.0 client.

        Raises:
            AppError: the head has already gone out, or a field is not valid.
        """
        with self.sending:
            if self.head_is_out:
                raise AppError("wsgi.early_hints was called after the response's head had gone out")
            octets = _encode_hints(self._exchange.form.status_prefix, headers)
            if self._exchange.form.may_inform:
                self._send(octets)

    # Sending

    def write(self, data: bytes) -> None:
        """
        The write() of PEP 3333: the octets are on their way when it returns.

        What is more than the Content-Length, or the body of a HEAD, 204 or 304 response, is dropped, also behind the end.

        Raises:
            AppError: `data` is not bytes, or the response has ended, and nothing said where.
            ClientDisconnected: the client is gone.
        """
        with self.sending:
            if data and isinstance(data, bytes):  # `encode` refuses anything else
                self._exchange.is_written = True  # first: either this sees the end, or `join_senders` sees this
            if self.is_full and self._length < 0 and not self._has_no_body:
                # Another thread of the app: behind our last octet these would be taken for the next response.
                raise AppError("write() was called after the end of the response")
            octets = self.encode(data)
            if octets:
                self._send(octets)

    def complete(self, body: bytes) -> bytes | tuple[bytes, bytes] | None:
        """
        Return the octets of a response whose whole body is known: one piece, or head and body when large.

        None: the body is shorter than the app declared; it must go through `encode` and `finish`.
        """
        head = self._head
        if head is None:
            raise _not_started()
        length = self._length
        if self._has_no_body:
            # RFC 9110 8.6: the length in a HEAD's response is that of the GET's, which only
            # a body given here tells; 1xx, 204 and 304 responses get none from us.
            if length < 0 and body and not _is_bodyless(self.code):
                head += b"Content-Length: %d\r\n" % len(body)
            body = b""
        elif length < 0:
            head += b"Content-Length: %d\r\n" % len(body)
        elif length != len(body):
            if length > len(body):
                return None
            _log_cut(length)
            body = body[:length]
        exchange = self._exchange
        request_body = exchange.body
        if request_body is not None and isinstance(request_body, LiveBody) and not request_body.is_complete:
            # RFC 9112 9.6: nobody will read the rest, and a proxy must not send another request behind it.
            exchange.keep_alive = False
        connection = exchange.form.keep_alive_line if exchange.keep_alive else exchange.form.close_line
        self.head_is_out = self.is_full = True
        self.sent_bytes = length = len(body)
        if length < LARGE_BODY_BYTES:
            return b"".join((head, connection, self._tail, body))
        return b"".join((head, connection, self._tail)), body

    def encode(self, chunk: bytes) -> bytes:
        """
        Return a chunk of the body framed, behind the head if it is the first that is not empty.

        Raises:
            AppError: the chunk is not bytes, or start_response has not been called.
        """
        if not isinstance(chunk, bytes):
            raise AppError(f"the body must be made of bytes, not {type(chunk).__name__}: {chunk!r:.60}")
        if self._head is None:
            raise _not_started()
        if not chunk:
            return b""
        head = b""
        if not self.head_is_out:
            head = self._build_head()
        if self._has_no_body:
            self.is_full = True
            return head
        if self._length >= 0:
            room = self._length - self.sent_bytes
            if len(chunk) > room:
                _log_cut(self._length)
                self.is_full = True
                chunk = chunk[:room]
        self.sent_bytes += len(chunk)
        if self._is_chunked:
            return b"%b%x\r\n%b\r\n" % (head, len(chunk), chunk)
        return head + chunk if head else chunk

    def finish(self) -> bytes:
        """
        Return what ends the response: the last chunk, or the whole head when the body stayed empty.

        Raises:
            AppError: start_response has not been called.
            ResponseTruncated: the body is shorter than its Content-Length.
        """
        if not self.head_is_out:
            octets = self.complete(b"")
            if octets is not None:
                assert isinstance(octets, bytes)
                return octets
            self._send(self._build_head())
        if self._has_no_body:
            return b""
        if self.sent_bytes < self._length:
            raise ResponseTruncated(f"the body ended after {self.sent_bytes} of {self._length} octets")
        self.is_full = True
        return b"0\r\n\r\n" if self._is_chunked else b""

    def build_file_head(self, size: int) -> tuple[bytes, int]:
        """Return head and count of octets to send for a file with `size` octets left; -1: not possible."""
        if self._head is None:
            return b"", -1  # `encode` or `finish` says what is wrong
        count = size if self._length < 0 else self._length
        if count > size:
            return b"", -1
        if self._length < 0 and not _is_bodyless(self.code):
            self._head += b"Content-Length: %d\r\n" % size
            self._length = size
        head = self._build_head()
        if self._has_no_body:
            count = 0
        self.sent_bytes = count
        return head, count

    def _send(self, octets: bytes) -> None:
        # Past the iterable: on their way when this returns, after waiting for room if need be.
        if forked:
            leave_if_forked(self._standing.forked_count)
        self._exchange.connection.send(self._exchange, octets)

    # Building

    def _build_head(self) -> bytes:
        """Return the head of a response that is sent in pieces."""
        exchange, head = self._exchange, self._head
        assert head is not None
        self.head_is_out = True
        if self._length < 0 and not self._has_no_body:
            # RFC 9112 6.3: without a length the body is chunked, or ends with the connection.
            if exchange.form.may_chunk:
                self._is_chunked = True
                head += b"Transfer-Encoding: chunked\r\n"
            else:
                exchange.keep_alive = False
        return b"".join(
            (head, exchange.form.keep_alive_line if exchange.keep_alive else exchange.form.close_line, self._tail)
        )


def error_response(status: int, text: str, exchange: Exchange | None, standing: StandingFields) -> bytes:
    """Return a whole response of our own: a plain-text error that says what was wrong."""
    form, keep_alive, is_head = HTTP_1_1, False, False
    if exchange is not None:
        form, keep_alive, is_head = exchange.form, exchange.keep_alive, exchange.is_head
    title = f"{status} {REASONS.get(status) or http.HTTPStatus(status).phrase}"
    body = f"{title}: {text}\n".encode("latin-1", "replace")
    head = (
        f"{form.status_prefix}{title}\r\nContent-Type: text/plain; charset=latin-1\r\nContent-Length: {len(body)}\r\n"
    ).encode("latin-1")
    retry = b"Retry-After: %d\r\n" % RETRY_SECONDS if status == 503 else b""
    connection = form.keep_alive_line if keep_alive else form.close_line
    return b"".join((head, retry, connection, standing.octets, b"" if is_head else body))


# Checks of what the app gave


def _build_app_head(prefix: str, status: str, headers: Headers) -> AppHead:
    """
    Check status and fields, and return what they make of a head.

    Raises:
        AppError: they break PEP 3333.
    """
    length = -1
    has_date = has_server = False
    is_common = type(headers) is list
    try:
        if type(status) is not str:
            status, is_common = _to_plain(status), False
        code, has_no_body = _known_statuses.get(status) or _check_status(status)
        head = f"{prefix}{status}\r\n"
        for name, value in headers:
            if type(name) is not str or type(value) is not str:
                name, value, is_common = _to_plain(name), _to_plain(value), False
            kind = _known_fields.get(name)
            if kind is None:
                kind = _check_field_name(name)
            if not value.isprintable():
                _check_field_value(name, value)
            if kind:
                if kind == CONTENT_LENGTH:
                    length = _check_length(value, length)
                    if has_no_body and (code != 304 or not length):
                        # RFC 9110 8.6: no Content-Length in a 1xx or 204 response; in a 304 only that of the 200
                        # response. Frameworks count the body that they have emptied: a 0 is hardly that.
                        continue
                elif kind == UNIQUE:
                    is_common = False
                elif kind == DATE:
                    has_date, is_common = True, False
                elif kind == SERVER:
                    has_server = True
                else:
                    raise AppError(f"the app set {name}, a hop-by-hop field that only the server may set")
            head += f"{name}: {value}\r\n"
        octets = head.encode("latin-1")
    except (TypeError, ValueError, AttributeError) as exc:
        raise _explain(status, headers) from exc
    made = (octets, code, has_no_body, length, has_date, has_server)
    if is_common and len(octets) <= _KNOWN_HEAD_BYTES:
        _keep_head((prefix, status, *headers), made)
    return made


def _to_plain(text: str) -> str:
    """Return the characters of a str as they are, whatever its class says of them; TypeError: it is none."""
    return str.__str__(text)


def _keep_head(key: tuple[Any, ...], head: AppHead) -> None:
    if len(_known_heads) >= _KNOWN_MAX:
        _known_heads.clear()  # an app of many heads: those in use now come back
    try:
        _known_heads[key] = head
    except TypeError:
        pass  # a field that is a list: not known again


def _is_bodyless(code: int) -> bool:
    """Whether a response of this status never has a body (RFC 9112 section 6.3)."""
    return code in (204, 304) or code < 200


def _encode_hints(prefix: str, headers: Headers) -> bytes:
    head = f"{prefix}103 Early Hints\r\n"
    try:
        for name, value in headers:
            name, value = _to_plain(name), _to_plain(value)
            kind = _check_field_name(name)
            if kind in (CONTENT_LENGTH, HOP_BY_HOP):
                # RFC 9110 8.6, RFC 9112 6.1: framing fields are forbidden in a 1xx response.
                raise AppError(f"the app set {name}, a hop-by-hop field or Content-Length, in early hints")
            _check_field_value(name, value)
            head += f"{name}: {value}\r\n"
        return f"{head}\r\n".encode("latin-1")
    except (TypeError, ValueError) as exc:
        raise _explain("103 Early Hints", headers) from exc


def _not_started() -> AppError:
    return AppError("the app returned or yielded a body before it called start_response")


def _check_status(status: str) -> tuple[int, bool]:
    match = _STATUS.fullmatch(status)
    if match is None or _CONTROLS.search(status):
        raise AppError(f"status must be like '200 OK', not {status!r:.60}")
    code = int(match[1])
    known = (code, _is_bodyless(code))
    if len(_known_statuses) < _KNOWN_MAX:
        _known_statuses[status] = known
    return known


def _check_field_name(name: str) -> int:
    if not _TOKEN.fullmatch(name):
        raise AppError(f"the response field name {name!r:.60} is not a token (RFC 9110 section 5.6.2)")
    kind = _SPECIAL_FIELDS.get(name.lower(), PLAIN)
    if len(_known_fields) < _KNOWN_MAX:
        _known_fields[name] = kind
    return kind


def _check_length(value: str, earlier: int) -> int:
    if not (value.isdecimal() and len(value) < 19):
        raise AppError(f"Content-Length must be digits, not {value!r:.60}")
    if earlier >= 0:
        raise AppError("the app set Content-Length twice")
    return int(value)


def _check_field_value(name: str, value: str) -> None:
    if _CONTROLS.search(value):
        raise AppError(f"control character in the response field {name}: {value!r:.80}")


def _explain(status: object, headers: object) -> AppError:
    """Say what about start_response's arguments raised TypeError or ValueError."""
    if not isinstance(status, str):
        return AppError(f"status must be str, not {type(status).__name__}: {status!r:.60}")
    if not isinstance(headers, list):
        return AppError(f"headers must be a list of (name, value) pairs, not {type(headers).__name__}")
    for item in headers:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            return AppError(f"headers must be (name, value) pairs, not {item!r:.80}")
        for text in item:
            if not isinstance(text, str):
                return AppError(f"response fields must be str, not {type(text).__name__}: {item!r:.80}")
            if not _is_latin_1(text):
                return AppError(f"response fields must be latin-1 (PEP 3333 'Unicode Issues'): {item!r:.80}")
    return AppError(f"status must be latin-1: {status!r:.60}")


def _is_latin_1(text: str) -> bool:
    return not text or max(text) <= "\xff"


def _log_cut(length: int) -> None:
    logger.warning("the app gave more body than its Content-Length of %d octets: cut there", length)
