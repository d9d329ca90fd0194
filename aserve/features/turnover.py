"""Ends kept connections after a number of requests or an age: balancers then spread them anew.

Owns:     ConnectionLimits, the extension; Turnover, a step; Term, the limits of one connection.
Thread:   a worker (with --threads 0: the event loop). A connection has one exchange at a time, so a Term has one thread; the streams of a carrier
          share one, under the lock of the carrier's connection.
Spec:     RFC 9112 section 9.6; RFC 9113 section 6.8.
Not here: obeying `Exchange.keep_alive` (wsgi/response.py says close, the wires close) and `Connection.is_spent` (the carrier sends
          a GOAWAY); a worker process's own limits (processes/fleet/recycling.py).

A connection ends with a response that says close, and never in an idle time: the client's next request may be on the way then, and a lost POST
cannot be sent again. uwsgi and SCGI carry one request per connection: their gateways do not have this step, nor has HTTP's, unless a limit is set.

Measured 2026-11-23, the CPU time of a request's way through here: 0.06 us on CPython 3.11, 0.01 us on PyPy 3.9; with an age, and so a look at the
clock, 0.12 and 0.04 us.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ..core.exchange import Exchange
from ..extension import Extension, ListenerContext
from ..settings import EngineSettings, row
from ..settings.kinds import count, duration
from ..wsgi.gateway import Before

if TYPE_CHECKING:
    from ..connections.connection import Connection

# At most this part of a limit is left unused, drawn for each connection. Guess: enough to spread the ends of connections with a common begin, and
# little enough to keep the limit's meaning.
JITTER = 0.25


class TurnoverSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    max_connection_requests: int = row(
        0, "Limits", "--max-connection-requests", count(0, 1_000_000_000),
        "requests on an HTTP connection until an answer with `Connection: close`, or a GOAWAY of HTTP/2; drawn for each "
        "connection, at most a quarter less; 0: any number; see `aserve docs balancers`",
        "A lasting connection costs nothing. A balancer with kept connections spreads these anew by this after a scale-up.",
    )
    max_connection_seconds: float = row(
        0.0, "Time limits", "--max-connection-age", duration(0.0),
        "how long after the first request an HTTP connection ends, by an answer with `Connection: close`, or a GOAWAY; drawn "
        "for each connection, at most a quarter less; 0: any time; see `aserve docs balancers`",
        "As for --max-connection-requests. An idle connection is left to --keep-alive: the next request may be on the way.",
    )
    # fmt: on


class Term:
    """The rest of one connection's limits."""

    __slots__ = ("ends_at", "requests_left")

    def __init__(self, requests_left: int, ends_at: float) -> None:
        self.requests_left = requests_left  # 0: any number
        self.ends_at = ends_at  # by the monotonic clock, in seconds


class Turnover(Before):
    """Counts requests, and makes the response say close when a connection has reached a limit."""

    __slots__ = ("_chance", "_max_requests", "_max_seconds", "_now")
    keeps_term = True

    def __init__(self, config: TurnoverSettings, chance: random.Random | None = None) -> None:
        self._max_requests = config.max_connection_requests
        self._max_seconds = config.max_connection_seconds
        self._chance = chance or random.Random()  # noqa: S311 (no secret)
        self._now = time.monotonic

    def before(self, exchange: Exchange) -> None:
        """Count the request."""
        carrying = getattr(exchange.connection, "carried_by", None)
        if carrying is None:
            if self._is_last(exchange.connection):
                exchange.keep_alive = False
            return
        with carrying.lock:
            is_last = self._is_last(carrying)
        if is_last:
            carrying.is_spent = True

    def _is_last(self, connection: Connection) -> bool:
        """Count a request; return whether the request should be the connection's last."""
        try:
            term = connection.term
        except AttributeError:  # the connection's first request
            term = connection.term = self._new_term()
        term.requests_left -= 1
        return not term.requests_left or bool(self._max_seconds and self._now() >= term.ends_at)

    def _new_term(self) -> Term:
        """Draw the limits of a connection."""
        count, seconds = self._max_requests, self._max_seconds
        return Term(
            count and self._chance.randint(count - int(count * JITTER), count),
            self._now() + seconds * self._chance.uniform(1.0 - JITTER, 1.0),
        )


class ConnectionLimits(Extension[TurnoverSettings]):
    """--max-connection-requests and --max-connection-age."""

    switches = ("max_connection_requests", "max_connection_seconds")

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension; connections of uwsgi and SCGI carry one request."""
        return Turnover(self._config) if context.is_http else None
