"""Checking serving workers, once a second: for recycling, and for hung event loops.

Owns:     Watch: the state of each worker between two looks; the log lines about a hung loop, with the stacks; how many processes the kernel
          has killed for lack of memory.
Thread:   the supervisor's only one.
Not here: the rules (recycling.py, liveness.py), replacing a worker (fleet/decide.py).

No worker is asked: the page, and small files of /proc, have all facts. So a look costs a worker nothing, and a hung worker cannot hide.
"""

from __future__ import annotations

import collections
import logging
import os

from ...core.footprint import Memory, activity_of, memory_of
from ...core.page import Field
from ...lifecycle.loading import SLOW_START_SECONDS
from ...settings import EngineSettings
from ..children.child import STACKS_SIGNAL, Child, State
from ..children.children import Children
from ..children.liveness import Pulse, Verdict
from ..fleet.cgroups import Cgroups
from ..fleet.recycling import Due, Recycling, WorkerFacts
from .status import describe_start

logger = logging.getLogger("aserve")


class WatchedWorker:
    """A serving worker, since the first look."""

    def __init__(self, config: EngineSettings, recycling: Recycling) -> None:
        self.lifespan = recycling.new_lifespan()
        self.pulse = Pulse(config.hang_warning_seconds, config.hang_timeout_seconds)


class Watch:
    """The observations of all serving workers."""

    def __init__(self, children: Children, cgroups: Cgroups | None = None) -> None:
        self._children = children
        self._cgroups = cgroups or Cgroups()
        self._recycling: Recycling | None = None
        self._config: EngineSettings | None = None
        self._watched: dict[Child, WatchedWorker] = {}
        self._looks = 0
        # Starting children: the first look, by the clock of the poller, without the time of a stop; the seconds until the next line.
        self._starting: dict[Child, tuple[float, float]] = {}
        # At this look, and at the previous look. A worker killed just before a look is reaped after the look.
        self._oom_kills = collections.deque([self._cgroups.oom_kill_count()], 2)

    def look(self, config: EngineSettings, now: float) -> list[Due]:
        """Return the workers to replace, and why; `now`: by the supervisor's clock."""
        if self._recycling is None or config is not self._config:
            self._recycling, self._config = Recycling(config), config
        recycling = self._recycling
        self._looks += 1
        self._oom_kills.append(self._cgroups.oom_kill_count())
        serving = self._children.having(State.READY)
        self._watched = {child: self._watched.get(child) or WatchedWorker(config, recycling) for child in serving}
        hung = [Due(child.slot, why, "hung") for child in serving if (why := self._find_hung(child, now))]
        due = None
        if recycling.has_limits:
            due = recycling.due(self._describe(child, recycling, serving) for child in serving)
        return [*hung, due] if due else hung

    def look_at_starts(self, now: float) -> list[str]:
        """Log with all stacks each start of 10 s, 20 s, 40 s and so on; return a text about each."""
        found = [child for child in self._children if child.state is State.STARTING and child.pid]
        if not found and not self._starting:
            return []
        self._starting = {child: self._starting.get(child, (now, SLOW_START_SECONDS)) for child in found}
        due = [child for child, (since, seconds) in self._starting.items() if now - since >= seconds]
        for child in due:
            since, seconds = self._starting[child]
            self._starting[child] = since, 2 * seconds
            limit = child.plan.config.start_seconds
            next_ = f"after {limit:g} s (--start-timeout) it is ended" if limit else "no --start-timeout ends it"
            logger.warning("%s (pid %d); %s; its stacks follow", describe_start(child), child.pid, next_)
            os.kill(child.pid, STACKS_SIGNAL)
        return [f"{describe_start(child)}: the log has its stacks" for child in due]

    def slow_starts(self) -> list[str]:
        """Return a text about each slow start."""
        return [describe_start(child) for child, (_, due) in self._starting.items() if due > SLOW_START_SECONDS]

    def has_moved(self) -> bool:
        """
        Whether a worker has made progress within the last second: the event loop has turned, and threads begin waiting requests.

        True also without a ready worker: a start, or a pause before a start, goes on, and systemd's watchdog would only begin that start anew.
        """
        serving = self._children.having(State.READY, State.DRAINING)
        return not serving or any(
            child.tick > 0 and not child.still_seconds and not child.page[Field.STALLED_SECONDS] for child in serving
        )

    def bytes_of(self, child: Child) -> int:
        """Return a worker's memory in octets; 0: not shown by this system."""
        memory = memory_of(child.pid)
        return memory.rss_bytes if memory else 0

    def explain(self, how: str) -> str:
        """Return how a worker has ended, with lack of memory as the reason, as far as the kernel shows the reason."""
        if how != "was killed by SIGKILL":
            return how
        before, count = self._oom_kills[0], self._cgroups.oom_kill_count()
        if before is None or count is None or count <= before:
            return how
        return (
            f"{how}, by the kernel as memory ran out (its count of such kills has risen to {count}): fewer --workers, or "
            "--max-rss, take less"
        )

    # A single worker

    def _find_hung(self, child: Child, now: float) -> str:
        """Check whether the event loop turns; return why the worker must be replaced, or ""."""
        watched = self._watched[child]
        tick = child.page[Field.TICK]
        finding = watched.pulse.look(tick, activity_of(child.pid) if tick == watched.pulse.tick else None, now)
        if finding.verdict is Verdict.WARN:
            limit = child.plan.config.hang_timeout_seconds
            next_ = (
                f"after {limit:g} s (--hang-timeout) it is replaced"
                if limit
                else "it is not replaced (--hang-timeout 0)"
            )
            logger.warning("%s: %s; %s; its stacks follow", child, finding.text, next_)
            os.kill(child.pid, STACKS_SIGNAL)
        elif finding.verdict is Verdict.RECOVERED:
            child.is_hung = False
            logger.warning("%s: %s", child, finding.text)
        elif finding.verdict is Verdict.REPLACE:
            child.is_hung = True
            return f"{finding.text} (--hang-timeout {child.plan.config.hang_timeout_seconds:g})"
        return ""

    def _describe(self, child: Child, recycling: Recycling, serving: list[Child]) -> WorkerFacts:
        requests = child.page[Field.REQUESTS]
        memory = self._memory_of(child, recycling, serving)
        return WorkerFacts(child.slot, self._watched[child].lifespan, requests, child.served_seconds, memory)

    def _memory_of(self, child: Child, recycling: Recycling, serving: list[Child]) -> Memory | None:
        if not recycling.needs_memory:
            return None
        if not recycling.needs_shares:
            return memory_of(child.pid)
        # In turn: the kernel walks the worker's page tables meanwhile (core/footprint.py).
        return memory_of(child.pid, with_shares=True) if child is serving[self._looks % len(serving)] else None
