"""How a supervisor and its workers are, for those who ask: `aserve status`, and the status page.

Owns:     Status: what is told of each process; crashes of the last minutes, slow requests, what keeps a reload from its end.
Thread:   the supervisor's only one.
Not here: what a status says, be it of one process or many (lifecycle/status.py), who asks (answers.py, overview.py).

Nobody asks a worker anything: its page, its table in flight and /proc say it all, also when it hangs.
"""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..connections.in_flight import read_in_flight, read_oldest
from ..connections.listen_queue import describe_listening
from ..connections.listeners import Listener
from ..core.exchange import WORKER_DIED
from ..core.memory_file import map_memory_file
from ..core.page import Process
from ..lifecycle.status import Statuses, Whole
from ..settings import EngineSettings
from ..settings.commands import show_command
from .attached import Attached
from .channel import Message
from .child import MOLD, Child, State
from .children import Children
from .rollout import Rollout

# For so long a crash is news. Guess.
CRASH_SECONDS = 600
MAX_CRASHES = 100
MAX_SLOW = 32  # slow requests, of all workers together
# Of an attached program.
SHOWN = ("name", "pid", "state", "seconds", "restarts", "last_end", "when", "pause_seconds")


class Known(Protocol):
    """What a supervisor knows of itself."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""

    @property
    def config(self) -> EngineSettings:
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
        self.statuses = Statuses(lambda: known.config, self._look)
        self._listeners = listeners
        self._children = children
        self._rollout = rollout
        self._attached = attached
        self._slow: dict[tuple[int, int], dict[str, Any]] = {}  # the last slow requests, by process and number
        self._crashes: collections.deque[tuple[float, int, str]] = collections.deque(maxlen=MAX_CRASHES)
        self._refusal: tuple[float, str] | None = None  # of the last reload, until the next begins

    def describe(self) -> dict[str, Any]:
        """Return it, with "workers" by slot."""
        return self.statuses.describe()

    def describe_with_warnings(self) -> dict[str, Any]:
        """Return it, with the warnings that the status page has."""
        return self.statuses.describe_with_warnings()

    def _look(self) -> tuple[Whole, list[Process]]:
        """Return how all of it is, and all processes by slot, also those that serve no clients."""
        states, now = [child.state for child in self._children if child.is_worker], time.monotonic()
        refusal = {"seconds": round(now - self._refusal[0], 1), "why": self._refusal[1]} if self._refusal else None
        crashes = [
            {"seconds": round(now - at, 1), "worker": slot, "how": how}
            for at, slot, how in self._crashes
            if now - at < CRASH_SECONDS
        ]
        whole = Whole(
            self.known.describe(), self.listening, [*self._slow.values()], self.known.size,
            states.count(State.READY), crashes, reload={"half_done": self.half_done, "refused": refusal},
            beside={"attached": [self._describe_attached(each) for each in self.attached], "jobs": self.jobs},
        )  # fmt: skip
        children = sorted(self._children, key=lambda child: (child.slot, child.generation))
        return whole, [self.process_of(child) for child in children]

    def process_of(self, child: Child) -> Process:
        """Return what is known of a child without asking it."""
        is_mold = child.slot == MOLD
        return Process(
            slot=0 if is_mold else child.slot, pid=child.pid, generation=child.generation,
            state="mold" if is_mold else child.state.name.lower(), began_at=child.began_at, page=self._children.page(child),
            shows_queries=child.plan.config.show_queries, requests=lambda: self._requests_of(child),
            oldest_seconds=lambda: read_oldest(child.in_flight),
        )  # fmt: skip

    def on_slow(self, child: Child, message: Message) -> None:
        """A worker has told of a request that is slow, or of its end."""
        found = message["request"]
        self._slow[child.pid, found["number"]] = found
        while len(self._slow) > MAX_SLOW:
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
        self.statuses.on_second(lambda: map(self.process_of, self._children.having(State.READY)))

    def began_before(self, seconds: float) -> None:
        """Note that code of before has run for so long."""
        self.statuses.began_at -= seconds

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
        command = show_command(state["words"], state["when"])
        return {**shown, "command": command, **self.statuses.describe_footprint(state["pid"])}
