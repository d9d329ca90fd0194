"""The response: from start_response's arguments and the body to octets.

Owns:     the choice of framing (length, chunked, close); counting octets
          against Content-Length; Date and Server; the server's own responses, and Proxy-Status in them.
Thread:   a worker; error_response() and plain_response() on either side.
Spec:     PEP 3333; RFC 9112 sections 4, 6 and 7; RFC 9110 sections 6.6.1, 8.6; RFC 9209.
Not here: checking the app's status and fields (head.py), calling the app and closing the iterable (gateway.py), writing to the transport
          (connections/loop/sending.py).
"""

from __future__ import annotations

import http
import logging
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Callable

from ..core.body import LiveBody
from ..core.errors import AppError, ResponseTruncated
from ..core.exchange import HTTP_1_1, Exchange
from ..core.forks import end_if_forked, forked
from ..core.http_date import http_date
from .finalizers import refuse_inside
from .head import Headers, build_app_head, encode_hints, is_bodyless, known_heads
from .returned import not_bytes

ExcInfo = tuple[type[BaseException], BaseException, TracebackType]
logger = logging.getLogger("aserve.app")

# A body at least this long is sent apart from the head, without a copy.
# Guess: 64 KiB, a copy of some 5 us; far above any page that matters for speed.
LARGE_BODY_BYTES = 65536

_new_sending = threading.Lock()

# RFC 9110 10.2.3, Retry-After: a client whose request found no room may try again. Guess: some uploads have ended by then.
RETRY_SECONDS = 10

# RFC 9110's reason phrases, where Python before 3.13 has the predecessors'.
REASONS = {413: "Content Too Large", 414: "URI Too Long"}

# RFC 9209 2.3, by the status of an error of ours: errors for a balancer to count against this host. Others are the client's fault.
FAULTS = {500: "proxy_internal_error", 503: "proxy_internal_error", 504: "http_response_timeout"}
APP_FAULT = "http_response_incomplete"
CLIENT_FAULT = "http_request_error"


class CommonFields:
    """The end of every head: Date, Server, and the common fields of all responses; Proxy-Status. `refresh` is called once a second."""

    __slots__ = ("_fields", "_proxy_name", "_server", "forked_count", "octets")

    def __init__(self, server_name: str, proxy_name: str | None = None, fields: Iterable[tuple[str, str]] = ()) -> None:
        """`proxy_name`: for Proxy-Status; None: no such field. `fields`: of every response, (name, value)."""
        self._proxy_name = proxy_name
        self._fields = "".join(f"{name}: {value}\r\n" for name, value in fields)
        self._server = f"Server: {server_name}\r\n" if server_name else ""
        self.refresh()

    def refresh(self) -> None:
        """Set the Date field to the present second (RFC 9110 section 6.6.1)."""
        self.forked_count = len(forked)  # of the serving process
        self.octets = self.without(False, False)

    def without(self, has_date: bool, has_server: bool) -> bytes:
        """Return the fields not set by the app, and the empty line after the head."""
        date = "" if has_date else f"Date: {http_date(time.time())}\r\n"
        return f"{date}{'' if has_server else self._server}{self._fields}\r\n".encode("latin-1")

    def proxy_status(self, status: int, exchange: Exchange | None) -> bytes:
        """Return the field line about the fault behind an error of ours; nothing without --proxy-status."""
        if self._proxy_name is None:
            return b""
        is_apps = status == 500 and exchange is not None and exchange.has_app_failed
        fault = APP_FAULT if is_apps else FAULTS.get(status, CLIENT_FAULT)
        # Lenient: RFC 9209 is for intermediaries; here the app stands for the server behind them.
        return f"Proxy-Status: {self._proxy_name}; error={fault}\r\n".encode("ascii")


