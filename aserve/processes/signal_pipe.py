"""The signals of a process that waits in a selector.

Owns:     SignalPipe: handlers that only let a signal be read from a descriptor (signal.set_wakeup_fd), and what was there before.
Thread:   the main thread.
Not here: what a signal means (supervisor.py); a process with an event loop (lifecycle/signals.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any

from ..core import forks
from ..lifecycle.signals import own_wakeup_fd

READ_BYTES = 4096


class SignalPipe:
    """Signals, read as octets, in the order in which they came."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        own_wakeup_fd(self._writing)
        self._earlier: dict[signal.Signals, Any] = {number: signal.signal(number, _do_nothing) for number in numbers}
        forks.own_handlers(self._earlier)  # what is for a process that a hook forks must not be read here

    def fileno(self) -> int:
        """Return the descriptor that can be read when a signal has come."""
        return self._reading

    def read(self) -> list[signal.Signals]:
        """Return the signals that have come since the last time."""
        try:
            # Others come if code of others handles them: real-time signals, which have no names, too.
            return [signal.Signals(octet) for octet in os.read(self._reading, READ_BYTES) if octet in self._earlier]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Put back what was there before. In a forked child too: what comes for it must not be read by its parent."""
        for number, handler in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's
        own_wakeup_fd(-1)
        forks.disown_handlers()
        os.close(self._reading)
        os.close(self._writing)


def _do_nothing(number: int, frame: Any) -> None:
    """Let the signal be written to the pipe; one that is ignored, or kills, is not."""


@contextlib.contextmanager
def block_signals() -> Iterator[set[int | signal.Signals]]:
    """
    Let signals wait: one for a child that is a microsecond old must not be taken for its parent's.

    Yield those that were blocked before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals(before: Iterable[int]) -> None:
    """Let those come that have waited since the program of before was left within `block_signals`, which yielded `before`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
