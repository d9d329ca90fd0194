"""The supervisor: keeps workers serving, until it is told to end.

Owns:     the loop of four steps: wait for an event, let it change the facts, decide what is due, do it.
Thread:   one, the main thread, and no event loop: it may fork at any time. It never imports the app.
Not here: the facts, and what follows from them (fleet.py), waiting (events.py), what there is (present.py), what is done about events and
          actions, and by which nouns (reactions.py).

Each event changes facts. After each the loop asks `decide` (fleet.py) what is due, and does it, by the table `by_do`, until nothing is (`_settle`).
Only at the top of the loop a worker begins: so a child returns from `run`, and nothing of the supervisor's goes on in it.
"""

from __future__ import annotations

from ..core.guard import guard
from ..settings import MAX_WORKERS
from .clock import Clock
from .events import Events
from .fleet import Action, Do, Fleet, decide
from .inheritance import Inheritance
from .present import Present
from .reactions import Reactions
from .role import Role
from .site import Site

# Of doing what is due after one event. Each process that has ended takes one, and a few follow: with more, an action has changed no fact.
MAX_ROUNDS = 1000 + 2 * MAX_WORKERS


class Supervisor:
    """Keeps workers serving."""

    def __init__(self, site: Site, clock: Clock | None = None) -> None:
        self._site = site
        self._clock = clock or Clock()
        self._decided_at = 0.0  # what is due by then was seen to
        self.fleet = Fleet(site.plan, site.plan.workers[0])

    def run(self, inherited: Inheritance | None = None) -> int | Role:
        """
        Supervise until told to end, from the start or with what the previous code has left; return the exit status.

        It returns more than once, as fork() does: in each child with its Role. That has let go of what is the supervisor's by then.

        Raises:
            StartFailed: the first worker could not start.
        """
        self.open(inherited)
        while self._goes_on():
            guard(self.present.attached.start_due)
            for _ in range(2):  # if one cannot be forked, something else may be due, as a reload has ended with it
                for start in self._settle():
                    forked = self.reactions.starts.fork(start)
                    if isinstance(forked, Role):
                        return forked
                    if not forked:
                        break
            self._wait()
        return self.reactions.end()

    def open(self, inherited: Inheritance | None = None) -> None:
        """Make all nouns, and go on with the inheritance."""
        self._events = Events(self._clock)
        self.present = Present(self._site, self.fleet, self._events, inherited)
        self.reactions = Reactions(self._site, self.fleet, self._events, self.present, inherited)

    def _goes_on(self) -> bool:
        return bool(self.present.children or self.present.attached) or self.fleet.is_wanted or not self.fleet.is_ending

    def _wait(self) -> None:
        """Wait for the next event, or the time at which something is due, and handle it."""
        for handle in self._events.wait(self.fleet.next_at(self._decided_at)):
            guard(handle)
            self._settle()
        if self.reactions.manager.is_heard:
            self.reactions.tell_ready()

    def _settle(self) -> list[Action]:
        """Do what is due until nothing is, but what begins: return that; nothing after a bug of ours, as what is due may be so again."""
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
        self.reactions.by_do[action.do](action)
