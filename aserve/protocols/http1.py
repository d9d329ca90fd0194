"""HTTP/1.1: octets from the network to exchanges, parsed in C.

Owns:     keep-alive, pipelining, 100-continue and body framing of HTTP/1.x.
Thread:   event loop; the exchange factory: the worker that leads the lane.
Phases:   one method each; `_phase` takes the next octets:
          _receive_head -> _receive_head                      no body
          _receive_head -> _receive_length -> _receive_head   Content-Length
          _receive_head -> _receive_chunked -> _receive_head  chunked
          _receive_head -> _receive_later -> _receive_head    a request for a WebSocket: `go_on` leads back
          any -> _receive_nothing                             a client's fault
Spec:     RFC 9112; RFC 9110 section 10.1.1.
Not here: the grammar (cparsers/http1.c), transports and time-outs
          (connections/loop/wire_loop.py), the response (wsgi/response.py).
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Callable

from .._cparsers import ffi, lib
from ..core.errors import RequestRefused
from ..core.exchange import HTTP_1_0, Exchange
from .base import ExchangeFactory, Limits, RequestReceiver, WireProtocol, new_body, refusal
from .chunked import Chunks
from .refused_head import known_request

KEEP_ALIVE: int = lib.HTTP1_KEEP_ALIVE
VERSION_1_1: int = lib.HTTP1_VERSION_1_1
HEAD: int = lib.HTTP1_HEAD
LENGTH: int = lib.HTTP1_LENGTH
CHUNKED: int = lib.HTTP1_CHUNKED
EXPECT_CONTINUE: int = lib.HTTP1_EXPECT_CONTINUE
FORWARDED: int = lib.HTTP1_FORWARDED
DROPPED: int = lib.HTTP1_DROPPED
WEBSOCKET: int = lib.HTTP1_WEBSOCKET
# The flags of a head without a body or anything special, as most requests have.
PLAIN = KEEP_ALIVE | VERSION_1_1
_VERSION_OR_WEBSOCKET = VERSION_1_1 | WEBSOCKET

# By offset, not by pointer: see chunked.py.
_parse_head_at = lib.http1_parse_head_at


class Scratch:
    """The C memory of all connections of one event loop: a call fills the memory, and the caller empties it at once."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        vars_cap = 2 * limits.max_head_bytes + 256
        self._vars = ffi.new("char[]", vars_cap)
        self.vars = ffi.buffer(self._vars, vars_cap)
        self.head = head = ffi.new("http1_head *")
        head.vars = self._vars
        head.vars_cap = vars_cap
        head.max_line_len = limits.max_line_bytes
        head.max_head_len = limits.max_head_bytes
        head.max_fields = limits.max_fields
        # content_length, vars_len, nvars, flags: one unpack costs CPython a third of four attribute reads.
        self.results_view = ffi.buffer(head)
        self.results_offset = ffi.offsetof("http1_head", "content_length")
        self.unpack_results = struct.Struct("@QIII").unpack_from
        self.chunks = Chunks(limits)


