"""Requests not begun by a thread at the end of a drain: their clients get an answer all the same.

Owns:     refuse_unbegun: 503 with Retry-After for each, and the wait until the clients have it.
Thread:   event loop; a worker may begin any of them meanwhile, and then ends the request.
Not here: the queue (workers/executor.py); a waiting request for a WebSocket, whose connection is reset; the way of a refusal (wire_loop.py), the
          drain (server/server.py).

The app has not seen these requests, so the clients may send them again, a fact not told by a reset of the connection.
"""

from __future__ import annotations

import asyncio
import time

from ...core.errors import RequestRefused
from ...core.exchange import Exchange
from ...workers.executor import Executor
from ...workers.inline import InlineExecutor
from ..lane.disconnects import exchange_of
from ..lane.wire_fast import FastWire, refuse
from ..loop.wire_loop import LoopWire
from ..states import State

# The wait for answers, and for the close by their clients. Guess.
ANSWER_SECONDS = 1.0
WHY = "the server stops, and no thread was free for the request; try again"


def refusal() -> RequestRefused:
    """Return the answer to such a request."""
    return RequestRefused(503, WHY)


async def refuse_unbegun(executor: Executor | InlineExecutor) -> int:
    """Refuse requests waiting for a thread; return the number, once their connections are closed, or after ANSWER_SECONDS."""
    refused = _refuse(executor)
    deadline = time.monotonic() + ANSWER_SECONDS
    while any(_is_open(exchange) for exchange in refused) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
        refused += _refuse(executor)
    return len(refused)


def _refuse(executor: Executor | InlineExecutor) -> list[Exchange]:
    found: list[Exchange] = []
    if isinstance(executor, InlineExecutor):
        return found  # nothing waits
    for job in executor.jobs.copy():
        exchange = exchange_of(job)
        if exchange is not None and executor.withdraw(job) and _answer(exchange):
            found.append(exchange)
    return found


def _answer(exchange: Exchange) -> bool:
    """Answer 503; return False for a client that has left."""
    why, wire = refusal(), exchange.connection.wire
    if isinstance(wire, FastWire):
        refuse(exchange, why)
        return True
    if not isinstance(wire, LoopWire):
        return False
    if wire.state == State.CLOSED:
        wire.drop(exchange)
        return False
    wire.refuse(exchange, why)
    return True


def _is_open(exchange: Exchange) -> bool:
    wire = exchange.connection.wire
    return isinstance(wire, FastWire) or (isinstance(wire, LoopWire) and wire.state != State.CLOSED)
