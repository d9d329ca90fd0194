"""Answering uwsgi packets with a function call, in the app's place.

Owns:     RPCCalls; Functions, the interface of the functions.
Thread:   a worker (with --threads 0: the event loop).
Not here: reading the packets (protocols/uwsgi.py), the functions (rpc/registry.py), requests answered by a route (compat/routes/).
"""

from __future__ import annotations

from typing import Protocol

from ..core.exchange import Exchange, RpcCall
from ..core.forks import end_if_forked, forked
from .gateway import Before, Reply
from .response import CommonFields


class Functions(Protocol):
    """The functions called by packets, as in rpc/registry.py."""

    def respond(self, call: RpcCall) -> bytes | None:
        """Return the whole reply to a packet; None: close without an octet."""

    def respond_framed(self, *items: bytes) -> bytes:
        """Return the whole reply to a packet of these items, as a packet; empty: close without an octet."""


class RPCCalls(Before):
    """Answers calls; on uwsgi's listeners."""

    __slots__ = ("_common_fields", "functions")
    is_done_in_c = True

    def __init__(self, common_fields: CommonFields, functions: Functions) -> None:
        self._common_fields, self.functions = common_fields, functions

    def before(self, exchange: Exchange) -> Reply | None:
        """Call the function; None: the exchange is a request."""
        if exchange.rpc is None:
            return None
        octets = self.functions.respond(exchange.rpc) or b""
        if forked:
            end_if_forked(self._common_fields.forked_count)
        return octets
