"""The content of a status, for the control socket and the status page.

Owns:     Statuses: the objects of docs/control.md, from a list of processes, be it one without a supervisor or many with one; the resources of
          processes, looked up every few seconds, and their growth; Observed, the processes of a server; BesideWorkers, facts known only to a
          supervisor.
Thread:   the owner's: a supervisor's, or an event loop's.
Not here: the list of processes (lone.py, processes/monitoring/status.py), counts (features/metrics/history.py), answering clients
          (control.py, features/metrics/scrapes.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Protocol

from ..core.exchange import without_query
from ..core.footprint import Footprint, Footprints
from ..core.growth import SAMPLE_SECONDS, Growths
from ..core.named_tuple import NamedTuple
from ..core.page import Field, Process
from ..settings import VERSION, EngineSettings
from .advice import Counted, add_warnings

MAX_REQUESTS = 10  # of a process, the oldest running requests


class Whole(NamedTuple):
    """A server as a whole."""

    text: str  # the state in one line
    listening: Sequence[Mapping[str, Any]]  # see describe_listening
    facts: Mapping[str, Any]  # of extensions
    workers_wanted: int = 0
    workers_ready: int = 0
    crashes: Sequence[Mapping[str, Any]] = ()
    # With a supervisor only.
    reload: Mapping[str, Any] = MappingProxyType({})
    beside: Mapping[str, Any] = MappingProxyType({})  # about the workers


class Statuses:
    """Makes the statuses of one server."""

    def __init__(
        self, config: Callable[[], EngineSettings], look: Callable[[], tuple[Whole, Sequence[Process]]]
    ) -> None:
        """`look` returns the server's present state, and the processes in the order of a status."""
        self._config = config
        self._look = look
        self.counted: Counted = lambda: ({}, {})
        self.began_at = time.monotonic()
        self.growths = Growths()
        self._footprints, self._seconds = Footprints(), 0

    def on_second(self, serving: Callable[[], Iterable[Process]]) -> None:
        """Look up the memory of the serving processes, every SAMPLE_SECONDS; called once a second."""
        self._seconds += 1
        if not self._seconds % SAMPLE_SECONDS:
            self.growths.look(serving())

    def footprint_of(self, pid: int) -> Footprint | None:
        """Return the memory and descriptors of a process; None: there is no pid yet."""
        return self._footprints.of(pid) if pid else None

    def describe(self) -> dict[str, Any]:
        """Return a status."""
        whole, processes = self._look()
        return {
            "version": VERSION,
            "python": f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}",
            "pid": os.getpid(),
            "seconds": round(time.monotonic() - self.began_at, 1),
            "text": whole.text,
            "threads": self._config().threads,
            "workers_wanted": whole.workers_wanted,
            "workers_ready": whole.workers_ready,
            **whole.reload,
            "listening": list(whole.listening),
            **whole.facts,
            "crashes": list(whole.crashes),
            **whole.beside,
            "workers": [self._describe(process) for process in processes],
        }

    def describe_with_warnings(self) -> dict[str, Any]:
        """Return a status with the warnings of the status page."""
        return add_warnings(self.describe(), self._config(), *self.counted())

    def describe_footprint(self, pid: int) -> dict[str, int | None]:
        """Return the status fields about a process's memory; see `footprint_of`."""
        return describe_footprint(self.footprint_of(pid))

    def _describe(self, process: Process) -> dict[str, Any]:
        page = process.page
        ticked_at = page[Field.TICKED_AT]
        return {
            "slot": process.slot,
            "pid": process.pid,
            "generation": process.generation,
            "state": process.state,
            "seconds": round(time.monotonic() - process.began_at, 1),
            "requests": page[Field.REQUESTS],
            "connections": page[Field.CONNECTIONS],
            "connections_limit": page[Field.CONNECTIONS_LIMIT],
            "websockets": page[Field.WEBSOCKETS],
            "running": page[Field.IN_FLIGHT],
            "waiting": page[Field.WAITING],
            "waiting_seconds": round(page[Field.WAITING_MILLISECONDS] / 1000, 1),
            "threads_busy": round(page[Field.THREADS_BUSY_LATELY] / 1000, 1),
            "threads_busy_now": page[Field.THREADS_BUSY],
            "threads_stuck": page[Field.THREADS_STUCK],
            "threads_lacking": page[Field.THREADS_LACKING],
            "bodies_lack_room": bool(page[Field.BODIES_LACK_ROOM]),
            "stalled_seconds": page[Field.STALLED_SECONDS],
            "silent_seconds": round((time.monotonic_ns() - ticked_at) / 1e9, 1) if ticked_at else None,
            **self.describe_footprint(process.pid),
            "growth": self.growths.describe(process),
            "at": describe_requests(process.requests(), process.shows_queries),
        }


class BesideWorkers(NamedTuple):
    """The facts of a supervisor, beyond the workers."""

    attached: Sequence[Mapping[str, Any]]  # see Attached.describe
    facts: Mapping[str, Any]  # of extensions; see Supervision.status
    counted: Iterable[tuple[str, str, int]]  # by the supervisor: a metric, the cell, the number
    lost_messages: int  # of the supervisor's own


class Observed(Protocol):
    """The processes of a server."""

    statuses: Statuses

    @property
    def config(self) -> EngineSettings:
        """The settings of now."""

    @property
    def process_count(self) -> int:
        """How many processes there are to be."""

    @property
    def ready_count(self) -> int:
        """How many serve."""

    @property
    def is_draining(self) -> bool:
        """Whether the whole server is about to end."""

    @property
    def why_unready(self) -> str:
        """Return why balancers should send requests elsewhere, as set by the program; "": no reason."""

    @property
    def listening(self) -> list[dict[str, Any]]:
        """Return how many clients wait in the kernel; see describe_listening."""

    @property
    def fleet(self) -> BesideWorkers | None:
        """Return the facts of the supervisor; None: there is none."""

    def processes(self) -> list[Process]:
        """Return the processes that serve, start, or drain."""

    def pages(self) -> list[tuple[int, Any]]:
        """Return the slot and the page of each process; counts follow the words of Field."""


def describe_footprint(footprint: Footprint | None) -> dict[str, int | None]:
    """Return the status fields about a process's memory; None: not known yet."""
    memory = footprint.memory if footprint else None
    return {
        "rss_bytes": memory.rss_bytes if memory else None,
        "pss_bytes": memory.pss_bytes if memory else None,
        "uss_bytes": memory.uss_bytes if memory else None,
        "descriptors": footprint.descriptors if footprint else None,
        "descriptor_limit": footprint.descriptor_limit if footprint else None,
    }


def describe_requests(at: Sequence[tuple[float, str]], shows_queries: bool) -> list[list[object]]:
    """Return the status fields about a process's running requests."""
    return [[round(seconds, 1), text if shows_queries else without_query(text)] for seconds, text in at[:MAX_REQUESTS]]
