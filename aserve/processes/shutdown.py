"""The end of the whole server.

Owns:     Shutdown: how it begins, and what is said of it; the exit status; whether clients still wait for a worker.
Thread:   the supervisor's only one.
Not here: what becomes of each worker (fleet/decide.py), telling it to drain and killing it (children.py), or an attached program (attached.py).

A worker that still imports the app is ended at once, as it has nothing to finish. There is one exception. If workers have
served before, and all of them are gone (the only one has crashed, and its successor starts), clients may
wait in the kernel's queue, where no other process can answer them. Then the successor may finish its start, within the time of
a drain, and serves them. If none is starting, as it waits for its mold or for the end of a pause, one begins: at once, and once.
Not if the socket was given: the next process serves the clients that wait there.
"""

from __future__ import annotations

import logging
import select
import signal
from collections.abc import Sequence

from ..connections.listeners import Listener
from ..core.errors import AserveError
from ..lifecycle.manager import Manager
from ..lifecycle.signals import SAME_SIGNAL_SECONDS
from .children.child import Child, State
from .children.children import ENDING_SECONDS, Children
from .children.clock import Clock
from .fleet.fleet import Fleet
from .programs.attached import Attached
from .upgrade.upgrade import Upgrade

logger = logging.getLogger("aserve")


class StartFailed(AserveError):
    """The first worker could not start: there is nothing to serve. `app_traceback` is the app's, or empty."""

    def __init__(self, text: str, app_traceback: str) -> None:
        super().__init__(text)
        self.app_traceback = app_traceback


class Shutdown:
    """The end, from the first signal on."""

    def __init__(
        self,
        fleet: Fleet,
        children: Children,
        clock: Clock,
        listeners: Sequence[Listener],
        manager: Manager,
        attached: Attached,
        upgrade: Upgrade,
    ) -> None:
        self._fleet = fleet
        self._children = children
        self._clock = clock
        self._listeners = listeners
        self._manager = manager
        self._attached = attached
        self._upgrade = upgrade
        self.by_signal = {signal.SIGTERM: self._drain, signal.SIGINT: self._drain, signal.SIGQUIT: self._end_at_once}
        self.status = 0
        self.start_failure: StartFailed | None = None
        self._asked_at: float | None = None
        self._why = ""  # the signal
        self._awaited: list[Child] = []  # by clients that wait, and no other worker serves

    def _drain(self, number: signal.Signals) -> None:
        """Let all workers drain; asked for again, end them at once."""
        self._upgrade.abandon()
        now, config = self._clock(), self._fleet.plan.config
        if self._asked_at is not None:
            if now - self._asked_at > SAME_SIGNAL_SECONDS:
                self._end_at_once(number)
            return
        self._asked_at, self._why = now, number.name
        self._fleet.on_stop()
        seconds = config.drain_seconds
        logger.info("%s: draining, at most %g s; once more to leave at once", number.name, seconds)
        self._manager.tell_stopping(f"{number.name}: draining, at most {seconds:g} s")
        serving, starting = self._children.having(State.READY), self._children.having(State.STARTING)
        if self._fleet.has_served and not serving and self._has_clients():
            self._awaited = starting
            self._fleet.on_clients(bool(starting), now + config.drain_delay_seconds + seconds + ENDING_SECONDS)
            logger.info("clients wait, and no worker serves: those that start may do so, and serve them")
        self._attached.end(self.note_unfinished)

    def describe(self) -> str:
        """Return why all drains, and for how long at most."""
        config, asked_at = self._fleet.plan.config, self._asked_at
        if asked_at is None or self._fleet.is_at_once:
            return "ending"
        left = max(config.drain_delay_seconds + config.drain_seconds - (self._clock() - asked_at), 0.0)
        return f"draining since {self._why}, at most {left:.0f} s"

    def _end_at_once(self, number: signal.Signals) -> None:
        """Kill all workers."""
        self._upgrade.abandon()
        again = " again" if self._asked_at is not None else ""
        logger.warning("%s%s: leaving at once", number.name, again)
        self._manager.tell_stopping(f"{number.name}: leaving at once")
        self._asked_at = self._clock()
        self.status = 128 + number
        self._fleet.on_stop(is_at_once=True)
        for child in self._children:
            if child.state is State.KILLED:  # perhaps by a weaker signal, which leaves it time
                self._children.kill(child)
        self._attached.kill()

    def give_up(self, failure: StartFailed) -> None:
        """Record that there is nothing to serve."""
        self.start_failure = failure
        self._attached.end()

    def end(self) -> int:
        """
        Return the exit status, as no worker is left.

        Raises:
            StartFailed: the first worker could not start.
        """
        if self.start_failure is not None:
            raise self.start_failure
        logger.info("stopped")
        return self.status

    # What becomes of workers meanwhile

    def on_begun(self, child: Child) -> None:
        """Record the worker that clients wait for: it has begun."""
        if child.is_worker:
            self._awaited = [child]

    def note_unfinished(self) -> None:
        """Set the exit status of a server that has cut off requests or workers."""
        self.status = self.status or 1

    def _has_clients(self) -> bool:
        """Whether clients wait in the kernel's queue that no other process will serve."""
        poll = select.poll()
        for listener in self._listeners:
            if not listener.is_given:
                poll.register(listener.socket, select.POLLIN)
        return bool(poll.poll(0))

    def stop_waiting(self, unborn: str) -> None:
        """End what clients have waited for in vain; `unborn`: what has not begun."""
        text = f"had not served those who waited for it {ENDING_SECONDS:g} s after --drain-timeout"
        for child in self._awaited:
            if not child.is_reaped:
                child.failure = f"it {text}"
                self._children.kill(child)
        if unborn:
            logger.error("%s %s", unborn, text)
            self.note_unfinished()
