"""How a supervisor and its workers are, for those who ask: `aserve status`, and the status page.

Owns:     Status: the objects of a status; what workers take, looked up every few seconds, and whether that grows; crashes of the last minutes.
Thread:   the supervisor's only one.
Not here: the shapes that a process without a supervisor has, too (metrics/status.py), who asks (answers.py, overview.py).

Nobody asks a worker anything: its page, its table in flight and /proc say it all, also when it hangs.
"""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..connections.in_flight import read_in_flight
from ..connections.listen_queue import describe_listening
from ..connections.listeners import Listener
from ..core.exchange import WORKER_DIED
from ..core.footprint import Footprint, Footprints, memory_of
from ..metrics.advice import Counted, add_warnings
from ..metrics.growth import SAMPLE_SECONDS, Growth
from ..metrics.status import describe_footprint, describe_requests, describe_server
from ..settings import Config
from ..settings.commands import show_command
from ..slow_requests import MAX_KEPT
from .attached import Attached
from .channel import Message
from .child import MOLD, Child, State
from .children import Children
from .memory_file import map_memory_file
from .rollout import Rollout
from .slots import Field

# For so long a crash is news. Guess.
CRASH_SECONDS = 600
MAX_CRASHES = 100
# Of an attached program.
SHOWN = ("name", "pid", "state", "seconds", "restarts", "last_end", "when", "pause_seconds")


