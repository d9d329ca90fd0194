"""The ends of children: each is reaped, and what is done about it depends on where the child stood.

Owns:     Ends: reaping, what the log says of an end, and the next worker of its slot.
Thread:   the supervisor's only one.
Not here: waitpid (children.py), what is lost with a worker (losses.py), the end of a mold (molds.py) and of a trial (upgrade.py),
          one that never served (failed_starts.py).
"""

from __future__ import annotations

import logging
from typing import Callable

from ..core.errors import DONE
from ..core.tally import OOM_KILLS
from .attached import Attached
from .child import MOLD, TRIAL, Child, State
from .children import Children
from .crew import Crew
from .failed_starts import FailedStarts
from .losses import Losses
from .molds import Molds
from .overview import Overview
from .reloads import Reloads
from .shutdown import Shutdown
from .status import Status
from .upgrade import Upgrade
from .watch import Watch

logger = logging.getLogger("aserve")


class Ends:
    """What becomes of those who have ended, and of their slots."""

    def __init__(
        self,
        children: Children,
        crew: Crew,
        reloads: Reloads,
        failed_starts: FailedStarts,
        *,
        attached: Attached,
        losses: Losses,
        molds: Molds,
        shutdown: Shutdown,
        upgrade: Upgrade,
        overview: Overview,
        status: Status,
        watch: Watch,
    ) -> None:
        self._children = children
        self._crew = crew
        self._reloads = reloads
        self._attached = attached
        self._losses = losses
        self._molds = molds
        self._shutdown = shutdown
        self._upgrade = upgrade
        self._overview = overview
        self._tally = overview.tally
        self._status = status
        self._watch = watch
        # By where a worker stood.
        self._by_state: dict[State, Callable[[Child, str], None]] = {
            State.STARTING: failed_starts.on_end,
            State.READY: self._on_crash,
            State.DRAINING: self._on_drained,
            State.KILLED: self._on_killed,
        }

    def reap(self) -> None:
        """See to all children that have ended by now."""
        for child, before, how in self._children.reap(self._attached.on_end):
            explained = how if before is State.KILLED else self._watch.explain(how)
            if explained != how:
                self._tally.count(OOM_KILLS)
            self._overview.on_end(child)
            if child.slot == TRIAL:
                self._upgrade.on_end(child, how)
            elif child.slot == MOLD:
                self._molds.on_end(child, before, explained)
            else:
                self._losses.on_end(child, before, is_oom=explained != how)
                self._by_state[before](child, explained)
            self._reloads.finish()

    def _on_crash(self, child: Child, how: str) -> None:
        """A worker that served has ended by itself."""
        why = f"it {how}{f' ({child.failure})' if child.failure else ''}"
        self._status.on_crash(child, f"it {how}")
        if self._shutdown.has_begun:
            self._shutdown.note_unfinished()
        elif child.slot <= self._crew.size:
            self._tally.count_restart(child.slot, "crash")
            seconds = self._crew.pause_after(child)
            why += f"; another is started in {seconds:g} s"
            if not self._children.find(child.slot, State.READY):
                self._crew.absences.begin(child.slot, f"it {how}")
        logger.error("%s has crashed after %.0f s: %s%s", child, child.served_seconds, why, child.describe_losses())

    def _on_drained(self, child: Child, how: str) -> None:
        if not child.ready_at:
            return  # it had nothing to finish
        logger.info("%s has ended: it %s%s", child, how, child.describe_losses())
        if self._shutdown.has_begun and how != DONE:
            self._shutdown.note_unfinished()

    def _on_killed(self, child: Child, how: str) -> None:
        """The supervisor has ended it: if for a fault, that counts where it stood; else it was told to."""
        if child.failure and child.killed_in is not None:
            self._by_state[child.killed_in](child, how)
