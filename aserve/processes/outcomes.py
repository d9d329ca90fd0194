"""The consequences of a child's end, as fleet.py has decided: the pause before the next try, log lines, counts, and answers to callers.

Owns:     Outcomes: an answer to each verdict on an end; the app's traceback in the log, once.
Thread:   the supervisor's only one.
Not here: the verdict (fleet.py), reaping (ends.py), how long a pause is (backoff.py), the end of a reload (reloads.py).
"""

from __future__ import annotations

import logging

from ..core.errors import DONE
from ..core.tally import START_FAILURES, Tally
from .answers import Answers
from .children.child import MOLD, State
from .children.children import Children
from .crew import Crew
from .fleet.facts import End
from .fleet.fleet import Action, Do, Fleet
from .monitoring.status import Status
from .reloads import Reloads
from .shutdown import Shutdown, StartFailed

logger = logging.getLogger("aserve")


class Outcomes:
    """The consequences, by verdict."""

    def __init__(
        self,
        fleet: Fleet,
        children: Children,
        crew: Crew,
        reloads: Reloads,
        shutdown: Shutdown,
        answers: Answers,
        status: Status,
        tally: Tally,
    ) -> None:
        self._fleet = fleet
        self._children = children
        self._crew = crew
        self._reloads = reloads
        self._shutdown = shutdown
        self._answers = answers
        self._status = status
        self._tally = tally
        self._told_traceback = ""
        self.by_do = {
            Do.NOTE: self._note,
            Do.RESTART: self._restart,
            Do.MISS: self._miss,
            Do.GIVE_UP: self._give_up,
            Do.SHOW: self._show,
            Do.IGNORE: self._ignore,
            Do.ABANDON: self._abandon,
            Do.RETRY: self._retry,
        }

    def _note(self, action: Action) -> None:
        end: End = action.end
        if end.stood is not State.DRAINING or end.slot == MOLD or not end.child.ready_at:
            return  # it had nothing to finish
        logger.info("%s has ended: it %s%s", end.name, end.why, end.child.describe_losses())
        if self._fleet.is_ending and end.why != DONE:
            self._shutdown.note_unfinished()

    def _restart(self, action: Action) -> None:
        """Start another after a pause: a child that served has ended by itself."""
        end: End = action.end
        child, served = end.child, end.child.served_seconds
        if end.slot == MOLD:
            text = "%s has ended after %.0f s: it %s; another is made in %g s, and workers go on"
            logger.warning(text, end.name, served, end.why, self._crew.pause_after(child))
            return
        why = f"it {end.why}{f' ({child.failure})' if child.failure else ''}"
        self._status.on_crash(child, f"it {end.why}")
        if self._fleet.is_ending:
            self._shutdown.note_unfinished()
        elif end.slot in self._fleet.slots:
            self._tally.count_restart(end.slot, "crash")
            why += f"; another is started in {self._crew.pause_after(child):g} s"
            self._crew.note_absence(end, f"it {end.why}")
        logger.error("%s has crashed after %.0f s: %s%s", end.name, served, why, child.describe_losses())

    # Those that could not start

    def _miss(self, action: Action) -> None:
        self._shutdown.miss(action.end)

    def _give_up(self, action: Action) -> None:
        end: End = action.end
        self._shutdown.give_up(StartFailed(f"{end.name} could not start: {end.why}", end.traceback))

    def _show(self, action: Action) -> None:
        """Start at once a worker that shows the fault."""
        end: End = action.end
        self._tell(end)
        self._crew.forget_failures(end.slot)
        logger.error("%s could not start: %s; correct it, and save it", end.name, end.why)

    def _ignore(self, action: Action) -> None:
        end: End = action.end
        self._tell(end)
        logger.error("%s could not start: %s; a reload has begun since", end.name, end.why)
        self._tell_missing(end)

    def _abandon(self, action: Action) -> None:
        end: End = action.end
        self._tell(end)
        self._crew.pause(end.slot)
        self._reloads.abandon(action)
        self._tell_missing(end)

    def _retry(self, action: Action) -> None:
        end: End = action.end
        self._tell(end)
        seconds = self._crew.pause(end.slot)
        logger.error("%s could not start: %s; the next try is in %.1f s", end.name, end.why, seconds)
        self._answers.on_failed_start(end, [each for each in action.asked if each.slot])
        if action.reload is not None:
            self._reloads.tell_half_done(action)
        self._tell_missing(end)

    def _tell(self, end: End) -> None:
        """Count it, and have workers of other code show why, with --reload; log the app's traceback, once and not with every try."""
        if end.plan.config.reload:
            for child in self._children.having(State.READY):
                if child.plan is not end.plan:  # else it can
                    self._children.tell(child, {"do": "show fault", "why": end.why, "traceback": end.traceback})
        self._tally.count(START_FAILURES)
        if end.traceback and end.traceback != self._told_traceback:
            self._told_traceback = end.traceback
            logger.error("%s: the app's traceback:\n%s", end.name, end.traceback.rstrip())

    def _tell_missing(self, end: End) -> None:
        if self._crew.note_absence(end, end.why):
            logger.error("%s; correct it; SIGHUP tries again at once", self._status.describe_serving())
