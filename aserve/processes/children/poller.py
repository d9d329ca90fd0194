"""The events of a process without an event loop: descriptors that are ready, signals, and time.

Owns:     Poller: waiting for the next; the selector, the pipe of signals, the clock and the timers, until they are closed; whether clients wait.
Thread:   the supervisor's only one.
Not here: reading signals (signal_pipe.py), the clock and its timers (clock.py); what an event changes (../events.py).
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
    """What a supervisor waits for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.timers = Timers(clock)
        self.signals = SignalPipe(HANDLED)  # from now on they wait in it
        self.by_signal: dict[signal.Signals, OnSignal] = {}  # each of them
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.signals, selectors.EVENT_READ, self._on_signals)
        self.watch: Watch = watch_with(self.selector)

    def wait(self, until: float = NEVER) -> Iterator[Callable[[], object]]:
        """Wait for the next event, at most until this time; yield the call that handles it, and those of events that have come with it."""
        for key, _ in self.selector.select(self.longest_wait(min(until, self.timers.next_at))):
            yield key.data
        for timer in self.timers.pop_due():
            yield timer.run

    def longest_wait(self, until: float) -> float | None:
        """Return the seconds until this time, as `select` wants them."""
        return self.clock.seconds_to(until) if until != NEVER else None

    def close(self) -> None:
        """Let signals mean what they did before; in a forked child, too."""
        self.selector.close()
        self.signals.close()

    def _on_signals(self) -> None:
        for number in self.signals.read():
            self.by_signal[number](number.name)


def has_clients(listeners: Sequence[Listener]) -> bool:
    """Whether clients wait in the kernel's queue that no other process will serve: the next process serves those of a socket that was given."""
    poll = select.poll()
    for listener in listeners:
        if not listener.is_given:
            poll.register(listener.socket, select.POLLIN)
    return bool(poll.poll(0))
