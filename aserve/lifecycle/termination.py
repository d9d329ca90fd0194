"""SIGTERM in a process in a poll, without an event loop: the request to end.

Owns:     Termination.
Thread:   the main thread.
Not here: a process with an event loop (signals.py), the supervisor's signals (processes/children/signal_pipe.py).

Python's handler runs between two instructions of Python. A signal behind the last instruction and before the poll finds the handler not run, and
nothing would wake the poll. So the signal itself is written to a pipe (signal.set_wakeup_fd), polled by the process, too.
"""

from __future__ import annotations

import contextlib
import os

from .signals import own_wakeup_fd

READ_BYTES = 4096


class Termination:
    """Whether this process has been asked to end, and a descriptor made readable by a signal."""

    def __init__(self) -> None:
        self.is_requested = False
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake_by_signals(self) -> None:
        own_wakeup_fd(self._writing)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reading

    def request(self) -> None:
        """Ask for the end; called by a signal handler. The poll wakes also where code of the app has taken the wake-up descriptor."""
        self.is_requested = True
        if self._writing >= 0:
            with contextlib.suppress(BlockingIOError):  # full, so readable
                os.write(self._writing, b"\0")

    def clear(self) -> None:
        """Make the descriptor unreadable until the next signal: signals other than SIGTERM wake the poll, too."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, READ_BYTES)

    def close(self) -> None:
        """Close the pipe; the signal may come again."""
        own_wakeup_fd(-1)
        writing, self._writing = self._writing, -1
        os.close(writing)
        os.close(self._reading)
