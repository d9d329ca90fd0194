"""Answers uwsgi packets that call a function, in the app's place.

Owns:     RPCCalls.
Thread:   a worker (with --threads 0: the event loop).
Not here: reading the packets (protocols/uwsgi.py), the functions (rpc/registry.py), requests that a route answers (features/routes.py).
"""

from __future__ import annotations

from .. import rpc
from ..core.exchange import Exchange
from ..core.forks import end_if_forked, forked
from .gateway import Before, Reply
from .response import CommonFields


class RPCCalls(Before):
    """Answers what is a call; of uwsgi's listeners."""

    __slots__ = ("_common_fields",)
    is_done_in_c = True

    def __init__(self, common_fields: CommonFields) -> None:
        self._common_fields = common_fields

    def before(self, exchange: Exchange) -> Reply | None:
        """Call the function; None: it is a request."""
        if exchange.rpc is None:
            return None
        octets = rpc.respond(exchange.rpc) or b""
        if forked:
            end_if_forked(self._common_fields.forked_count)
        return octets
