"""The end of the whole server.

Owns:     Shutdown: whether no worker is to begin any more, and why; the exit status; those who still wait for a worker.
Thread:   the supervisor's only one.
Not here: what becomes of one worker (ends.py), telling it to drain and killing it (children.py), or an attached program (attached.py).

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
import time
from collections.abc import Sequence

from ..connections.listeners import Listener
from ..core.errors import AserveError
from ..lifecycle.manager import Manager
from ..lifecycle.signals import SAME_SIGNAL_SECONDS
from ..settings import EngineSettings
from .attached import Attached
from .child import Child, State
from .children import ENDING_SECONDS, Children
from .molds import Molds
from .timers import Timers

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
        children: Children,
        molds: Molds,
        timers: Timers,
        listeners: Sequence[Listener],
        manager: Manager,
        attached: Attached,
    ) -> None:
        self._children = children
        self._molds = molds
        self._timers = timers
        self._listeners = listeners
        self._manager = manager
        self._attached = attached
        self._asked_at: float | None = None
        self._awaited: list[Child] = []  # workers that may finish their start
        self.wants_worker = False  # one is to begin all the same: clients wait, and nobody else can serve them
        self.status = 0  # the command's exit status
        self.start_failure: StartFailed | None = None

    @property
    def has_begun(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._asked_at is not None or self.start_failure is not None

    def drain(self, number: signal.Signals, config: EngineSettings, has_served: bool) -> None:
        """Let all workers drain; asked for again, end them at once."""
        now = time.monotonic()
        if self._asked_at is not None:
            if now - self._asked_at > SAME_SIGNAL_SECONDS:
                self.end_at_once(number)
            return
        self._asked_at = now
        seconds = config.drain_seconds
        logger.info("%s: draining, at most %g s; once more to leave at once", number.name, seconds)
        self._manager.tell_stopping(f"{number.name}: draining, at most {seconds:g} s")
        serving, starting = self._children.having(State.READY), self._children.having(State.STARTING)
        if has_served and not serving and self._is_awaited():
            self._awaited, self.wants_worker, starting = starting, not starting, []
            self._timers.after(config.drain_delay_seconds + seconds + ENDING_SECONDS, self._stop_waiting)
            logger.info("clients wait, and no worker serves: those that start may do so, and serve them")
        for child in (*serving, *starting):
            self._children.drain(child, is_replaced=False)
        if not self.wants_worker:
            self._end_molds()
        self._attached.end(self.note_unfinished)

    def end_at_once(self, number: signal.Signals) -> None:
        """Kill all workers."""
        again = " again" if self._asked_at is not None else ""
        logger.warning("%s%s: leaving at once", number.name, again)
        self._manager.tell_stopping(f"{number.name}: leaving at once")
        self._asked_at = time.monotonic()
        self.status = 128 + number
        self.wants_worker = False
        for child in self._children:
            self._children.kill(child)
        self._attached.kill()

    def give_up(self, failure: StartFailed) -> None:
        """Record that there is nothing to serve."""
        self.start_failure = failure
        self._end_molds()
        self._attached.end()

    # What becomes of workers meanwhile

    def on_begun(self, child: Child) -> None:
        """A child has begun to start; if a worker was wanted, that is the one."""
        if self.wants_worker and child.is_worker:
            self.wants_worker, self._awaited = False, [child]
            self._end_molds()

    def on_ready(self, child: Child) -> None:
        """Who was awaited serves: it may finish."""
        self._children.drain(child, is_replaced=False)

    def on_failed_start(self, slot: int, who: str, why: str) -> None:
        """A worker, or its mold, has not come to serve; if it was awaited, that has cost something."""
        if self.wants_worker or slot in [child.slot for child in self._awaited]:
            logger.error("%s could not start: %s; clients that waited for it were not served", who, why)
            self._fail_who_wait()

    def note_unfinished(self) -> None:
        """Set the exit status of a server that has cut off requests or workers."""
        self.status = self.status or 1

    def _is_awaited(self) -> bool:
        """Whether somebody waits to be accepted, whom no other process will serve."""
        poll = select.poll()
        for listener in self._listeners:
            if not listener.is_given:
                poll.register(listener.socket, select.POLLIN)
        return bool(poll.poll(0))

    def _stop_waiting(self) -> None:
        text = f"had not served those who waited for it {ENDING_SECONDS:g} s after --drain-timeout"
        for child in self._awaited:
            if not child.is_reaped:
                child.failure = f"it {text}"
                self._children.kill(child)
        if self.wants_worker:
            logger.error("the worker that was to begin %s", text)
            self._fail_who_wait()

    def _fail_who_wait(self) -> None:
        self.wants_worker = False
        self.note_unfinished()
        self._end_molds()

    def _end_molds(self) -> None:
        self._molds.end(State.STARTING, State.READY)  # they read that after the order to fork who is awaited