class Response:
    """One response in the making: heads and chunks in, octets out."""

    __slots__ = (
        "_common_fields", "_exchange", "_has_no_body", "_head", "_is_chunked", "_length", "_tail", "code", "head_is_out",
        "is_full", "sending_lock", "sent_bytes",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, common_fields: CommonFields) -> None:
        self._exchange = exchange
        self._common_fields = common_fields
        self._head: bytes | None = None  # status line and the app's field lines, once started
        self.code = 0  # none yet
        self.head_is_out = False
        self._is_chunked = False
        self.is_full = False  # no more of the body can be sent: the app need not make the rest
        self.sent_bytes = 0  # of the body
        self.sending_lock: threading.RLock | None = None  # made for a thread that sends before the app has returned

    @property
    def sending(self) -> threading.RLock:
        """
        The lock around the encoding of a piece and the sending: a second thread of the app may send, too.

        The same thread may hold the lock already: with --threads 0, an iterable waits for the client while the loop runs.
        """
        if self.sending_lock is None:
            with _new_sending:
                self.sending_lock = self.sending_lock or threading.RLock()
        return self.sending_lock

    def join_senders(self) -> bool:
        """Wait for a second thread's sending while the whole response is made; False: that thread has called write()."""
        with self.sending:
            return not self._exchange.is_written

    def replace(self, status: int) -> None:
        """Count a whole response of our own as sent instead: the app's further octets are too late."""
        self.code = status
        self.head_is_out = self.is_full = True
        self._length, self._has_no_body = -1, False

    @property
    def exchange(self) -> Exchange:
        """The exchange of this response."""
        return self._exchange

    @property
    def head(self) -> bytes:
        """The status line, and the fields set by the app; empty before start_response."""
        return self._head or b""

    @property
    def is_event_stream(self) -> bool:
        """Whether the app sends events as they come (WHATWG HTML, server-sent events)."""
        return b"\r\ncontent-type: text/event-stream" in self.head.lower()

    @property
    def tells_its_end(self) -> bool:
        """Whether the octets sent show where the body ends, without the end of the connection."""
        return self._is_chunked or self._length >= 0 or self._has_no_body

    def promised_after(self, sent_bytes: int) -> int:
        """Return how many octets of the body the head still promises; -1: the head does not say."""
        return -1 if self._length < 0 or self._has_no_body else self._length - sent_bytes

    # Starting

    def start_response(self, status: str, headers: Headers, exc_info: ExcInfo | None = None) -> Callable[[bytes], None]:
        """
        Check and keep status and headers; return write() (PEP 3333 start_response).

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
        exchange = self._exchange
        prefix = exchange.form.status_prefix
        head = None
        if type(headers) is list:
            try:
                head = known_heads.get((prefix, status, *headers))
            except TypeError:  # a field is a list, or not a field at all
                pass
        if head is None:
            head = build_app_head(prefix, status, headers)
        self._head, self.code, has_no_body, self._length, has_date, has_server = head
        self._has_no_body = has_no_body or exchange.is_head
        common_fields = self._common_fields
        self._tail = common_fields.without(has_date, has_server) if has_date or has_server else common_fields.octets
        return self.write

    def early_hints(self, headers: Headers) -> None:
        """
        Send a 103 response with these fields (RFC 8297), as wsgi.early_hints; an HTTP/1.0 client gets none.

        Raises:
            AppError: the head has already gone out, or a field is not valid; or see refuse_inside.
        """
        refuse_inside(self._exchange.connection.service.loop)
        with self.sending:
            if self.head_is_out:
                raise AppError("wsgi.early_hints was called after the response's head had gone out")
            octets = encode_hints(self._exchange.form.status_prefix, headers)
            if self._exchange.form.may_inform:
                self._send(octets)

    # Sending

    def write(self, data: bytes) -> None:
        """
        Send octets of the body (PEP 3333 write()); on the return they are on the way.

        Drop octets beyond the Content-Length, and all of the body of a HEAD, 204 or 304 response, even after the end.

        Raises:
            AppError: `data` is not bytes, or the response was ended by the last chunk or by a close; or see refuse_inside.
            ClientDisconnected: the client is gone.
        """
        refuse_inside(self._exchange.connection.service.loop)
        with self.sending:
            if data and isinstance(data, bytes):  # `encode` refuses anything else
                self._exchange.is_written = True  # first: either this sees the end, or `join_senders` sees this
            if self.is_full and self._length < 0 and not self._has_no_body:
                # Another thread of the app: a client would take these octets for the next response.
                raise AppError("write() was called after the end of the response")
            octets = self.encode(data)
            if octets:
                self._send(octets)

    def complete(self, body: bytes) -> bytes | tuple[bytes, bytes] | None:
        """
        Return the octets of a response with a known body: one piece, or head and body when large.

        None: the body is shorter than declared; the way goes through `encode` and `finish`.
        """
        head = self._head
        if head is None:
            raise _not_started()
        length, size = self._length, len(body)
        if self._has_no_body:
            # RFC 9110 8.6: the length in a HEAD's response is the GET's, known only from a body given here; 204 and 304 responses get none from us.
            if length < 0 and body and not is_bodyless(self.code):
                head += b"Content-Length: %d\r\n" % size
            body, size = b"", 0
        elif length < 0:
            head += b"Content-Length: %d\r\n" % size
        elif length != size:
            if length > size:
                return None
            _log_cut(length)
            body, size = body[:length], length
        exchange = self._exchange
        if exchange.body is not None:
            _end_at_unread_body(exchange)
        connection = exchange.form.keep_alive_line if exchange.keep_alive else exchange.form.close_line
        self.head_is_out = self.is_full = True
        self.sent_bytes = size
        if size < LARGE_BODY_BYTES:
            return b"".join((head, connection, self._tail, body))
        return b"".join((head, connection, self._tail)), body

    def encode(self, chunk: bytes) -> bytes:
        """
        Return a chunk of the body with the framing; the first non-empty chunk with the head in front.

        Raises:
            AppError: the chunk is not bytes, or start_response has not been called.
        """
        if not isinstance(chunk, bytes):
            raise not_bytes(chunk)
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
        Return the response's last octets: the last chunk, or the whole head if the body stayed empty.

        Raises:
            AppError: start_response has not been called.
            ResponseTruncated: the body is shorter than the Content-Length.
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
            return b"", -1  # `encode` or `finish` raises the error
        count = size if self._length < 0 else self._length
        if count > size:
            return b"", -1
        if self._length < 0 and not is_bodyless(self.code):
            self._head += b"Content-Length: %d\r\n" % size
            self._length = size
        head = self._build_head()
        if self._has_no_body:
            count = 0
        self.sent_bytes = count
        return head, count

    def _send(self, octets: bytes) -> None:
        """Send octets from outside the iterable; wait for room if there is none."""
        if forked:
            end_if_forked(self._common_fields.forked_count)
        self._exchange.connection.send(self._exchange, octets)

    # Building

    def _build_head(self) -> bytes:
        """Return the head of a response in pieces."""
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


def error_response(status: int, text: str, exchange: Exchange | None, common_fields: CommonFields) -> bytes:
    """Return a whole response of our own: an error in plain text."""
    fields = common_fields.proxy_status(status, exchange)
    return plain_response(status, f"{_title(status)}: {text}", exchange, common_fields, fields)


def plain_response(
    status: int, text: str, exchange: Exchange | None, common_fields: CommonFields, fields: bytes = b""
) -> bytes:
    """Return a whole response of our own: a line of plain text; `fields` are further field lines."""
    form, keep_alive, is_head = HTTP_1_1, False, False
    if exchange is not None:
        _end_at_unread_body(exchange)
        form, keep_alive, is_head = exchange.form, exchange.keep_alive, exchange.is_head
    body = f"{text}\n".encode("latin-1", "replace")
    head = (
        f"{form.status_prefix}{_title(status)}\r\n"
        f"Content-Type: text/plain; charset=latin-1\r\nContent-Length: {len(body)}\r\n"
    ).encode("latin-1")
    retry = b"Retry-After: %d\r\n" % RETRY_SECONDS if status == 503 else b""
    connection = form.keep_alive_line if keep_alive else form.close_line
    return b"".join((head, retry, fields, connection, common_fields.octets, b"" if is_head else body))


def _end_at_unread_body(exchange: Exchange) -> None:
    """
    Make the response the connection's last, if a part of the request's body is still to come.

    Spec: RFC 9112 section 9.6: the server will not read the rest, and a proxy must not send another request behind.
    """
    body = exchange.body
    if isinstance(body, LiveBody) and not body.is_complete:
        exchange.keep_alive = False


def _title(status: int) -> str:
    return f"{status} {REASONS.get(status) or http.HTTPStatus(status).phrase}"


def _not_started() -> AppError:
    return AppError("the app returned or yielded a body before it called start_response")


def _log_cut(length: int) -> None:
    logger.warning("the app gave more body than its Content-Length of %d octets: cut there", length)
