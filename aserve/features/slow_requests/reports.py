"""The slow requests of a supervisor's workers, for `aserve status` and the status page.

Owns:     Reports, in the supervisor; Reporter, in a worker.
Thread:   the supervisor's only one; the worker's event loop.
Not here: finding these requests (watch.py).

A worker reports each slow request twice: when found, and at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ...core.exchange import WORKER_DIED
from ...lifecycle.supervision import Supervision, Word, WorkerEnd

SLOW = "slow"
MAX_SLOW = 32  # slow requests, of all workers together


class Reporter:
    def __init__(self, say: Callable[[dict[str, Any], tuple[int, ...]], None]) -> None:
        """`say`: see ServerContext.say."""
        self._say = say
        self._reported: dict[int, str | None] = {}  # by number: the end as reported

    def report(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Report the news among these, the last slow requests."""
        for slow in found:
            if self._reported.get(slow["number"], "never") != slow["end"]:
                self._say({"say": SLOW, "request": slow}, ())
        self._reported = {slow["number"]: slow["end"] for slow in found}


class Reports(Supervision):
    """The last slow requests of all workers."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], dict[str, Any]] = {}  # by process and number

    def words(self) -> Mapping[str, Word]:
        """See Supervision."""
        return {SLOW: self._on_slow}

    def _on_slow(self, pid: int, message: Mapping[str, Any], fds: list[int]) -> None:
        """Record a worker's report of a slow request, or of the request's end."""
        found = message["request"]
        self._found[pid, found["number"]] = found
        while len(self._found) > MAX_SLOW:
            del self._found[next(iter(self._found))]

    def on_end(self, end: WorkerEnd) -> None:
        """Record the end of a process's slow requests with the process."""
        for (at, _), found in self._found.items():
            if at == end.pid and found["end"] is None:
                found.update(so_far(found), end=WORKER_DIED, status=0)

    def status(self) -> Mapping[str, Any]:
        """See Supervision."""
        return {SLOW: [*map(so_far, self._found.values())]}


def so_far(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a slow request with its duration until now, if it still runs; SlowRequests keeps what it was at its discovery."""
    return {**found, **({"seconds": found["seconds"] + time.time() - found["at"]} if found["end"] is None else {})}
