"""The request of one stream: a head of HTTP/1.1, as cparsers/h2_fields.c writes it, and the octets of DATA frames, to an exchange.

Owns:     StreamRequest, a WireProtocol.
Thread:   event loop only.
Spec:     RFC 9113 section 8.1; RFC 9110 section 10.1.1.
Not here: frames (cparsers/h2.h), the rules of field sections (cparsers/h2_fields.c), those of HTTP/1.1 (cparsers/http1.c).

The head goes through the parser of HTTP/1.1, so that no rule for fields, targets, hosts and limits has a second implementation.
"""

from __future__ import annotations

from ...core.errors import RequestRefused
from ...core.exchange import HTTP_2, Exchange
from ...protocols import http1
from ...protocols.base import RequestReceiver, body_too_large, new_body
from ...protocols.refused_head import known_request

# RFC 3875 4.1.16 wants a minor version; nginx and Apache write it so, too.
_VERSION_1, _VERSION_2 = "\0SERVER_PROTOCOL\0HTTP/1.1", "\0SERVER_PROTOCOL\0HTTP/2.0"


class StreamRequest(RequestReceiver):
    """One stream's request: a WireProtocol."""

    __slots__ = ("_has_head", "_is_over", "_scratch", "asks_websocket", "is_continue_due", "is_ended")

    is_single = False
    has_unparsed = False  # there is no second request

    def __init__(self, scratch: http1.Scratch, is_ended: bool) -> None:
        """`is_ended`: the stream ends with the head."""
        self._scratch = scratch
        self._exchange = self._body = None
        self.unparsed = b""
        self._has_head = self._is_over = False
        self.is_ended = is_ended  # the session sets it before it feeds the last octets
        self.is_continue_due = False
        self.asks_websocket = False  # its further octets are no body

    def receive(self, data: bytes) -> list[Exchange]:
        """Feed the whole head, then octets of the body; see WireProtocol.receive."""
        if self._is_over:
            return []
        exchanges: list[Exchange] = []
        if self.asks_websocket:
            self.unparsed += data
            return exchanges
        try:
            if self._has_head:
                self._receive_body(data, exchanges)
            else:
                self._receive_head(data, exchanges)
        except RequestRefused as why:
            self._refuse_request(why, exchanges)
            self._is_over, self.is_continue_due = True, False
            for exchange in exchanges:
                exchange.form = HTTP_2
        return exchanges

    def go_on(self) -> None:
        """See WireProtocol: the app has answered a request for a WebSocket; what the client sends beyond it means nothing."""
        self._is_over, self.unparsed = True, b""

    def _receive_head(self, data: bytes, exchanges: list[Exchange]) -> None:
        self._has_head = True
        limits = self._scratch.limits
        try:
            exchange, flags, length = http1.read_head(self._scratch, data)
        except RequestRefused:
            self._exchange = known_request(data)  # for the log
            raise
        exchange.vars = exchange.vars.replace(_VERSION_1, _VERSION_2, 1)
        exchange.form, exchange.keep_alive = HTTP_2, False
        self.asks_websocket = exchange.asks_websocket
        if self.asks_websocket:
            exchanges.append(exchange)
            return
        if self.is_ended:
            self._is_over = True
            exchanges.append(exchange)
            return
        self._exchange = exchange
        self._body = exchange.body = new_body(limits, not flags & http1.LENGTH, length)
        self.is_continue_due = bool(flags & http1.EXPECT_CONTINUE)
        if limits.is_live:
            exchanges.append(exchange)

    def _receive_body(self, data: bytes, exchanges: list[Exchange]) -> None:
        body = self._body
        self.is_continue_due = False
        if data:
            if body.length + len(data) > self._scratch.limits.max_body_bytes:
                raise body_too_large(self._scratch.limits)
            body.feed(data)
        if self.is_ended:
            self._is_over = True
            if body.is_live:
                body.feed_end()
            else:
                assert self._exchange is not None
                exchanges.append(self._exchange)
            self._exchange = self._body = None
