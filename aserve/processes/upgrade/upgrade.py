"""Upgrade in place: new code of aserve's own, and of all else, takes over within the same process.

Owns:     Upgrade: the supervisor's side, from SIGUSR2 to exec.
Thread:   the supervisor's only one.
Not here: the state passed to the new code (inheritance.py), the new code's side of the trial (trial.py), when (fleet/decide.py),
          the start (events.py: the new code adopts the workers, and replaces the workers by a reload).

```
  supervisor, previous code                        supervisor, new code: same pid, listeners, workers
     |                                                ^
     | fork, exec                                     | exec
     v                            ready, ended        |
  the trial: the same command, ------------------> supervisor
  which becomes a worker that no client reaches
```

If the trial fails, by an exception, an exit, a hang, or without an interpreter: all is as before, and the log says why.
Signals between one program and the next are not lost: such signals are blocked, and wait for the new code.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import NoReturn

from ...connections.listeners import Listener
from ...core.errors import FAILED
from ...lifecycle.manager import Manager
from ...settings import VERSION
from ..children.channel import Channel
from ..children.child import TRIAL, State
from ..children.children import Children
from ..children.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE, Command
from ..children.forked import say_failed
from ..children.signal_pipe import SignalPipe, block_signals, unblock_signals
from ..fleet.fleet import Fleet
from ..fleet.plan import Plan
from ..monitoring.overview import Overview
from ..programs.attached import Attached
from ..transfers.transfers import Transfers
from . import inheritance
from .inheritance import Inheritance

logger = logging.getLogger("aserve")

# The limit of a trial without --start-timeout. Guess: imports of minutes exist, and until the end there is no further trial.
TRIAL_SECONDS = 300.0


class Upgrade:
    """An upgrade, from the request to the start of the new code."""

    def __init__(
        self,
        command: Command,
        fleet: Fleet,
        children: Children,
        signals: SignalPipe,
        manager: Manager,
        attached: Attached,
        overview: Overview,
        listeners: Sequence[Listener],
        transfers: Transfers,
    ) -> None:
        self._command = command
        self._fleet = fleet
        self._children = children
        self._signals = signals
        self._manager = manager
        self._attached = attached
        self._overview = overview
        self._listeners = listeners
        self._transfers = transfers

    # The trial

    def begin_trial(self, why: str, plan: Plan) -> None:
        """Fork the process in which the new code is to serve."""
        self._manager.tell_reloading(why)
        seconds = plan.config.start_seconds or TRIAL_SECONDS
        limited = plan._replace(config=plan.config.replace(start_seconds=seconds))
        with block_signals():
            try:
                child, channel = self._children.fork(TRIAL, limited)
            except OSError as exc:
                self.fail(f"the trial could not be forked: {exc.strerror or exc}")
                return
            if channel is not None:
                self._signals.close()
        if channel is not None:
            self._run_trial(channel)
        logger.info("%s: %s has begun: %s", why, child, self._command.show(plan.config.rows()))

    def _run_trial(self, channel: Channel) -> NoReturn:
        """In the child: become the new code."""
        try:
            os.set_inheritable(channel.fileno(), True)
            self._command.execute(TRIAL_VARIABLE, channel.fileno())
        except BaseException as exc:
            why = exc.strerror if isinstance(exc, OSError) else type(exc).__name__
            say_failed(channel, f"{self._command.words[0]} could not be run in {self._command.folder}: {why}")
        finally:
            os._exit(FAILED)

    def fail(self, why: str) -> None:
        """Report that the old code goes on."""
        self._manager.note_unchanged(self._fleet.trial_why)
        self._fleet.on_abandoned(time.monotonic(), f"{self._fleet.trial_why}: {why}")
        logger.error(
            "%s: nothing was upgraded: %s; correct it, and send SIGUSR2; workers that go on as before: %d",
            self._fleet.trial_why, why, len(self._children.having(State.READY)),
        )  # fmt: skip

    # Exec

    def become(self) -> None:
        """Become the new code; return only after a failure."""
        with block_signals() as blocked:
            for number in self._signals.read():
                os.kill(os.getpid(), number)  # unhandled: it stays blocked for the new code, as later signals do
            try:
                fleet, attached = self._fleet, self._attached.describe()
                with inheritance.hand_down(
                    self._listeners,
                    fleet.plan,
                    fleet.size,
                    self._children,
                    blocked,
                    self._overview,
                    attached,
                    self._transfers.describe(),
                    fleet.gaps,
                ) as fd:
                    self._command.execute(INHERITANCE_VARIABLE, fd)
            except OSError as exc:
                self.fail(f"{self._command.words[0]} could not be run: {exc.strerror or exc}")

    # As the new code

    def take_over(self, inherited: Inheritance) -> None:
        """Take over the workers, programs and counts of the previous code, and unblock the waiting signals."""
        self._fleet.on_inherited(inherited.size, inherited.gaps)
        self._attached.adopt(inherited.attached)
        for state in inherited.children:
            assert inherited.plan is not None
            self._children.adopt(state, inherited.plan)
        self._transfers.adopt(inherited.moves)
        logger.info(
            "upgraded from %s to %s, with %d old workers",
            inherited.version, VERSION, len(self._children) + len(inherited.old_workers),
        )  # fmt: skip
        if inherited.plan is None:  # so the settings cannot be compared, as a reload does
            logger.info("its settings are not known: what it has bound, and the rights of that, stay until a restart")
        unblock_signals(inherited.blocked)
        if inherited.counted is not None:
            self._overview.restore(inherited.counted, has_children=inherited.plan is not None)
