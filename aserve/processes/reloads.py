"""Reloads: new code and settings in all workers, or everything as before.

Owns:     Reloads: a reload from the wish to the line in the log that it is done, or why it was not; the wish for the next one; with --reload
          why the app cannot start, which browsers are shown until it does.
Thread:   the supervisor's only one.
Not here: whose turn it is (rollout.py), starting a successor (supervisor.py), new code of aserve's own (upgrade.py).

```
  reload: settings are read -----> the first successor starts -----> commit: the others -----> finish: all of before are gone
             |  a mistake                |  it cannot
             v                           v
        nothing is reloaded         abandon: all is as before              tell_half_done: another cannot, and is tried again
```

One is under way at a time. Who asks meanwhile gets another after it, as the code of before may have been read already.
"""

from __future__ import annotations

import logging
import time

from ..core.errors import AserveError, Fault
from ..core.tally import RELOADS, Tally
from ..lifecycle.loading import LoadError, working_folder
from ..lifecycle.manager import Manager
from ..settings import ConfigError
from .answers import Answers
from .attached import Attached
from .channel import Message
from .child import Child, State
from .children import Children
from .crew import Crew, workers
from .molds import Molds
from .plan import Plan, Read
from .rollout import Reload, Rollout
from .shutdown import Shutdown
from .status import Status
from .touched import TouchedFiles
from .upgrade import Upgrade

logger = logging.getLogger("aserve")


