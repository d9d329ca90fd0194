"""What follows when a worker or a mold could not start.

Owns:     FailedStarts: giving up, undoing a reload, or trying again after a pause; the app's traceback in the log, once.
Thread:   the supervisor's only one.
Not here: the end of a child that served (ends.py), how long a pause is (backoff.py), what a reload that is undone leaves (reloads.py).

| who could not start                          | what follows                                                         |
|---|---|
| the first of all                             | the command ends: there is nothing to serve                          |
| the same, with --reload                      | a worker that shows why, until the app is mended                     |
| the first successor of a reload, or its mold | the reload is undone, and those of before serve on                   |
| one that begins though all is to end         | clients that waited are lost, which the exit status says             |
| one that was begun before a reload           | nothing: the reload has its slot begin anew                          |
| any other                                    | another try after a pause, which grows; who is missing is in the log |
| the same, for a reload                       | and who waits for its end is told how far it has come                |
"""

from __future__ import annotations

import logging

from ..core.errors import Fault
from ..core.tally import START_FAILURES, Tally
from .answers import Answers
from .child import Child, State
from .children import Children
from .crew import Crew
from .plan import Plan
from .reloads import Reloads
from .rollout import Rollout
from .shutdown import Shutdown, StartFailed

logger = logging.getLogger("aserve")


class FailedStarts:
    """The supervisor's answer to them."""

    def __init__(
        self,
        children: Children,
        crew: Crew,
        rollout: Rollout,
        reloads: Reloads,
        shutdown: Shutdown,
        tally: Tally,
        answers: Answers,
    ) -> None:
        self._children = children
        self._crew = crew
        self._rollout = rollout
        self._reloads = reloads
        self._shutdown = shutdown
        self._tally = tally
        self._answers = answers
        self._told_traceback = ""

    def on_end(self, child: Child, how: str) -> None:
        """A worker has ended before it served."""
        why = child.failure or f"it {how} before it was ready, without a word"
        self.note(child.slot, child.plan, str(child), why, child.app_traceback)

    def note(self, slot: int, plan: Plan, who: str, why: str, app_traceback: str = "") -> None:
        """Do what follows; `who` could not start in this slot, for this plan."""
        if self._shutdown.has_begun:
            self._shutdown.on_failed_start(slot, who, why)
            return
        is_shown = self._reloads.show_fault(Fault(why, app_traceback), plan) if plan.config.reload else False
        if not self._crew.has_served and not is_shown:
            self._shutdown.give_up(StartFailed(f"{who} could not start: {why}", app_traceback))
            return
        self._tally.count(START_FAILURES)
        if app_traceback and app_traceback != self._told_traceback:
            self._told_traceback = app_traceback  # once, and not with every try
            logger.error("%s: the app's traceback:\n%s", who, app_traceback.rstrip())
        self._rollout.fail(slot)
        if is_shown and not self._rollout.is_unproven(plan):
            self._crew.forget_failures(slot)  # who shows it begins at once
            logger.error("%s could not start: %s; correct it, and save it", who, why)
            return
        if plan is not self._rollout.next:
            logger.error("%s could not start: %s; a reload has begun since", who, why)
        elif self._rollout.is_unproven(plan):
            self._crew.pause(slot)
            self._reloads.abandon(who, why)
        else:
            logger.error("%s could not start: %s; the next try is in %.1f s", who, why, self._crew.pause(slot))
            self._answers.on_failed_start(slot, who, why)
            self._reloads.tell_half_done(slot, who, why)
        if slot <= self._crew.size and not self._children.find(slot, State.READY):
            self._crew.absences.begin(slot, why)
            logger.error("%s; correct it; SIGHUP tries again at once", self._crew.describe())
