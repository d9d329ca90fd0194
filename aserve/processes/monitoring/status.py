"""The state of a supervisor and its workers, for `aserve status` and the status page.

Owns:     Status: the facts about each process; missing workers, crashes of the last minutes, the reasons of a half-done reload.
Thread:   the supervisor's only one.
Not here: the content of a status, of a single process or many (lifecycle/status.py), the callers (answers.py, overview.py).

No worker is asked: the page, the table of running requests and /proc have all facts, also when the worker hangs.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Sequence
from typing import Any, Callable

from ...connections.in_flight import read_in_flight, read_oldest, read_used
from ...connections.listen_queue import describe_listening
from ...connections.listeners import Listener
from ...core.page import Process
from ...lifecycle.program import show_command
from ...lifecycle.status import Statuses, Whole
from ...settings import with_reach
from ...settings.secrecy import show_app
from ..children.child import MOLD, Child, State, name_of, workers
from ..children.children import Children
from ..fleet.absences import Absences
from ..fleet.fleet import Fleet
from ..programs.attached import Attached

# How long a crash is shown. Guess.
CRASH_SECONDS = 600
MAX_CRASHES = 100
# The keys shown of an attached program.
SHOWN = ("name", "pid", "state", "seconds", "restarts", "last_end", "when", "pause_seconds")


class Status:
    """The present state."""

    def __init__(
        self, children: Children, fleet: Fleet, attached: Attached | None = None, listeners: Sequence[Listener] = ()
    ) -> None:
        """`listeners`: of the workers."""
        self.statuses = Statuses(lambda: fleet.plan.config, self._look)
        self.absences = Absences()
        self._listeners = listeners
        self._children = children
        self.fleet = fleet
        self._attached = attached
        self.facts: Callable[[], dict[str, Any]] = dict  # of extensions, by name
        self.slow_starts: Callable[[], list[str]] = list
        self.warnings: list[tuple[str, str]] = []  # of options, for systemd's line; of this minute: facts may cost much
        self._crashes: collections.deque[tuple[float, int, str]] = collections.deque(maxlen=MAX_CRASHES)

    def describe(self) -> dict[str, Any]:
        """Return the status, with "workers" by slot."""
        return self.statuses.describe()

    @property
    def line(self) -> str:
        """The state in a line."""
        half_done = "; a reload is half done" if self.half_done else ""
        missing = self._attached.describe_missing() if self._attached is not None else ""
        return self.describe_serving() + half_done + missing

    def describe_serving(self) -> str:
        """Return the addresses, with the number of workers; or how many are missing."""
        if self.fleet.is_ending:
            texts = [self._describe_end()]
            for child in self._children.having(State.READY, State.DRAINING):
                count = len(self._requests_of(child))
                texts += [f"{name_of(child.slot)} has {_requests(count)}"] if count else []
            return "; ".join(texts)
        if not self.fleet.has_served:
            return "; ".join(["starting", *map(describe_start, self._children.having(State.STARTING))])
        if self.absences:
            return f"degraded: {self.absences.describe(self.fleet.size)}"
        places = ", ".join(with_reach((listener.url, listener.address) for listener in self._listeners))
        return f"serving on {places} with {workers(self.fleet.size)}"

    def _describe_end(self) -> str:
        """Return why all drains, and for how long at most."""
        fleet, config = self.fleet, self.fleet.plan.config
        if not fleet.stop_why or fleet.is_at_once:
            return "ending"
        left = fleet.stopped_at + config.drain_delay_seconds + config.drain_seconds - self._children.clock()
        return f"draining since {fleet.stop_why}, at most {max(left, 0.0):.0f} s"

    def describe_with_warnings(self) -> dict[str, Any]:
        """Return the status, with the warnings of the status page."""
        return self.statuses.describe_with_warnings()

    def _look(self) -> tuple[Whole, list[Process]]:
        """Return the state of the whole, and all processes by slot, also processes without clients."""
        states, now = [child.state for child in self._children if child.is_worker], time.monotonic()
        refused = self.fleet.refusal
        refusal = {"seconds": round(now - refused[0], 1), "why": refused[1]} if refused else None
        crashes = [
            {"seconds": round(now - at, 1), "worker": slot, "how": how}
            for at, slot, how in self._crashes
            if now - at < CRASH_SECONDS
        ]
        slow = self.slow_starts()
        whole = Whole(
            self.line, self.listening, self.facts(), self.fleet.size,
            states.count(State.READY), crashes, reload={"half_done": self.half_done, "refused": refusal},
            beside={"attached": [self._describe_attached(each) for each in self.attached], **({"slow_starts": slow} if slow else {})},
        )  # fmt: skip
        children = sorted(self._children, key=lambda child: (child.slot, child.generation))
        return whole, [self.process_of(child) for child in children]

    def process_of(self, child: Child) -> Process:
        """Return the facts about a child, without a question to the child."""
        is_mold = child.slot == MOLD
        return Process(
            slot=0 if is_mold else child.slot, pid=child.pid, generation=child.generation,
            state="mold" if is_mold else child.state.name.lower(), began_at=child.began_at, page=child.page,
            shows_queries=child.plan.config.show_queries, requests=lambda: self._requests_of(child),
            oldest_seconds=lambda: read_oldest(child.in_flight), still_seconds=child.still_seconds,
        )  # fmt: skip

    def on_crash(self, child: Child, how: str) -> None:
        """A serving worker has ended without an order: "it was killed by SIGSEGV"."""
        self._crashes.append((time.monotonic(), child.slot, how))

    def measure_growth(self) -> None:
        """Measure the memory of serving workers, every SAMPLE_SECONDS."""
        self.statuses.growths.look(map(self.process_of, self._children.having(State.READY)))

    def began_before(self, seconds: float) -> None:
        """Add the running time of the previous code."""
        self.statuses.began_at -= seconds

    @property
    def listening(self) -> list[dict[str, Any]]:
        """How many clients wait in the kernel."""
        return describe_listening(self._listeners)

    @property
    def half_done(self) -> str:
        """Why a reload may never end, and the progress; "": no reload is half done."""
        failed = self.fleet.reload.failed.values() if self.fleet.reload is not None else ()
        return "; ".join([*failed, self.describe_progress(), "it is tried again"]) if failed else ""

    def describe_progress(self) -> str:
        """Return the progress of a reload."""
        new = sum(child.plan is self.fleet.plan for child in self._children.having(State.READY))
        return f"{new} of {self.fleet.size} workers {'has' if new == 1 else 'have'} the new code"

    def describe_drains(self) -> str:
        """Return how many old workers still drain after a reload, for the end of a line; "": none."""
        at = [len(found) for child in self._children.having(State.DRAINING) if (found := self._requests_of(child))]
        if not at:
            return ""
        workers = "1 old worker still drains" if len(at) == 1 else f"{len(at)} old workers still drain"
        return f"; {workers}, with {_requests(sum(at))} (--drain-timeout {self.fleet.plan.config.drain_seconds:g})"

    def _requests_of(self, child: Child) -> list[tuple[float, str]]:
        return read_in_flight(read_used(child.in_flight)) if child.is_worker else []

    @property
    def attached(self) -> list[dict[str, Any]]:
        """The state of each attached program."""
        return self._attached.describe() if self._attached is not None else []

    def _describe_attached(self, state: dict[str, Any]) -> dict[str, Any]:
        shown = {name: state[name] for name in SHOWN}
        command = show_command(state["words"], state["when"])
        return {**shown, "command": command, **self.statuses.describe_footprint(state["pid"])}


def describe_start(child: Child) -> str:
    """Return the work of a starting worker: "worker 1 imports shop:app, for 11 s"."""
    what = show_app(child.plan.spec or "the app")
    return f"{name_of(child.slot)} imports {what}, for {time.monotonic() - child.began_at:.0f} s"


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"
