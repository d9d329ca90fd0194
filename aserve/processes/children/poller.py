"""The time and the events of a process without an event loop: ready descriptors, signals, and calls to be made at a time.

Owns:     Clock, the measure of all time limits of the supervisor; Timers, a heap of calls; Poller: waiting for the next event; the selector,
          the pipe of signals, the clock and the timers, until they are closed; whether clients wait.
Thread:   the supervisor's only one.
Not here: reading signals (signal_pipe.py); the limits, and the consequences (facts.py, fleet/decide.py); the changes by an event (../events.py).

A stopped process (by a debugger, a freezer, a sleeping machine) does not see the time go by. The children were stopped, too, and could do no work
meanwhile: so the time of the stop counts for no limit. No limit has to be moved: this clock has stood still. The supervisor reads the clock at least
once a second. If a reading comes much later than the reading before, the process was stopped between them.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import select
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from ...connections.listeners import Listener
from ...lifecycle.control import Watch, watch_with
from ..fleet.facts import NEVER
from .signal_pipe import SignalPipe

logger = logging.getLogger("aserve")

# The longest wait between two readings, counted in any case: of the looks of each second (../events.py).
TURN_SECONDS = 1.0
# A process with a reading so much later was stopped meanwhile. Guess; a process on a shared CPU is late by less.
STOPPED_SECONDS = 2.0
OnSignal = Callable[[str], None]  # with the name of the signal
HANDLED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCHLD,
)  # fmt: skip


class Clock:
    """A clock that is never set, and stands still while this process is stopped."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._read_at = monotonic()
        self._left_out_seconds = 0.0

    def __call__(self) -> float:
        """Return the time, in seconds."""
        now = self._monotonic()
        late = now - self._read_at - TURN_SECONDS
        self._read_at = now
        if late >= STOPPED_SECONDS:
            self._left_out_seconds += late
            text = "this process was stopped for %.0f s; that time does not count for time limits of workers"
            logger.warning(text, late)
        return now - self._left_out_seconds


class Timer:
    """A call to be made, unless cancelled."""

    __slots__ = ("_arguments", "_call", "at")

    def __init__(self, at: float, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.at = at
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def cancel(self) -> None:
        """Do not make the call."""
        self._call, self._arguments = None, ()

    def run(self) -> None:
        """Make the call, if neither made nor cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call(*self._arguments)


class Timers:
    """Calls to be made later, by this clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()  # of two at the same time the earlier comes first

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Make this call after this many seconds; see `pop_due`."""
        timer = Timer(self._clock() + seconds, call, arguments)
        heapq.heappush(self._heap, (timer.at, next(self._numbers), timer))
        return timer

    def wake_after(self, seconds: float) -> None:
        """Wake the loop after this many seconds, to check for further work."""
        self.after(seconds, lambda: None)

    @property
    def next_at(self) -> float:
        """The time of the next call; NEVER: there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def seconds_to(self, timer: Timer) -> float:
        """Return the seconds until this call."""
        return max(timer.at - self._clock(), 0.0)

    def pop_due(self) -> list[Timer]:
        """Return the timers whose time has come, in their order; the caller runs each."""
        due, now = [], self._clock()
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due


class Poller:
    """A selector, with signals and timers."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.timers = Timers(clock)
        self.signals = SignalPipe(HANDLED)  # from now on signals wait in the pipe
        self.by_signal: dict[signal.Signals, OnSignal] = {}  # all of HANDLED
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.signals, selectors.EVENT_READ, self._on_signals)
        self.watch: Watch = watch_with(self.selector)

    def wait(self, until: float = NEVER) -> Iterator[Callable[[], object]]:
        """Wait for the next event, at most until this time; yield the call for the event, and the calls for events of the same moment."""
        until = min(until, self.timers.next_at)
        for key, _ in self.selector.select(max(until - self.clock(), 0.0) if until != NEVER else None):
            yield key.data
        for timer in self.timers.pop_due():
            yield timer.run

    def close(self) -> None:
        """Restore the earlier meaning of signals; in a forked child, too."""
        self.selector.close()
        self.signals.close()

    def _on_signals(self) -> None:
        for number in self.signals.read():
            self.by_signal[number](number.name)


def has_clients(listeners: Sequence[Listener]) -> bool:
    """Whether clients wait in the kernel's queue of a socket of ours: clients of a given socket are for the next process."""
    poll = select.poll()
    for listener in listeners:
        if not listener.is_given:
            poll.register(listener.socket, select.POLLIN)
    return bool(poll.poll(0))
