"""The signals of a process with a selector.

Owns:     SignalPipe: handlers that let a signal be read from a descriptor (signal.set_wakeup_fd), and the earlier handlers.
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
    """Signals, read as octets, in the order of arrival."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        own_wakeup_fd(self._writing)
        early.wait()
        self._earlier: dict[signal.Signals, Any] = {number: signal.signal(number, _do_nothing) for number in numbers}
        forks.own_handlers(self._earlier)  # signals for a process forked by a hook must not be read here
        os.write(self._writing, bytes(early.came))
        early.came.clear()

    def fileno(self) -> int:
        """Return the descriptor, readable after a signal."""
        return self._reading

    def read(self) -> list[signal.Signals]:
        """Return the signals since the last time."""
        try:
            # Further signals come if foreign code handles them: also real-time signals, without names.
            return [signal.Signals(octet) for octet in os.read(self._reading, READ_BYTES) if octet in self._earlier]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Restore the earlier handlers. In a forked child too: the parent must not read the child's signals."""
        for number, handler in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: a handler of foreign C code
        own_wakeup_fd(-1)
        forks.disown_handlers()
        os.close(self._reading)
        os.close(self._writing)


def _do_nothing(number: int, frame: Any) -> None:
    """Do nothing: with a handler the signal is written to the pipe; an ignored or a deadly signal is not."""


@contextlib.contextmanager
def block_signals() -> Iterator[set[int | signal.Signals]]:
    """
    Let signals wait: a signal for a child in the first microsecond must not be taken for the parent's.

    Yield the signals blocked before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals(before: Iterable[int]) -> None:
    """Let signals through that have waited since the previous program called exec within `block_signals`, with the yielded `before`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
