"""The supervisor: keeps workers serving, until a signal ends all.

Owns:     the loop of four steps: wait for an event, apply the event to the facts, decide, act; the start of a worker or a mold, and the child's role.
Thread:   the main thread alone, and no event loop: the supervisor may fork at any time, and never imports the app. `fork` returns in the child, too.
Not here: the facts (fleet/fleet.py), the decisions (fleet/decide.py), waiting (children/poller.py), events (events.py), acts (acts.py), all objects (parts.py),
          the fork itself (children/children.py), the work of a role (worker/worker.py, worker/mold.py).

After each event the loop asks `decide` (fleet/decide.py) for actions, and does each action by the table `by_do`, until no action is due (`_settle`).
A worker begins at the top of the loop only: so a child returns from `run`, and runs no code of the supervisor.
"""

from __future__ import annotations

import errno
import logging
import os

from .._cparsers import lib
from ..core.errors import Fault
from ..core.guard import guard
from ..settings import MAX_WORKERS
from .acts import Acts
from .children.channel import Channel
from .children.child import MOLD, Child
from .children.poller import Clock
from .children.role import Role
from .children.signal_pipe import block_signals
from .events import Events
from .fleet.decide import decide
from .fleet.fleet import Action, Do, Fleet
from .parts import Parts
from .site import Site
from .upgrade.inheritance import Inheritance

logger = logging.getLogger("aserve")

# Of actions after one event. The end of each process takes a round, and a few rounds follow: with more, an action has changed no fact.
MAX_ROUNDS = 1000 + 2 * MAX_WORKERS


class Supervisor:
    """Keeps workers serving."""

    def __init__(self, site: Site, clock: Clock | None = None) -> None:
        self._site = site
        self._clock = clock or Clock()
        self._decided_at = 0.0  # actions due by then were done
        self.fleet = Fleet(site.plan, site.plan.workers[0])

    def run(self, inherited: Inheritance | None = None) -> int | Role:
        """
        Supervise until a signal ends all, from the start or with the inheritance of the previous code; return the exit status.

        `run` returns more than once, as fork() does: in each child with the child's Role. Descriptors of the supervisor are closed there.

        Raises:
            StartFailed: the first worker could not start.
        """
        self.open(inherited)
        fleet, children, attached = self.fleet, self.parts.children, self.parts.attached
        while children or attached or fleet.is_wanted or not fleet.is_ending:
            guard(attached.start_due)
            for _ in range(2):  # if a fork fails, a reload may end, and more may be due
                for start in self._settle():
                    forked = self.fork(start)
                    if isinstance(forked, Role):
                        return forked
                    if not forked:
                        break
            self._wait()
        return self.acts.end()

    def open(self, inherited: Inheritance | None = None) -> None:
        """Make all objects, and go on with the inheritance."""
        self.parts = Parts(self._site, self.fleet, self._clock, inherited)
        self.acts = Acts(self.parts)
        self.events = Events(self.parts, inherited)
        self.events.on_second()

    def _wait(self) -> None:
        """Wait for the next event, or the time of the next action, and handle the event."""
        fleet, manager = self.fleet, self.parts.manager
        for handle in self.parts.poller.wait(fleet.next_at(self._decided_at)):
            guard(handle)
            self._settle()
        if manager.is_heard and fleet.has_served and not fleet.is_moving and not fleet.is_upgrading:
            manager.tell_ready(self.parts.status.line, self.parts.status.warnings)

    def _settle(self) -> list[Action]:
        """Do all actions but starts, until only starts are due: return the starts; an empty list after a bug of ours, as the bug may come again."""
        starts: list[Action] = []
        guard(self._settle_into, starts)
        return starts

    def _settle_into(self, starts: list[Action]) -> None:
        for _ in range(MAX_ROUNDS):
            self._decided_at = self._clock()
            actions = decide(self.fleet, self._decided_at)
            others = [action for action in actions if action.do is not Do.START]
            if not others:
                starts += actions
                return
            failed = [action for action in others if not guard(self._act, action)]
            if failed:
                return
        raise RuntimeError(
            f"after {MAX_ROUNDS} rounds something is due still: {', '.join(each.do.name for each in others)}"
        )

    def _act(self, action: Action) -> None:
        self.fleet.apply(action)
        self.acts.by_do[action.do](action)

    # The start of a worker or a mold

    def fork(self, start: Action) -> Role | bool:
        """Start a child, here or by a mold; return whether the fork went well, and in a child of ours the role."""
        slot, plan, fleet, parts = start.slot, start.plan, self.fleet, self.parts
        given = {name: value for share in parts.overview.shares for name, value in share().items()}
        with block_signals():
            try:
                child, channel = self._fork(start)
            except OSError as exc:
                self.events.on_no_fork(slot, plan, exc)
                return False
            fleet.apply(start)
            if channel is None:
                return True
            parts.let_go()
            shared = parts.children.memory_of(child)
            is_new = fleet.is_unproven(plan) or not fleet.has_served
            return Role(
                slot, child.generation, plan, channel, self._site.listeners, *shared, os.getppid(), given, self.fault_for(slot), is_new,
                child.page_number,
            )  # fmt: skip

    def _fork(self, start: Action) -> tuple[Child, Channel | None]:
        """Fork a child, by a mold or here; return the child, and in the child itself, after a fork here, the channel."""
        if start.worker is not None:
            return self.parts.children.have_forked(start.slot, start.plan, start.worker), None
        if start.slot == MOLD and lib.subreaper_begin() != 0:
            text = "a mold's workers cannot become the supervisor's on this system; leave out --preload"
            raise OSError(errno.ENOSYS, text)
        return self.parts.children.fork(start.slot, start.plan)

    def fault_for(self, slot: int) -> Fault | None:
        """Return why the app cannot start, for a worker that is to show the fault; not beside a worker that serves."""
        fault = self.fleet.fault
        return Fault(fault.why, fault.traceback) if fault is not None and slot not in self.fleet.newest else None
