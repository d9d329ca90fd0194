"""How a supervisor and its workers are, for those who ask: `aserve status`, and the status page.

Owns:     Status: the objects of a status; what workers take, looked up every few seconds.
Thread:   the supervisor's only one.
Not here: the shapes that a process without a supervisor has, too (metrics/status.py), who asks (answers.py, overview.py).

Nobody asks a worker anything: its page, its table in flight and /proc say it all, also when it hangs.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Protocol

from ..connections.in_flight import read_in_flight
from ..footprint import Footprint, Footprints
from ..metrics.status import describe_footprint, describe_requests, describe_server
from ..settings import Config
from ..slow_requests import MAX_KEPT
from .channel import Message
from .child import MOLD, Child, State
from .children import Children
from .memory_file import map_memory_file
from .slots import Field


class Known(Protocol):
    """What a supervisor knows of itself."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""

    @property
    def config(self) -> Config:
        """The settings of workers that start now."""

    def describe(self) -> str:
        """Return in one line how things are."""


class Status:
    """What is known at this moment."""

    def __init__(self, known: Known, children: Children) -> None:
        self.known = known
        self._children = children
        self._began_at = time.monotonic()
        self._footprints = Footprints()
        self._slow: dict[tuple[int, int], dict[str, Any]] = {}  # the last slow requests, by process and number

    def describe(self) -> dict[str, Any]:
        """Return it, with "workers" by slot."""
        states = [child.state for child in self._children if child.is_worker]
        seconds = time.monotonic() - self._began_at
        return {
            **describe_server(seconds, self.known.describe(), self.known.config.threads),
            "workers_wanted": self.known.size,
            "workers_ready": states.count(State.READY),
            "slow": list(self._slow.values()),
            "workers": [
                self._describe(child)
                for child in sorted(self._children, key=lambda child: (child.slot, child.generation))
            ],
        }

    def on_slow(self, child: Child, message: Message) -> None:
        """A worker has told of a request that is slow, or of its end."""
        found = message["request"]
        self._slow[child.pid, found["number"]] = found
        while len(self._slow) > MAX_KEPT:
            del self._slow[next(iter(self._slow))]

    def footprint_of(self, child: Child) -> Footprint | None:
        """Return what a child takes; None: it is not there yet."""
        return self._footprints.of(child.pid) if child.pid else None

    def _describe(self, child: Child) -> dict[str, Any]:
        page = self._children.page(child)
        with contextlib.closing(map_memory_file(child.in_flight)) as table:
            requests = read_in_flight(table) if child.is_worker else []
        ticked_at = page[Field.TICKED_AT]
        return {
            "slot": 0 if child.slot == MOLD else child.slot,
            "pid": child.pid,
            "generation": child.generation,
            "state": "mold" if child.slot == MOLD else child.state.name.lower(),
            "seconds": round(time.monotonic() - child.began_at, 1),
            "requests": page[Field.REQUESTS],
            "connections": page[Field.CONNECTIONS],
            "running": page[Field.IN_FLIGHT],
            "waiting": page[Field.WAITING],
            "waiting_seconds": round(page[Field.WAITING_MILLISECONDS] / 1000, 1),
            "threads_busy": page[Field.THREADS_BUSY],
            "stalled_seconds": page[Field.STALLED_SECONDS],
            "silent_seconds": round((time.monotonic_ns() - ticked_at) / 1e9, 1) if ticked_at else None,
            **describe_footprint(self.footprint_of(child)),
            "at": describe_requests(requests),
        }
