"""The signals of a process that waits in a selector.

Owns:     SignalPipe: handlers that only let a signal be read from a descriptor (signal.set_wakeup_fd), and the earlier handlers.
Thread:   the main thread.
Not here: the meaning of a signal (../events.py); a process with an event loop (lifecycle/signals.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any

from ...core import forks
from ...lifecycle.signals import early, own_wakeup_fd

READ_BYTES = 4096


class SignalPipe:
    """Signals, read as octets, in the order in which they came."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        own_wakeup_fd(self._writing)
        early.wait()
        self._earlier: dict[signal.Signals, Any] = {number: signal.signal(number, _do_nothing) for number in numbers}
        forks.own_handlers(self._earlier)  # signals for a process that a hook forks must not be read here
        os.write(self._writing, bytes(early.came))
        early.came.clear()

    def fileno(self) -> int:
        """Return the descriptor that can be read when a signal has come."""
        return self._reading

    def read(self) -> list[signal.Signals]:
        """Return the signals that have come since the last time."""
        try:
            # Further signals come if other code handles them: also real-time signals, which have no names.
            return [signal.Signals(octet) for octet in os.read(self._reading, READ_BYTES) if octet in self._earlier]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Restore the earlier handlers. In a forked child too: its parent must not read the child's signals."""
        for number, handler in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's
        own_wakeup_fd(-1)
        forks.disown_handlers()
        os.close(self._reading)
        os.close(self._writing)


def _do_nothing(number: int, frame: Any) -> None:
    """Do nothing: with a handler the signal is written to the pipe; an ignored or a deadly signal is not."""


@contextlib.contextmanager
def block_signals() -> Iterator[set[int | signal.Signals]]:
    """
    Let signals wait: one for a child that is a microsecond old must not be taken for its parent's.

    Yield the signals that were blocked before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals(before: Iterable[int]) -> None:
    """Let signals through that have waited since the previous program called exec within `block_signals`, which yielded `before`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
