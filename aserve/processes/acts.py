"""What the supervisor does: a method for each Do of the fleet.

Owns:     Acts: what is done, logged, counted and answered when fleet/decide.py says that it is due; the app's traceback in the log, once.
Thread:   the supervisor's only one.
Not here: what is due (fleet/decide.py), what an action changes in the facts (fleet/fleet.py), reaping (ends.py), how long a pause is (fleet/backoff.py);
          the start of a worker or a mold, Do.START (supervisor.py).
"""

from __future__ import annotations

import logging
import time
from typing import Callable

from ..core.errors import DONE
from ..core.tally import RELOADS, START_FAILURES
from ..lifecycle.manager import Manager
from .children.child import MOLD, Child, State, workers
from .crew import Crew
from .fleet.facts import End, Reload
from .fleet.fleet import Action, Do, Fleet
from .monitoring.questions import answer_all
from .present import Present
from .reloads import Reloads
from .shutdown import Shutdown, StartFailed
from .upgrade.upgrade import Upgrade

logger = logging.getLogger("aserve")


class Acts:
    """The supervisor's acts, by what is due."""

    def __init__(
        self,
        fleet: Fleet,
        present: Present,
        crew: Crew,
        reloads: Reloads,
        shutdown: Shutdown,
        upgrade: Upgrade,
        manager: Manager,
    ) -> None:
        self._fleet = fleet
        self._children = present.children
        self._status = present.status
        self._tally = present.tally
        self._attached = present.attached
        self._crew = crew
        self._reloads = reloads
        self._shutdown = shutdown
        self._upgrade = upgrade
        self._manager = manager
        self._told_traceback = ""
        self.by_do: dict[Do, Callable[[Action], None]] = {
            do: getattr(self, f"_{do.name.lower()}") for do in Do if do is not Do.START
        }

    # Processes

    def _drain(self, action: Action) -> None:
        """Let a child finish its requests, and end."""
        child: Child = action.worker
        is_last = self._fleet.is_ending and child.is_worker
        if child.is_worker and child.state is State.READY and not is_last:
            if child.slot in self._fleet.slots:
                self._tally.count_restart(child.slot)
            logger.info("%s drains: %s", child, action.why)
        self._children.drain(child, is_replaced=not is_last)

    def _kill(self, action: Action) -> None:
        """End a child at once; if there is a fault, it writes its stacks first."""
        if action.why:
            self._children.end_with_stacks(action.worker, action.why)
        else:
            self._children.kill(action.worker)

    def _overdue(self, action: Action) -> None:
        self._children.end_overdue(action.worker)

    def _avoid(self, action: Action) -> None:
        text = "%s: %s: workers import the app by themselves, until it forks, or there is another"
        logger.warning(text, action.worker, action.why)

    # The end of it all, and new code of our own

    def _stop_waiting(self, action: Action) -> None:
        self._shutdown.stop_waiting(action.why)

    def _try(self, action: Action) -> None:
        self._upgrade.begin_trial(action.why, action.plan)

    def _become(self, action: Action) -> None:
        self._upgrade.become()

    # A reload

    def _begin(self, action: Action) -> None:
        self._reloads.begin(action.why)

    def _prove(self, action: Action) -> None:
        """Make the new plan the proven one, as the new code serves: from now on every worker is started for it."""
        config, before = action.worker.plan.config, action.plan.config
        if config.log_config is None:
            logger.setLevel(config.log_level.upper())
        if config.touch_reload != before.touch_reload:
            self._reloads.touched.follow(config.touch_reload)
        if config.workers != before.workers:
            self._crew.change_plan(action.worker)

    def _finish(self, action: Action) -> None:
        """Report that every slot has its successor, and that no old worker accepts any more; start programs beside the workers anew."""
        reload: Reload = action.reload
        self._tally.count(RELOADS, 'result="done"')
        seconds = time.monotonic() - reload.began_at
        text = f"done in {seconds:.1f} s: code and settings of {workers(self._fleet.size)} are new{self._status.describe_drains()}"
        logger.info("%s: %s", reload.why, text)
        answer_all(action.asked, text, is_done=True)
        self._attached.renew(self._fleet.plan.config)
        self._upgrade.strangers.dismiss()  # all workers are new now

    def _answer(self, action: Action) -> None:
        """A worker's successor serves, or will not come."""
        new, slot = action.worker, action.asked[0].slot
        if self._fleet.is_ending:
            answer_all(action.asked, "the server is ending", is_done=False)
        elif new is None:
            text = f"worker {slot} gets no successor any more: see `aserve status`, and the log"
            answer_all(action.asked, text, is_done=False)
        else:
            text = f"worker {slot} is replaced: pid {new.pid} serves, ready after {new.ready_at - new.began_at:.1f} s"
            answer_all(action.asked, text + self._status.describe_drains(), is_done=True)

    # The end of a child

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
        """Report that a worker that clients wait for, or its mold, could not start."""
        end: End = action.end
        logger.error("%s could not start: %s; clients that waited for it were not served", end.name, end.why)
        self._shutdown.note_unfinished()

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
        """Report that the new code does not start: all is as before."""
        end: End = action.end
        self._tell(end)
        self._crew.pause(end.slot)
        reload: Reload = action.reload
        self._manager.note_unchanged(reload.why)
        self._tally.count(RELOADS, 'result="refused"')
        fault = f"{end.name} could not start: {end.why}"
        text = f"nothing was reloaded: {fault}"
        remedy = "and save it" if reload.plan.config.reload else "and send SIGHUP"
        serving = len(self._children.having(State.READY))
        logger.error(
            "%s: %s; correct it, %s; still serving as before: %d of %s",
            reload.why, text, remedy, serving, workers(self._fleet.size),
        )  # fmt: skip
        self._fleet.on_abandoned(time.monotonic(), fault)
        answer_all(action.asked, text, is_done=False)
        self._tell_missing(end)

    def _retry(self, action: Action) -> None:
        end: End = action.end
        self._tell(end)
        seconds = self._crew.pause(end.slot)
        logger.error("%s could not start: %s; the next try is in %.1f s", end.name, end.why, seconds)
        serves_on = "; the one of before serves on" if end.slot in self._fleet.newest else ""
        text = (
            f"worker {end.slot} is not replaced: {end.name} could not start: {end.why}{serves_on}, and another is tried"
        )
        answer_all([each for each in action.asked if each.slot], text, is_done=False)
        if action.reload is not None:  # half done until a retry succeeds: the code serves already
            logger.warning("%s: half done: %s", action.reload.why, self._status.describe_progress())
            answer_all([each for each in action.asked if each.reload], self._status.half_done, is_done=False)
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
