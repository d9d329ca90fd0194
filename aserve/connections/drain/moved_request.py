"""A request not begun by a thread, as octets for another process.

Owns:     the choice of movable requests (`may_move`), writing one (`write_request`), reading one (`read_request`).
Thread:   event loop only.
Not here: the connection (detaching.py), the way to the other process (processes/transfers/passing.py).

A line of JSON has all results of parsing, so the request is not parsed a second time, and is moved alike over HTTP, uwsgi and SCGI; the body
follows.
"""

from __future__ import annotations

import json
from typing import Optional, cast

from ...core.body import BufferedBody
from ...core.exchange import Exchange, ResponseForm

# The attributes set by a protocol; `form` and the body are written otherwise.
_KEPT = (
    "vars", "own_count", "keep_alive", "is_head", "is_from_front", "is_mounted", "forwarded", "underscored", "arrived_at",
)  # fmt: skip


def may_move(exchange: Exchange) -> bool:
    """Whether a request waiting for a thread is for the app, and whole in memory."""
    is_for_app = not (exchange.asks_websocket or exchange.is_for_loop or exchange.is_probe) and exchange.rpc is None
    return is_for_app and (
        exchange.body is None or (type(exchange.body) is BufferedBody and not exchange.body.is_spooled)
    )


def write_request(exchange: Exchange) -> bytes:
    """Return the octets of a movable request."""
    prefix, may_chunk, keep_alive_line, close_line, may_inform = exchange.form
    facts = {name: getattr(exchange, name) for name in _KEPT}
    facts["form"] = [prefix, may_chunk, keep_alive_line.decode("latin-1"), close_line.decode("latin-1"), may_inform]
    body = cast(Optional[BufferedBody], exchange.body)
    facts["body"] = None if body is None else {"is_chunked": body.is_chunked}
    return json.dumps(facts).encode("ascii") + b"\n" + (b"" if body is None else body.octets)


def read_request(octets: bytes) -> Exchange:
    """Return the exchange of a request, without a connection."""
    line, _, rest = octets.partition(b"\n")
    facts = json.loads(line)
    exchange = Exchange("")
    for name in _KEPT:
        setattr(exchange, name, facts[name])
    prefix, may_chunk, keep_alive_line, close_line, may_inform = facts["form"]
    exchange.form = ResponseForm(
        prefix, may_chunk, keep_alive_line.encode("latin-1"), close_line.encode("latin-1"), may_inform
    )
    if facts["body"] is not None:
        exchange.body = BufferedBody.of(rest)
        exchange.body.is_chunked = facts["body"]["is_chunked"]
    return exchange
