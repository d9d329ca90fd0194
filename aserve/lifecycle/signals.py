"""The signals of a process that serves.

Owns:     the handlers that run() sets, and the app's own, which they call first; whether a signal is ignored or blocked; the end at a second
          signal; kept_handlers, around code that must not have them.
Thread:   the main thread.
Not here: what a signal means to the server (server/running.py), what children inherit (core/forks.py), a process that has stopped and does
          not end (lifecycle/exits.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from typing import Any, Callable, NoReturn

from ..core import forks
from ..core.error_log import end_logs

logger = logging.getLogger("aserve")

# A terminal, `make` and `timeout` send one Ctrl-C or SIGTERM to the process and to its group:
# two signals this close together are one, and no wish to end at once.
SAME_SIGNAL_SECONDS = 0.5
STATUS = "/proc/self/status"
# What the command handles in one of its processes or another.
HANDLED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCHLD,
)  # fmt: skip

_wakeup_fds: list[int] = []  # where this process reads its signals, if it does


class Signals:
    """Handlers on an event loop, until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._earlier: dict[signal.Signals, Any] = {}
        self._blocked: set[int] = set()  # before, by the program
        self._have_run: list[signal.Signals] = []  # signals whose own handler of the app has run

    def handle(self, number: signal.Signals, callback: Callable[[], object], is_once: bool = False) -> None:
        """
        Call `callback` on the loop when the signal comes; before it, call the app's handler, if `is_once` only the first time.

        Python's own handler, which raises KeyboardInterrupt, is not the app's. A signal that was ignored is
        handled, too: a server that a shell has started in the background must end as well.
        """
        earlier = self._earlier[number] = signal.getsignal(number)
        if callable(earlier) and earlier is not signal.default_int_handler:
            logger.info("%s: the app's own handler, %s, runs before the server's", number.name, _name_of(earlier))
            self._loop.add_signal_handler(number, self._run_both, number, callback, is_once)
        else:
            self._loop.add_signal_handler(number, callback)
        forks.own_handlers({number: earlier})

    def unblock(self) -> None:
        """Let those come that are handled, until `close`: the program, or what has started it, may block them."""
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, self._earlier) & {*self._earlier}

    def close(self) -> None:
        """Put the earlier handlers back."""
        for number, handler in self._earlier.items():
            self._loop.remove_signal_handler(number)
            if handler is not None:  # None: it is not Python's
                signal.signal(number, handler)  # uvloop would leave one that does nothing
        forks.disown_handlers()  # last: a child forked just now must not keep one of ours
        self._earlier.clear()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)

    def _run_both(self, number: signal.Signals, callback: Callable[[], object], is_once: bool) -> None:
        if not is_once or number not in self._have_run:
            self._have_run.append(number)
            try:
                self._earlier[number](int(number), sys._getframe())  # as Python calls it
            except (SystemExit, KeyboardInterrupt):
                pass  # it wants the process to end, as the server does
            except BaseException:
                logger.exception("the app's own handler of %s failed", number.name)
        callback()


def _name_of(handler: Any) -> str:
    return f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"


def unblock_all() -> None:
    """Let all signals come: whatever starts the command may block some, and processes inherit that."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def is_ignored(number: signal.Signals) -> bool:
    """Whether this signal does nothing; PyPy takes what it was started with, as by `nohup`, for the default."""
    if signal.getsignal(number) is signal.SIG_IGN:
        return True
    with contextlib.suppress(OSError), open(STATUS) as file:  # Linux
        for line in file:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def own_wakeup_fd(fd: int) -> None:
    """Have the number of each signal that comes written there (signal.set_wakeup_fd); -1: nowhere."""
    signal.set_wakeup_fd(fd, warn_on_full_buffer=False)  # a storm of them says no more than a few
    _wakeup_fds[:] = [fd] if fd >= 0 else []


@contextlib.contextmanager
def kept_handlers(what: str) -> Iterator[None]:
    """
    Run code of others below this that may set handlers for the server's signals; put ours back, and say so.

    A loop of such code's own (loop.add_signal_handler) takes where they are read, too.
    """
    before = {number: signal.getsignal(number) for number in HANDLED}
    try:
        yield
    finally:
        taken = [number for number, handler in before.items() if signal.getsignal(number) != handler]
        for number in taken:
            signal.signal(number, signal.SIG_DFL if before[number] is None else before[number])
        for fd in _wakeup_fds:
            signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        if taken:
            names = ", ".join(number.name for number in taken)
            logger.warning(
                "%s has set handlers of its own for %s, which are not kept: they are the server's here; an app may set some as it is imported",
                what, names,
            )  # fmt: skip


def end_at_once(number: signal.Signals) -> NoReturn:
    """End the process at once: a second signal asks for it."""

    def say() -> None:
        logger.warning("%s again: leaving at once", number.name)
        end_logs()

    forks.end_process(128 + number, say)