class Known(Protocol):
    """What a supervisor knows of itself."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""

    @property
    def config(self) -> Config:
        """The settings of workers that start now."""

    @property
    def is_ending(self) -> bool:
        """Whether no worker is to begin any more."""

    def describe(self) -> str:
        """Return in one line how things are."""


class Status:
    """What is known at this moment."""

    def __init__(
        self,
        known: Known,
        children: Children,
        rollout: Rollout,
        attached: Attached | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """`listeners`: of the workers."""
        self.known = known
        self._listeners = listeners
        self.counted: Counted = lambda: ({}, {})
        self._children = children
        self._rollout = rollout
        self._attached = attached
        self._began_at = time.monotonic()
        self._footprints = Footprints()
        self._slow: dict[tuple[int, int], dict[str, Any]] = {}  # the last slow requests, by process and number
        self._crashes: collections.deque[tuple[float, int, str]] = collections.deque(maxlen=MAX_CRASHES)
        self._refusal: tuple[float, str] | None = None  # of the last reload, until the next begins
        self._growths: dict[Child, Growth] = {}
        self._seconds = 0

    def describe(self) -> dict[str, Any]:
        """Return it, with "workers" by slot."""
        states = [child.state for child in self._children if child.is_worker]
        now = time.monotonic()
        return {
            **describe_server(now - self._began_at, self.known.describe(), self.known.config.threads),
            "workers_wanted": self.known.size,
            "workers_ready": states.count(State.READY),
            "half_done": self.half_done,
            "refused": {"seconds": round(now - self._refusal[0], 1), "why": self._refusal[1]}
            if self._refusal
            else None,
            "listening": self.listening,
            "slow": list(self._slow.values()),
            "crashes": [
                {"seconds": round(now - at, 1), "worker": slot, "how": how}
                for at, slot, how in self._crashes
                if now - at < CRASH_SECONDS
            ],
            "attached": [self._describe_attached(each) for each in self.attached],
            "jobs": self.jobs,
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

    def on_crash(self, child: Child, how: str) -> None:
        """A worker that served has ended by itself: "it was killed by SIGSEGV"."""
        self._crashes.append((time.monotonic(), child.slot, how))

    def on_reload_begin(self) -> None:
        """What kept the one before from being done may be repaired."""
        self._refusal = None

    def on_reload_refused(self, why: str) -> None:
        """Nothing was reloaded: the code or the settings that are there now cannot start."""
        self._refusal = time.monotonic(), why

    def on_end(self, child: Child) -> None:
        """A process has ended, and its slow requests with it."""
        for (pid, _), found in self._slow.items():
            if pid == child.pid and found["end"] is None:
                found.update(end=WORKER_DIED, status=0, seconds=found["seconds"] + time.time() - found["at"])

    def on_second(self) -> None:
        """Called once a second: look now and then what those take that serve."""
        self._seconds += 1
        if self._seconds % SAMPLE_SECONDS:
            return
        self._growths = {child: self._growths.get(child) or Growth() for child in self._children.having(State.READY)}
        for child, growth in self._growths.items():
            growth.add(memory_of(child.pid))

    def describe_with_warnings(self) -> dict[str, Any]:
        """Return it, with the warnings that the status page has."""
        return add_warnings(self.describe(), self.known.config, *self.counted())

    def began_before(self, seconds: float) -> None:
        """Note that code of before has run for so long."""
        self._began_at -= seconds

    @property
    def listening(self) -> list[dict[str, Any]]:
        """How many clients wait in the kernel."""
        return describe_listening(self._listeners)

    @property
    def half_done(self) -> str:
        """Why a reload may never come to its end, and how far it has come; "": none is half done."""
        failed = self._rollout.failed
        return "; ".join([*failed, self.describe_progress(), "it is tried again"]) if failed else ""

    def describe_progress(self) -> str:
        """Return how far a reload has come."""
        new = sum(child.plan is self._rollout.plan for child in self._children.having(State.READY))
        return f"{new} of {self.known.size} workers {'has' if new == 1 else 'have'} the new code"

    def describe_drains(self) -> str:
        """Return what is still to end after a reload, for the end of its line; "": nothing."""
        at = [len(found) for child in self._children.having(State.DRAINING) if (found := self._requests_of(child))]
        if not at:
            return ""
        workers = "1 old worker still drains" if len(at) == 1 else f"{len(at)} old workers still drain"
        requests = f"{sum(at)} request{'' if sum(at) == 1 else 's'}"
        return f"; {workers}, with {requests} (--drain-timeout {self.known.config.drain_seconds:g})"

    def _requests_of(self, child: Child) -> list[tuple[float, str]]:
        with contextlib.closing(map_memory_file(child.in_flight)) as table:
            return read_in_flight(table) if child.is_worker else []

    def footprint_of(self, child: Child) -> Footprint | None:
        """Return what a child takes; None: it is not there yet."""
        return self._footprints.of(child.pid) if child.pid else None

    @property
    def attached(self) -> list[dict[str, Any]]:
        """What there is to know of each attached program."""
        return self._attached.describe() if self._attached is not None else []

    @property
    def jobs(self) -> dict[str, Any] | None:
        """What there is to know of the jobs of --spooler; None: there is none."""
        return self._attached.describe_jobs() if self._attached is not None else None

    def _describe_attached(self, state: dict[str, Any]) -> dict[str, Any]:
        shown = {name: state[name] for name in SHOWN}
        footprint = self._footprints.of(state["pid"]) if state["pid"] else None
        return {**shown, "command": show_command(state["words"], state["when"]), **describe_footprint(footprint)}

    def _describe(self, child: Child) -> dict[str, Any]:
        page, growth = self._children.page(child), self._growths.get(child)
        ticked_at = page[Field.TICKED_AT]
        return {
            "slot": 0 if child.slot == MOLD else child.slot,
            "pid": child.pid,
            "generation": child.generation,
            "state": "mold" if child.slot == MOLD else child.state.name.lower(),
            "seconds": round(time.monotonic() - child.began_at, 1),
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
            "stalled_seconds": page[Field.STALLED_SECONDS],
            "silent_seconds": round((time.monotonic_ns() - ticked_at) / 1e9, 1) if ticked_at else None,
            **describe_footprint(self.footprint_of(child)),
            "growth": growth.describe() if growth else None,
            "at": describe_requests(self._requests_of(child), child.plan.config.show_queries),
        }
