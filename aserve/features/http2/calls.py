"""The app calls of one connection: no more than --max-streams at a time, also if its client resets streams whose requests run on.

Owns:     Calls, the executor of the connection's streams; when they are the lane's again.
Thread:   event loop only.
Spec:     RFC 9113 section 10.5 (denial of service).
Not here: how many streams may be open and how many resets a client may send (cparsers/h2.h), threads (workers/executor.py).

A client that keeps to the limit is refused nothing: behind a proxy many visitors share one connection, and a visitor who leaves must cost no
other one a request. So a request beyond the limit waits, as in Go's server: its body comes in, and its limits and time-outs are as any other's.
Open streams alone can wait, so that they are no more than --max-streams, too.
"""

from __future__ import annotations

from typing import Any, Callable

from ...core.exchange import Exchange

# After so many requests that may be the lane's, a connection goes back to the lane when none is left. Measured 2026-11-29 with one request for Python in 1,
# 2, 9 and 20: 4 gives 1.0, 1.0, 0.9 and 1.3 to 1.9 times the requests per CPU second of a connection that stays; 0 gives 0.3, 0.7, 2.1, 3.1; 8 at best 1.2.
RETURN_COUNT = 4


class Calls:
    """Gives the requests of one connection to an executor, and makes those wait that would be too many at a time."""

    __slots__ = ("_call_soon", "_most", "_most_bytes", "_plain_count", "_running", "_submit", "_waiting", "elsewhere")

    def __init__(
        self, submit: Callable[..., object], call_soon: Callable[..., object], most: int, most_bytes: int
    ) -> None:
        """`submit`: of an executor, `call_soon`: of the event loop; `most_bytes`: of a body that the lane takes."""
        self._submit, self._call_soon, self._most, self._most_bytes = submit, call_soon, most, most_bytes
        self.elsewhere: Callable[[], int] = lambda: 0  # how many run in the lane
        self._plain_count = 0  # requests without a large body, in a row
        self._running: set[Exchange] = set()  # with the executor, or with the app
        self._waiting: dict[Exchange, Callable[[Any], None]] = {}  # the job of each, in the order of arrival

    def submit(self, function: Callable[[Any], None], exchange: Exchange) -> None:
        """Run function(exchange) in a worker soon, or once there is room."""
        self._waiting[exchange] = function
        self._plain_count = (
            self._plain_count + 1 if exchange.body is None or exchange.body.length <= self._most_bytes else 0
        )
        self._go_on()

    def add(self, exchange: Exchange) -> None:
        """Count one that has begun in the lane."""
        self._running.add(exchange)

    def _begin_first(self) -> None:
        exchange = next(iter(self._waiting))
        self._running.add(exchange)
        self._submit(self._waiting.pop(exchange), exchange)

    def end(self, exchange: Exchange) -> None:
        """Forget an exchange that has ended; the first that waits takes its place."""
        self._running.discard(exchange)
        self._waiting.pop(exchange, None)
        self.go_on_soon()

    @property
    def are_for_lane(self) -> bool:
        """Whether the last requests were the lane's, and none runs or waits."""
        return self._plain_count >= RETURN_COUNT and not (self._running or self._waiting or self.elsewhere())

    def go_on_soon(self) -> None:
        """Begin those for which there is room by now."""
        if self._waiting:  # not now: with --threads 0 the app would run within the end of another request
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        while self._waiting and len(self._running) + self.elsewhere() < self._most:
            self._begin_first()

    def begin_all(self) -> None:
        """Give all that wait to the executor: the server ends, and answers those that wait there for too long (connections/drain/unstarted_requests.py)."""
        while self._waiting:
            self._begin_first()

    def drop(self, exchange: Exchange | None) -> None:
        """End an exchange whose client has left, if the app does not have it."""
        if exchange is not None and exchange in self._waiting:
            exchange.connection.wire.drop(exchange)