class HTTP1(RequestReceiver):
    """One connection's requests: a WireProtocol."""

    __slots__ = (
        "_body_left", "_chunked", "_phase", "_scanned", "_scratch", "is_continue_due",
    )  # fmt: skip

    is_single = False

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._exchange = self._body = None
        self.unparsed = b""
        self._scanned = 0  # of the octets not yet parsed, how many an earlier call found incomplete
        self._phase: Callable[..., int] = HTTP1._receive_head
        self.is_continue_due = False
        self._body_left = 0  # octets, when the length is known
        self._chunked: Any = None  # the C decoder's state

    def receive(self, data: bytes) -> list[Exchange]:
        """
        Feed octets from the network; return the completed exchanges.

        See WireProtocol.receive.

        Spec: RFC 9112 sections 2.2 and 9.3.2.
        """
        if self.unparsed:
            data = self.unparsed + data
            self.unparsed = b""
        exchanges: list[Exchange] = []
        consumed = self._phase(self, data, 0, exchanges)
        if consumed != len(data):
            self._receive_rest(data, consumed, exchanges)
        return exchanges

    def _receive_rest(self, data: bytes, consumed: int, exchanges: list[Exchange]) -> None:
        """Run the phases on the octets after `consumed`; keep octets of no use yet."""
        position, end, max_pipelined = 0, len(data), self._scratch.limits.max_pipelined
        # A live body is fed on even at `max_pipelined`: the exchange is with the app already.
        while consumed and (len(exchanges) < max_pipelined or self._exchange is not None):
            position += consumed
            if position >= end:
                return
            consumed = self._phase(self, data, position, exchanges)
        self.unparsed = data[position + consumed :]

    @property
    def has_unparsed(self) -> bool:
        """Whether `receive(b"")` may return more."""
        return bool(self.unparsed) and not self._scanned and self._phase is not HTTP1._receive_later

    def go_on(self) -> None:
        """See WireProtocol."""
        if self._phase is HTTP1._receive_later:
            self._phase = HTTP1._receive_head

    # Phases: consume octets of `data` from `position`; return how many; 0: more are needed

    def _receive_head(self, data: bytes, position: int, exchanges: list[Exchange]) -> int:
        scratch = self._scratch
        consumed = _parse_head_at(data, position, len(data) - position, self._scanned, scratch.head)
        if consumed <= 0:
            if consumed == lib.ASERVE_INCOMPLETE:
                if len(data) - position == 2 and data[position:] == b"\r\n":
                    self._scanned = 0  # of the CR, if alone
                    return 2  # RFC 9112 2.2: an empty line after a request does not begin the next
                self._scanned = len(data) - position
                return 0
            if consumed != lib.ASERVE_TARGET_TOO_LONG:  # refused at the octet over the limit, whatever follows
                self._exchange = known_request(data, position)
            return self._refuse(refusal(consumed, data, position), exchanges)
        self._scanned = 0
        length, vars_len, _, flags = scratch.unpack_results(scratch.results_view, scratch.results_offset)
        exchange = Exchange(scratch.vars[:vars_len].decode("latin-1"))
        if flags == PLAIN:
            exchanges.append(exchange)
        else:
            if flags & DROPPED and scratch.limits.underscores is not None:
                scratch.limits.underscores.look_at(data[position : position + consumed], exchange)
            self._begin_request(exchange, flags, length, exchanges)
        return consumed

    def _receive_length(self, data: bytes, position: int, exchanges: list[Exchange]) -> int:
        piece = data[position : position + self._body_left]
        self.is_continue_due = False
        try:
            self._body.feed(piece)
        except RequestRefused as why:
            return self._refuse(why, exchanges)
        self._body_left -= len(piece)
        if not self._body_left:
            self._end_body(exchanges)
        return len(piece)

    def _receive_chunked(self, data: bytes, position: int, exchanges: list[Exchange]) -> int:
        self.is_continue_due = False
        try:
            consumed = self._scratch.chunks.decode(self._chunked, data, position, self._body)
        except RequestRefused as why:
            return self._refuse(why, exchanges)
        if self._chunked.done:
            self._end_body(exchanges)
        return consumed

    def _receive_later(self, data: bytes, position: int, exchanges: list[Exchange]) -> int:
        return 0  # not yet known to be HTTP

    def _receive_nothing(self, data: bytes, position: int, exchanges: list[Exchange]) -> int:
        return len(data) - position

    # Transitions

    def _begin_request(self, exchange: Exchange, flags: int, length: int, exchanges: list[Exchange]) -> None:
        """Begin a request with a body, or with flags that matter for the response."""
        limits = self._scratch.limits
        set_flags(exchange, flags, limits.strip_forwarded)
        if not flags & (LENGTH | CHUNKED | WEBSOCKET):
            exchanges.append(exchange)
            return
        if flags & WEBSOCKET:
            exchanges.append(exchange)
            self._phase = HTTP1._receive_later
            return
        self._exchange = exchange
        try:
            self._body = exchange.body = new_body(limits, bool(flags & CHUNKED), length)
        except RequestRefused as why:
            self._refuse(why, exchanges)
            return
        self.is_continue_due = bool(flags & EXPECT_CONTINUE)
        self._body_left = length
        if flags & CHUNKED:
            self._chunked = self._scratch.chunks.begin()
            self._phase = HTTP1._receive_chunked
        else:
            self._phase = HTTP1._receive_length
        if limits.is_live:
            exchanges.append(exchange)

    def _end_body(self, exchanges: list[Exchange]) -> None:
        if self._body.is_live:
            self._body.feed_end()
        else:
            assert self._exchange is not None
            exchanges.append(self._exchange)
        self._exchange = self._body = self._chunked = None
        self._phase = HTTP1._receive_head

    def _refuse(self, why: RequestRefused, exchanges: list[Exchange]) -> int:
        """Answer with an error, and parse no more: the place of the next request is unknown."""
        self._refuse_request(why, exchanges)
        self._chunked = None
        self.is_continue_due = False
        self._phase = HTTP1._receive_nothing
        return 1  # any number but 0: the next phase takes the rest


def set_flags(exchange: Exchange, flags: int, strip_forwarded: Callable[[Exchange], None]) -> None:
    """Store the head's flags for the response; move the fields of proxies out of the vars."""
    if flags & _VERSION_OR_WEBSOCKET != VERSION_1_1:  # one comparison more if not PLAIN
        if flags & WEBSOCKET:
            exchange.asks_websocket = exchange.is_for_loop = True
        else:
            exchange.form = HTTP_1_0
    exchange.keep_alive = bool(flags & KEEP_ALIVE)
    exchange.is_head = bool(flags & HEAD)
    if flags & FORWARDED:
        strip_forwarded(exchange)


def read_head(scratch: Scratch, head: bytes) -> tuple[Exchange, int, int]:
    """
    Return the exchange of a whole head from another protocol, the flags, and the length of the body.

    Raises:
        RequestRefused: the head breaks a rule or a limit.
    """
    consumed = _parse_head_at(head, 0, len(head), 0, scratch.head)
    if consumed != len(head):
        raise refusal(consumed)
    length, vars_len, _, flags = scratch.unpack_results(scratch.results_view, scratch.results_offset)
    exchange = Exchange(scratch.vars[:vars_len].decode("latin-1"))
    set_flags(exchange, flags, scratch.limits.strip_forwarded)
    if flags & DROPPED and scratch.limits.underscores is not None:
        scratch.limits.underscores.look_at(head, exchange)
    return exchange, flags, length


def new_factory(limits: Limits) -> Callable[[], WireProtocol]:
    return functools.partial(HTTP1, Scratch(limits))


def new_exchange_factory(limits: Limits) -> ExchangeFactory:
    strip_forwarded, underscores = limits.strip_forwarded, limits.underscores

    def make(vars: str, _: int, flags: int, __: int, data: Any, start: int, size: int) -> Exchange:
        exchange = Exchange(vars)
        set_flags(exchange, flags, strip_forwarded)
        if flags & DROPPED and underscores is not None:
            underscores.look_at(bytes(data[start : start + size]), exchange)
        return exchange

    return make
