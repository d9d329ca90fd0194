"""Reloads: new code and settings in all workers, or everything as before.

Owns:     Reloads: reading settings for one; what is logged, counted and told at its beginning and its end.
Thread:   the supervisor's only one.
Not here: what is due in it (fleet.py), starting a successor (supervisor.py), new code of aserve's own (upgrade.py).

```
  reload: settings are read -----> the first successor starts -----> prove: the others -----> finish: all of before are gone
             |  a mistake                |  it cannot
             v                           v
        nothing is reloaded         abandon: all is as before              tell_half_done: another cannot, and is tried again
```

One is under way at a time. If another is asked for meanwhile, it follows, as the code of before may have been read already.
"""

from __future__ import annotations

import logging
import signal
import time

from ..core.errors import AserveError
from ..core.tally import RELOADS, Tally
from ..lifecycle.load_error import LoadError
from ..lifecycle.loading import working_folder
from ..lifecycle.manager import Manager
from ..settings import ConfigError
from .children.channel import Message
from .children.child import Child, State, workers
from .children.children import Children
from .crew import Crew
from .fleet.facts import End, Reload
from .fleet.fleet import Action, Do, Fleet
from .fleet.plan import Read
from .monitoring.questions import answer_all
from .monitoring.status import Status
from .monitoring.touched import TouchedFiles

logger = logging.getLogger("aserve")


class Reloads:
    """What is read, logged and told at the beginning and the end of each reload."""

    def __init__(
        self,
        read: Read,
        fleet: Fleet,
        crew: Crew,
        children: Children,
        manager: Manager,
        status: Status,
        tally: Tally,
    ) -> None:
        self._read = read
        self._fleet = fleet
        self._crew = crew
        self._children = children
        self._manager = manager
        self._status = status
        self._tally = tally
        self._touched = TouchedFiles(fleet.plan.config.touch_reload)
        self.by_do = {Do.BEGIN: lambda action: self._begin(action.why), Do.PROVE: self._prove}
        self.by_word = {"changed": self._on_changed}
        self.by_signal = {signal.SIGHUP: lambda number: self.ask(number.name)}

    # Its beginning

    def look_at_touched(self) -> None:
        """Reload if a file of --touch-reload has changed."""
        path = self._touched.find_changed()
        if path:
            self.ask(f"{path} has changed")

    def ask(self, why: str) -> None:
        """Replace all workers, now or after what is under way."""
        if self._fleet.is_ending:
            return
        if self._fleet.on_asked(why):
            self._begin(why)
        else:
            self._crew.forget_failures()
            logger.info("%s: once more, after what is under way%s", why, self._children.describe_slow_start())

    def _begin(self, why: str) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        before = self._fleet.plan
        fixed: list[str] = []
        if self._manager.is_heard:
            self._manager.tell_reloading(why)
        try:
            plan = self._read(before)
            if plan.config is not before.config:  # else no source has changed
                plan, fixed = plan.keep_fixed(before)
        except Exception as fault:
            self._refuse(why, fault)
            return
        if fixed:
            logger.warning("%s: %s stay as they are until the command is started anew", why, ", ".join(fixed))
        how = ", all at once" if plan.config.reload_at_once else ", one after another"
        logger.info("%s: replacing %s%s", why, workers(self._fleet.size), how if self._fleet.size > 1 else "")
        self._crew.forget_failures()
        self._fleet.begin(why, plan, time.monotonic())

    def _refuse(self, why: str, fault: Exception) -> None:
        """Report that the settings cannot be read, and leave everything as it is."""
        text = str(fault)
        if not isinstance(fault, (ConfigError, AserveError)):
            logger.error("%s: the settings could not be read", why, exc_info=fault)
            text = describe_unexpected(fault)
        self._tally.count(RELOADS, 'result="refused"')
        logger.error("%s: nothing was reloaded: %s; correct it, and send SIGHUP", why, text)
        self._manager.note_unchanged(why)
        answer_all(self._fleet.refuse(time.monotonic(), text), f"nothing was reloaded: {text}", is_done=False)

    # Its end

    def _prove(self, action: Action) -> None:
        """Make the new plan the proven one, as the new code serves: from now on every worker is started for it."""
        config, before = action.worker.plan.config, action.plan.config
        if config.log_config is None:
            logger.setLevel(config.log_level.upper())
        if config.touch_reload != before.touch_reload:
            self._touched.follow(config.touch_reload)
        if config.workers != before.workers:
            self._crew.change_plan(action.worker)

    def abandon(self, action: Action) -> None:
        """Report that the new code does not start: all is as before."""
        reload: Reload = action.reload
        end: End = action.end
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

    def tell_half_done(self, action: Action) -> None:
        """Report that a worker could not start with code that already serves: the reload stays half done until a retry succeeds."""
        logger.warning("%s: half done: %s", action.reload.why, self._status.describe_progress())
        answer_all([each for each in action.asked if each.reload], self._status.half_done, is_done=False)

    def finish(self, action: Action) -> None:
        """Report that every slot has its successor, and that no old worker accepts any more."""
        reload: Reload = action.reload
        self._tally.count(RELOADS, 'result="done"')
        seconds = time.monotonic() - reload.began_at
        text = f"done in {seconds:.1f} s: code and settings of {workers(self._fleet.size)} are new{self._status.describe_drains()}"
        logger.info("%s: %s", reload.why, text)
        answer_all(action.asked, text, is_done=True)

    # --reload

    def _on_changed(self, child: Child, message: Message, fds: list[int]) -> None:
        """A file was saved: what has been imported since the last time is of no use, if it serves not yet; it may hang, too."""
        if child.state != State.READY:
            return  # its successor looks by now
        answer_all(self._fleet.drop(), f"nothing was reloaded: {message['why']} meanwhile", is_done=False)
        self.ask(message["why"])


def describe_unexpected(fault: Exception) -> str:
    """Return why settings could not be read, for an unexpected exception, and where to look for the cure."""
    try:
        working_folder()  # relative paths need it
    except LoadError as gone:
        return str(gone)
    return f"the settings could not be read: {type(fault).__name__}: {fault}; the log has the traceback"
