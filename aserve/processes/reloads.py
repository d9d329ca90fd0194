"""Reloads: new code and settings in all workers, or everything as before.

Owns:     Reloads: reading settings for one; what is logged, counted and told at its beginning.
Thread:   the supervisor's only one.
Not here: what is due in it (fleet/decide.py), what is done at its end (acts.py), starting a successor (supervisor.py), new code of aserve's own (upgrade/upgrade.py).

```
  reload: settings are read -----> the first successor starts -----> prove: the others -----> finish: all of before are gone
             |  a mistake                |  it cannot
             v                           v
        nothing is reloaded         abandon: all is as before              retry: another cannot, and is tried again
```

One is under way at a time. If another is asked for meanwhile, it follows, as the earlier code may have been read already.
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
from .fleet.fleet import Fleet
from .fleet.plan import Read
from .monitoring.questions import answer_all
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
        tally: Tally,
    ) -> None:
        self._read = read
        self._fleet = fleet
        self._crew = crew
        self._children = children
        self._manager = manager
        self._tally = tally
        self.touched = TouchedFiles(fleet.plan.config.touch_reload)
        self.by_word = {"changed": self._on_changed}
        self.by_signal = {signal.SIGHUP: lambda number: self.ask(number.name)}

    # Its beginning

    def look_at_touched(self) -> None:
        """Reload if a file of --touch-reload has changed."""
        path = self.touched.find_changed()
        if path:
            self.ask(f"{path} has changed")

    def ask(self, why: str) -> None:
        """Replace all workers, now or after what is under way."""
        if self._fleet.is_ending:
            return
        if self._fleet.on_asked(why):
            self.begin(why)
        else:
            self._crew.forget_failures()
            logger.info("%s: once more, after what is under way%s", why, self._children.describe_slow_start())

    def begin(self, why: str) -> None:
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
