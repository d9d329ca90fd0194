"""The common part of uwsgi and SCGI: a connection carries one request.

Owns:     OneRequest: keep octets until the head is complete, then collect
          the body, then nothing more.
Thread:   event loop only.
Not here: the heads (uwsgi.py, scgi.py), pings and RPC (uwsgi.py).
"""

from __future__ import annotations

from typing import Callable

from ..core.errors import RequestRefused
from ..core.exchange import Exchange, ResponseForm, refused_exchange
from .base import Limits, RequestReceiver, new_body

# Vars of the front server, beside the client's fields: nginx sends 16. Guess: four times that.
FRONT_VARS = 64


class OneRequest(RequestReceiver):
    """One connection's request: a WireProtocol, but for `_receive_head`."""

    __slots__ = ("_body_left", "_form", "_limits", "_phase")

    is_single = True
    is_continue_due = False  # the front server has answered the client's Expect
    has_unparsed = False  # there is no second request

    def __init__(self, limits: Limits, form: ResponseForm) -> None:
        self._limits = limits
        self._exchange = self._body = None
        self.unparsed = b""
        self._form = form
        self._body_left = 0  # octets
        # A function and not a bound method: a bound method would be a cycle, freed only by the garbage collector.
        self._phase: Callable[..., list[Exchange]] = type(self)._receive_head

    def receive(self, data: bytes) -> list[Exchange]:
        """Feed octets from the network; see WireProtocol.receive."""
        if self.unparsed:
            data = self.unparsed + data
            self.unparsed = b""
        return self._phase(self, data)

    def drop_further(self) -> None:
        """Drop whatever still comes: no request is expected."""
        self._phase = OneRequest._receive_nothing

    def _receive_head(self, data: bytes) -> list[Exchange]:
        raise NotImplementedError

    def new_exchange(self, vars: str, own_count: int) -> Exchange:
        """Return the exchange of a head."""
        exchange = Exchange(vars, own_count)
        exchange.form = self._form
        exchange.keep_alive = False
        exchange.is_head = "REQUEST_METHOD\0HEAD" in vars and is_head_request(vars)
        exchange.is_from_front = True
        return exchange

    def _begin_request(self, exchange: Exchange, length: int, rest: bytes) -> list[Exchange]:
        """Return the exchange of a complete head, or collect the body first."""
        self._phase = OneRequest._receive_nothing
        if not length:
            return [exchange]
        try:
            self._body = exchange.body = new_body(self._limits, is_chunked=False, length=length)
        except RequestRefused as why:
            return self._refuse(why, exchange)
        self._exchange = exchange
        self._body_left = length
        self._phase = OneRequest._receive_body
        done = self._receive_body(rest)
        return [exchange] if self._limits.is_live else done

    def _receive_body(self, data: bytes) -> list[Exchange]:
        piece = data[: self._body_left]
        try:
            self._body.feed(piece)
        except RequestRefused as why:
            return self._drop_body(why)
        self._body_left -= len(piece)
        if self._body_left:
            return []
        exchange, is_live = self._exchange, self._limits.is_live
        if is_live:
            self._body.feed_end()
        self._exchange = self._body = None
        self._phase = OneRequest._receive_nothing
        assert exchange is not None
        return [] if is_live else [exchange]

    def _drop_body(self, why: RequestRefused) -> list[Exchange]:
        """Refuse a request: no room for the rest of the body."""
        exchange = self._exchange
        self._body.close()
        self._exchange = self._body = None
        return self._refuse(why, exchange)

    def _receive_nothing(self, data: bytes) -> list[Exchange]:
        return []

    def _refuse(self, why: RequestRefused, request: Exchange | None = None) -> list[Exchange]:
        self._phase = OneRequest._receive_nothing
        return [self.new_refusal(why, request)]

    def new_refusal(self, why: RequestRefused, request: Exchange | None = None) -> Exchange:
        """Return the exchange for the answer to a client's fault; `request` holds the known part of the request, if any."""
        refused = refused_exchange(why, request)
        refused.form = self._form
        refused.is_from_front = True
        return refused


def is_head_request(vars: str) -> bool:
    """Whether these vars are a HEAD request's, whose response has no body (RFC 9110 section 9.3.2)."""
    parts = iter(vars.split("\0"))
    return dict(zip(parts, parts)).get("REQUEST_METHOD") == "HEAD"
