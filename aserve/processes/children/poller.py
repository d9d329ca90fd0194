"""The events of a process without an event loop: ready descriptors, signals, and time.

Owns:     Poller: waiting for the next; the selector, the pipe of signals, the clock and the timers, until they are closed; whether clients wait.
Thread:   the supervisor's only one.
Not here: reading signals (signal_pipe.py), the clock and the timers (clock.py); the changes by an event (../events.py).
"""

from __future__ import annotations

import select
import selectors
import signal
from collections.abc import Iterator, Sequence
from typing import Callable

from ...connections.listeners import Listener
from ...lifecycle.control import Watch, watch_with
from ..fleet.facts import NEVER
from .clock import Clock, Timers
from .signal_pipe import SignalPipe

OnSignal = Callable[[str], None]  # with the name of the signal
HANDLED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCHLD,
)  # fmt: skip


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
