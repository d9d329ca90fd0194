"""The acts of the supervisor: a method for each Do of the fleet.

Owns:     Acts: log lines, counts, answers and orders, for each decision of fleet/decide.py; the app's traceback in the log, once.
Thread:   the supervisor's only one.
Not here: decisions (fleet/decide.py), the change of facts by an action (fleet/fleet.py), how long a pause is (fleet/backoff.py);
          the start of a worker or a mold, Do.START (supervisor.py).
"""

from __future__ import annotations

import logging
import signal
import time
from typing import Callable

from ..core.errors import DONE, AserveError
from ..core.tally import RELOADS, START_FAILURES
from ..settings import ConfigError
from .children.child import TRIAL, Child, State, workers
from .children.children import ENDING_SECONDS
from .children.poller import has_clients
from .fleet.facts import End, Reload
from .fleet.fleet import Action, Do
from .monitoring.questions import answer_all, say_all
from .parts import Parts
from .site import describe_unexpected

logger = logging.getLogger("aserve")


class StartFailed(AserveError):
    """The first worker could not start: there is nothing to serve. `app_traceback` is the app's, or empty."""

    def __init__(self, text: str, app_traceback: str) -> None:
        super().__init__(text)
        self.app_traceback = app_traceback


class Acts:
    """The acts of the supervisor, by Do."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._fleet, self._children, self._crew = parts, parts.fleet, parts.children, parts.crew
        self._status, self._tally = parts.status, parts.tally
        self._manager, self._upgrade = parts.manager, parts.upgrade
        self._told_traceback = self._told_missing = ""
        self.start_failure: StartFailed | None = None
        self.by_do: dict[Do, Callable[[Action], None]] = {
            do: getattr(self, f"_{do.name.lower()}") for do in Do if do is not Do.START
        }

    # Processes

    def _drain(self, action: Action) -> None:
        """Let a child finish all requests, and end."""
        child: Child = action.worker
        if child.slot == TRIAL and child.state is State.STARTING:  # new code may know no order
            self._children.kill(child, signal.SIGTERM)
            return
        is_last = self._fleet.is_ending and child.is_worker
        if child.is_worker and child.state is State.READY and not is_last:
            if child.slot in self._fleet.slots:
                self._tally.count_restart(child.slot)
            logger.info("%s drains: %s", child, action.why)
        self._children.drain(child, is_replaced=not is_last)

    def _kill(self, action: Action) -> None:
        """End a child at once; after a fault, with the stacks in the log."""
        if action.why:
            self._children.end_with_stacks(action.worker, action.why)
        else:
            self._children.kill(action.worker)

    def _overdue(self, action: Action) -> None:
        self._children.end_overdue(action.worker)

    def _avoid(self, action: Action) -> None:
        logger.warning("%s: %s: workers import the app by themselves, until it forks", action.worker, action.why)

    # New code of our own

    def _try(self, action: Action) -> None:
        self._upgrade.begin_trial(action.why, action.plan)

    def _accept(self, action: Action) -> None:
        child: Child = action.end.child
        seconds = child.ready_at - child.began_at
        logger.info("%s: the new code can serve, after %.1f s", self._fleet.trial_why, seconds)

    def _reject(self, action: Action) -> None:
        end: End = action.end
        if end.traceback:
            logger.error("%s: the app's traceback:\n%s", end.name, end.traceback.rstrip())
        self._upgrade.fail(f"{end.name} could not start: {end.why}")

    def _become(self, action: Action) -> None:
        self._upgrade.become()

    # The end of all

    def _stop(self, action: Action) -> None:
        """Let all drain. If clients wait in the kernel's queue, and no worker serves, starting workers may serve the clients."""
        fleet, config, why = self._fleet, self._fleet.plan.config, action.why
        seconds = config.drain_seconds
        logger.info("%s: draining, at most %g s; once more to leave at once", why, seconds)
        self._manager.tell_stopping(f"{why}: draining, at most {seconds:g} s")
        if fleet.has_served and not self._children.having(State.READY) and has_clients(self._parts.site.listeners):
            until = fleet.stopped_at + config.drain_delay_seconds + seconds + ENDING_SECONDS
            fleet.on_clients(bool(self._children.having(State.STARTING)), until)
            logger.info("clients wait, and no worker serves: those that start may do so, and serve them")
        self._parts.attached.end(fleet.on_unfinished)

    def _stop_at_once(self, action: Action) -> None:
        logger.warning("%s%s: leaving at once", action.why, " again" if self._fleet.is_again else "")
        self._manager.tell_stopping(f"{action.why}: leaving at once")
        for child in self._children:
            if child.state is State.KILLED:  # perhaps by a weaker signal, with time left
                self._children.kill(child)
        self._parts.attached.kill()

    def _stop_waiting(self, action: Action) -> None:
        """End the awaited workers: the clients have waited in vain; `why`: a name for a worker without a process."""
        text = f"had not served those who waited for it {ENDING_SECONDS:g} s after --drain-timeout"
        for child in self._children.having(State.STARTING, State.DRAINING):
            child.failure = f"it {text}"
            self._children.kill(child)
        if action.why:
            logger.error("%s %s", action.why, text)
            self._fleet.on_unfinished()

    def end(self) -> int:
        """
        Close everything, as no child is left; return the exit status.

        Raises:
            StartFailed: the first worker could not start.
        """
        parts = self._parts
        for listener in parts.site.listeners:
            listener.close()
        parts.overview.close(is_end=True)
        if parts.transfers.end():
            self._fleet.on_unfinished()
        parts.let_go()
        if self.start_failure is not None:
            raise self.start_failure
        logger.info("stopped")
        return self._fleet.exit_status

    # A reload

    def _begin(self, action: Action) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        why, before, fixed = action.why, self._fleet.plan, list[str]()
        if self._manager.is_heard:
            self._manager.tell_reloading(why)
        try:
            plan = self._parts.site.read(before)
            if plan.config is not before.config:  # else no source has changed
                plan, fixed = plan.keep_fixed(before)
        except Exception as fault:
            self._refuse(why, fault)
            return
        if fixed:
            text = f"unchanged until the command is started anew: {', '.join(fixed)}"
            logger.warning("%s: %s", why, text)
            say_all(self._fleet.waiting, text)
        how = ", all at once" if plan.config.reload_at_once else ", one after another"
        logger.info("%s: replacing %s%s", why, workers(self._fleet.size), how if self._fleet.size > 1 else "")
        self._crew.forget_failures()
        self._fleet.begin(why, plan, time.monotonic())

    def _refuse(self, why: str, fault: Exception) -> None:
        """Report that the settings cannot be read; all goes on."""
        text = str(fault)
        if not isinstance(fault, (ConfigError, AserveError)):
            logger.error("%s: the settings could not be read", why, exc_info=fault)
            text = describe_unexpected(fault)
        self._tally.count(RELOADS, 'result="refused"')
        logger.error("%s: nothing was reloaded: %s; correct it, and send SIGHUP", why, text)
        self._manager.note_unchanged(why)
        answer_all(self._fleet.refuse(time.monotonic(), text), f"nothing was reloaded: {text}", is_done=False)

    def _prove(self, action: Action) -> None:
        """The new code serves: from now on every worker is started for the new plan."""
        config, before = action.worker.plan.config, action.plan.config
        if config.log_config is None:
            logger.setLevel(config.log_level.upper())
        if config.touch_reload != before.touch_reload:
            self._parts.touched.follow(config.touch_reload)
        if config.workers != before.workers:
            self._crew.change_plan(action.worker)

    def _finish(self, action: Action) -> None:
        """Report that every slot has a successor, and no old worker accepts any more; restart programs beside the workers."""
        reload: Reload = action.reload
        self._tally.count(RELOADS, 'result="done"')
        seconds = time.monotonic() - reload.began_at
        text = f"done in {seconds:.1f} s: code and settings of {workers(self._fleet.size)} are new{self._status.describe_drains()}"
        logger.info("%s: %s", reload.why, text)
        answer_all(action.asked, text, is_done=True)
        self._parts.attached.renew(self._fleet.plan.config)
        if self._parts.old_workers is not None:
            self._parts.old_workers.dismiss()  # all workers are new now

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
        if end.stood is not State.DRAINING or not end.child.is_worker or not end.child.ready_at:
            return  # no requests were left to finish
        logger.info("%s has ended: it %s%s", end.name, end.why, end.child.describe_losses())
        if self._fleet.is_ending and end.why != DONE:
            self._fleet.on_unfinished()

    def _restart(self, action: Action) -> None:
        """Let a slot pause before the next start: a serving child has ended without an order."""
        end: End = action.end
        child, served = end.child, end.child.served_seconds
        if not child.is_worker:
            text = "%s has ended after %.0f s: it %s; another is made in %g s, and workers go on"
            logger.warning(text, end.name, served, end.why, self._crew.pause_after(child))
            return
        why = f"it {end.why}{f' ({child.failure})' if child.failure else ''}"
        self._status.on_crash(child, f"it {end.why}")
        if self._fleet.is_ending:
            self._fleet.on_unfinished()
        elif end.slot in self._fleet.slots:
            self._tally.count_restart(end.slot, "crash")
            why += f"; another is started in {self._crew.pause_after(child):g} s"
            self._crew.note_absence(end, f"it {end.why}")
        logger.error("%s has crashed after %.0f s: %s%s", end.name, served, why, child.describe_losses())

    # Those that could not start

    def _miss(self, action: Action) -> None:
        end: End = action.end
        logger.error("%s could not start: %s; clients that waited for it were not served", end.name, end.why)
        self._fleet.on_unfinished()

    def _give_up(self, action: Action) -> None:
        end: End = action.end
        self.start_failure = StartFailed(f"{end.name} could not start: {end.why}", end.traceback)
        self._parts.attached.end()

    def _show(self, action: Action) -> None:
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
        text = f"worker {end.slot} is not replaced: {end.name} could not start: {end.why}{serves_on}; another is tried"
        answer_all([each for each in action.asked if each.slot], text, is_done=False)
        if action.reload is not None:  # half done until a retry succeeds: the code serves already
            logger.warning("%s: half done: %s", action.reload.why, self._status.describe_progress())
            answer_all([each for each in action.asked if each.reload], self._status.half_done, is_done=False)
        self._tell_missing(end)

    def _tell(self, end: End) -> None:
        """Count the failure, and let workers of different code show the fault, with --reload; log the app's traceback, once and not with every try."""
        if end.plan.config.reload:
            for child in self._children.having(State.READY):
                if child.plan is not end.plan:  # else the worker can serve
                    self._children.tell(child, {"do": "show fault", "why": end.why, "traceback": end.traceback})
        self._tally.count(START_FAILURES)
        if end.traceback and end.traceback != self._told_traceback:
            self._told_traceback = end.traceback
            logger.error("%s: the app's traceback:\n%s", end.name, end.traceback.rstrip())

    def _tell_missing(self, end: End) -> None:
        if self._crew.note_absence(end, end.why) and (text := self._status.describe_serving()) != self._told_missing:
            self._told_missing = text
            logger.error("%s; correct it; SIGHUP tries again at once", text)