class Reloads:
    """At most one, and the wish for another."""

    def __init__(
        self,
        read: Read,
        rollout: Rollout,
        crew: Crew,
        children: Children,
        *,
        molds: Molds,
        shutdown: Shutdown,
        upgrade: Upgrade,
        answers: Answers,
        attached: Attached,
        manager: Manager,
        status: Status,
        tally: Tally,
    ) -> None:
        self._read = read
        self._rollout = rollout
        self._crew = crew
        self._children = children
        self._molds = molds
        self._shutdown = shutdown
        self._upgrade = upgrade
        self._answers = answers
        self._attached = attached
        self._manager = manager
        self._status = status
        self._tally = tally
        self._next = ""  # why there is to be another, after the one that is under way
        self._touched = TouchedFiles(rollout.plan.config.touch_reload)
        self.fault: Fault | None = None  # with --reload: why the app cannot start; workers show it in its place

    # Its beginning

    def look_at_touched(self) -> None:
        """Reload if a file of --touch-reload has changed."""
        path = self._touched.find_changed()
        if path:
            self.begin(f"{path} has changed")

    def begin(self, why: str) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        if self._shutdown.has_begun:
            return
        if self._rollout.is_moving or not self._crew.has_served:
            self._next = why
            self._crew.forget_failures()
            logger.info("%s: once more, after what is under way%s", why, self._children.describe_slow_start())
            return
        self._next = ""  # what was asked for until now is in this one
        self._status.on_reload_begin()
        self._manager.tell_reloading(why)
        try:
            plan, fixed = self._read().keep_fixed(self._rollout.plan)
        except Exception as fault:
            self._refuse(why, fault)
            return
        if fixed:
            logger.warning("%s: %s stay as they are until the command is started anew", why, ", ".join(fixed))
        how = "all at once" if plan.config.reload_at_once else "one after another"
        logger.info("%s: replacing %s, %s", why, workers(self._crew.size), how)
        self.fault = None
        for child in self._children.having(State.STARTING):
            self._children.drain(child, is_replaced=True)  # what it imports may be what has been repaired
        self._molds.end(State.STARTING)
        self._crew.forget_failures()
        slots = range(1, self._crew.size + 1)
        width = len(slots) if plan.config.reload_at_once else 1
        self._rollout.begin_reload(Reload(why, plan, time.monotonic()), slots, width)

    def _refuse(self, why: str, fault: Exception) -> None:
        """The settings cannot be read: say so, and leave everything as it is."""
        text = str(fault)
        if not isinstance(fault, (ConfigError, AserveError)):
            logger.error("%s: the settings could not be read", why, exc_info=fault)
            text = describe_unexpected(fault)
        self._tally.count(RELOADS, 'result="refused"')
        logger.error("%s: nothing was reloaded: %s; correct it, and send SIGHUP", why, text)
        self._manager.note_unchanged(why)
        self._status.on_reload_refused(text)
        self._answers.on_reload_end(f"nothing was reloaded: {text}", is_done=False)

    # Its end

    def commit(self, child: Child) -> None:
        """The new code serves: from now on it is what every worker is started for."""
        before, config = self._rollout.commit().config, self._rollout.plan.config
        self._molds.end(State.STARTING, State.READY, but=self._rollout.plan)
        if config.log_config is None:
            logger.setLevel(config.log_level.upper())
        if config.touch_reload != before.touch_reload:
            self._touched.follow(config.touch_reload)
        if config.workers != before.workers:
            self._crew.change_plan(child)

    def abandon(self, who: str, why: str) -> None:
        """The new code does not start: let everything be as before."""
        reload, serving = self._rollout.abandon(), len(self._children.having(State.READY))
        self._molds.end(State.STARTING, State.READY, but=self._rollout.plan)
        self._manager.note_unchanged(reload.why)
        self._tally.count(RELOADS, 'result="refused"')
        for child in self._children.having(State.STARTING):
            self._children.drain(child, is_replaced=True)
        fault = f"{who} could not start: {why}"
        text = f"nothing was reloaded: {fault}"
        remedy = "and save it" if reload.plan.config.reload else "and send SIGHUP"
        logger.error(
            "%s: %s; correct it, %s; still serving as before: %d of %s",
            reload.why, text, remedy, serving, workers(self._crew.size),
        )  # fmt: skip
        self._status.on_reload_refused(fault)
        self._answers.on_reload_end(text, is_done=False)
        self._begin_next()

    def tell_half_done(self, slot: int, who: str, why: str) -> None:
        """The new code serves, and `who` could not start with it: if a reload is under way, nobody knows when that can end."""
        reload = self._rollout.reload
        if reload is None:
            return
        self._rollout.note_half_done(slot, f"{who} could not start: {why}")
        logger.warning("%s: half done: %s", reload.why, self._status.describe_progress())
        self._answers.on_half_done(self._status.half_done, has_next=bool(self._next))
        self._begin_next()  # which may be the cure

    def finish(self) -> None:
        """If every slot has its successor, and nobody of before accepts any more, say so; begin what was asked for meanwhile."""
        plan = self._rollout.plan
        if any(child.plan is not plan and not child.has_left for child in self._children.having(State.DRAINING)):
            return
        reload = self._rollout.take_done()
        if reload is not None:
            self._tally.count(RELOADS, 'result="done"')
            seconds = time.monotonic() - reload.began_at
            text = f"done in {seconds:.1f} s: code and settings of {workers(self._crew.size)} are new{self._status.describe_drains()}"
            logger.info("%s: %s", reload.why, text)
            self._answers.on_reload_end(text, is_done=True)
            self._attached.renew(plan.config)
            self._upgrade.dismiss_strangers()
            self.fault = None
        if self._rollout.reload is None:
            self._begin_next()

    def _begin_next(self) -> None:
        why, self._next = self._next, ""
        if why:
            self.begin(why)

    # --reload

    def on_changed(self, child: Child, message: Message, fds: list[int]) -> None:
        """A file was saved: what has been imported since the last time is of no use, if it serves not yet; it may hang, too."""
        if child.state != State.READY:
            return  # whoever has taken its place looks by now
        if self._rollout.reload is not None and self._rollout.is_unproven(self._rollout.reload.plan):
            self._rollout.abandon()
            for other in self._children.having(State.STARTING):
                self._children.drain(other, is_replaced=True)
            self._answers.on_reload_end(f"nothing was reloaded: {message['why']} meanwhile", is_done=False)
        self.begin(message["why"])

    def show_fault(self, fault: Fault, plan: Plan) -> bool:
        """
        Have workers show why the app cannot start: those that are there of another plan, and the next.

        Return False if one that was to show it could not.
        """
        was_shown, self.fault = self.fault is not None, fault
        for child in self._children.having(State.READY):
            if child.plan is not plan:  # else it can
                self._children.tell(child, {"do": "show fault", "why": fault.why, "traceback": fault.app_traceback})
        return not was_shown


def describe_unexpected(fault: Exception) -> str:
    """Return why settings could not be read, for something that nobody has foreseen, and where to look for the cure."""
    try:
        working_folder()  # relative paths need it
    except LoadError as gone:
        return str(gone)
    return f"the settings could not be read: {type(fault).__name__}: {fault}; the log has the traceback"
