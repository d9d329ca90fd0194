"""SCGI: one netstring of vars, then the body, on each connection.

Owns:     from an SCGI head to an exchange.
Thread:   event loop only.
Spec:     python.ca/scgi/protocol.txt (2008); RFC 3875 for the vars.
Not here: the grammar (cparsers/scgi.c), the body (one_request.py), a PATH_INFO not sent by the front server (wsgi/environ.py).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .._cparsers import ffi, lib
from ..core.exchange import SCGI_STATUS_FIELD, SCGI_STATUS_LINE, Exchange
from .base import ExchangeFactory, Limits, WireProtocol, refusal
from .one_request import FRONT_VARS, OneRequest


class SCGIScratch:
    """The common C memory of all connections of one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.form = SCGI_STATUS_LINE if limits.has_status_line else SCGI_STATUS_FIELD
        self._vars = ffi.new("char[]", limits.max_head_bytes)
        self.vars = ffi.buffer(self._vars, limits.max_head_bytes)
        self.head = ffi.new("scgi_head *")
        self.head.vars = self._vars
        self.head.vars_cap = limits.max_head_bytes
        self.head.max_head_len = limits.max_head_bytes
        self.head.max_vars = limits.max_fields + FRONT_VARS


class SCGI(OneRequest):
    """One connection's request: a WireProtocol."""

    __slots__ = ("_scratch",)

    def __init__(self, scratch: SCGIScratch) -> None:
        super().__init__(scratch.limits, scratch.form)
        self._scratch = scratch

    def _receive_head(self, data: bytes) -> list[Exchange]:
        scratch = self._scratch
        head = scratch.head
        consumed = lib.scgi_parse_head(data, len(data), head)
        if consumed == lib.ASERVE_INCOMPLETE:
            self.unparsed = data
            return []
        if consumed < 0:
            return self._refuse(refusal(consumed))
        exchange = self.new_exchange(scratch.vars[: head.vars_len].decode("latin-1"), head.nfirst)
        return self._begin_request(exchange, head.content_length, data[consumed:])


def new_factory(limits: Limits) -> Callable[[], WireProtocol]:
    return functools.partial(SCGI, SCGIScratch(limits))


def new_exchange_factory(limits: Limits) -> ExchangeFactory:
    new_exchange = SCGI(SCGIScratch(limits)).new_exchange

    def make(vars: str, own_count: int, *_: Any) -> Exchange:
        return new_exchange(vars, own_count)

    return make
