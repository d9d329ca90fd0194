"""The ends of children: each is reaped, and becomes a fact, by which fleet/decide.py decides.

Owns:     Ends: reaping, and why a child has ended.
Thread:   the supervisor's only one.
Not here: waitpid (children.py), lost requests (losses.py), those on their way to a worker that ends (transfers.py), the end of a trial (upgrade.py), the consequences (acts.py).
"""

from __future__ import annotations

import signal

from ..core.tally import OOM_KILLS
from ..lifecycle.preconditions import describe_lack
from .children.child import MOLD, TRIAL, Child, State, name_of
from .children.children import Children
from .children.losses import Losses
from .fleet.facts import End
from .fleet.fleet import Fleet
from .fleet.plan import Plan
from .monitoring.overview import Overview
from .monitoring.watch import Watch
from .programs.attached import Attached
from .transfers.transfers import Moves
from .upgrade.upgrade import Upgrade


class Ends:
    """Reaps all children."""

    def __init__(
        self,
        fleet: Fleet,
        children: Children,
        attached: Attached,
        losses: Losses,
        upgrade: Upgrade,
        overview: Overview,
        watch: Watch,
        moves: Moves,
    ) -> None:
        self._fleet = fleet
        self._children = children
        self._attached = attached
        self._losses = losses
        self._upgrade = upgrade
        self._overview = overview
        self._watch = watch
        self._moves = moves
        self.by_signal = {signal.SIGCHLD: lambda number: self.reap()}

    def reap(self) -> None:
        """Handle all children that have ended by now."""
        for child, before, how in self._children.reap(self._attached.on_end):
            explained = how if before is State.KILLED else self._watch.explain(how)
            if explained != how:
                self._overview.tally.count(OOM_KILLS)
            self._overview.on_end(child)
            if child.slot == TRIAL:
                self._upgrade.on_end(child, how)
                continue
            if child.slot != MOLD:
                self._moves.on_end(child)
                self._losses.on_end(child, before, is_oom=explained != how)
            self._fleet.on_end(self._describe(child, before, explained))

    def on_no_fork(self, slot: int, plan: Plan, exc: OSError) -> None:
        """Note that a child could not be forked, which is an end without a beginning."""
        why = f"it could not be forked: {describe_lack(exc) or exc.strerror or exc}"
        self._fleet.on_end(End(slot, plan, State.STARTING, name_of(slot), why))

    def _describe(self, child: Child, before: State, how: str) -> End:
        """Return the facts of an end. If the supervisor has killed the child for a fault, its state at that time counts."""
        stood = child.killed_in if before is State.KILLED and child.failure and child.killed_in is not None else before
        why = how
        if stood is State.STARTING:
            why = child.failure or f"it {how} before it was ready, without a word"
        elif stood is State.READY and self._fleet.is_unproven(child.plan):
            why = child.failure or f"it {how} before a worker served, without a word"
        return End(child.slot, child.plan, stood, str(child), why, child.app_traceback, child)
