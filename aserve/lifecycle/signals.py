"""The signals of a process that serves.

Owns:     the handlers of run(), which call the app's own first; whether a signal is ignored or blocked; the end at a second
          signal; kept_handlers, around code that must not change them.
Thread:   the main thread.
Not here: the server's reaction to a signal (server/running.py), handlers in children (core/forks.py), a process that has stopped and
          does not end (lifecycle/exits.py).
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
# two signals this close together count as one, and do not end the process at once.
SAME_SIGNAL_SECONDS = 0.5
STATUS = "/proc/self/status"
# All signals that the command handles in any of its processes.
HANDLED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCHLD,
)  # fmt: skip

_wakeup_fds: list[int] = []  # where this process reads its signals, if it is set


class Signals:
    """Handlers on an event loop, until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._earlier: dict[signal.Signals, Any] = {}
        self._blocked: set[int] = set()  # by the program, before
        self._have_run: list[signal.Signals] = []  # signals whose handler of the app has run

    def handle(self, number: signal.Signals, callback: Callable[[], object], is_once: bool = False) -> None:
        """
        Call `callback` on the loop when the signal comes; call the app's handler before it, with `is_once` only the first time.

        Python's own handler, which raises KeyboardInterrupt, is not the app's. An ignored signal is handled,
        too: a server that a shell has started in the background must end as well.
        """
        earlier = self._earlier[number] = signal.getsignal(number)
        if callable(earlier) and earlier is not signal.default_int_handler:
            logger.info("%s: the app's own handler, %s, runs before the server's", number.name, _name_of(earlier))
            self._loop.add_signal_handler(number, self._run_both, number, callback, is_once)
        else:
            self._loop.add_signal_handler(number, callback)
        forks.own_handlers({number: earlier})

    def unblock(self) -> None:
        """Unblock the handled signals, until `close`: the program, or its parent, may have blocked them."""
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, self._earlier) & {*self._earlier}

    def close(self) -> None:
        """Put the earlier handlers back."""
        for number, handler in self._earlier.items():
            self._loop.remove_signal_handler(number)
            if handler is not None:  # None: it was not set by Python
                signal.signal(number, handler)  # uvloop would leave a handler that does nothing
        forks.disown_handlers()  # last: a child that is forked just now must not keep these handlers
        self._earlier.clear()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)

    def _run_both(self, number: signal.Signals, callback: Callable[[], object], is_once: bool) -> None:
        if not is_once or number not in self._have_run:
            self._have_run.append(number)
            try:
                self._earlier[number](int(number), sys._getframe())  # as Python calls it
            except (SystemExit, KeyboardInterrupt):
                pass  # the handler wants the process to end, as the server does
            except BaseException:
                logger.exception("the app's own handler of %s failed", number.name)
        callback()


def _name_of(handler: Any) -> str:
    return f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"


def unblock_all() -> None:
    """Unblock all signals: the command may inherit blocked ones from its parent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def is_ignored(number: signal.Signals) -> bool:
    """Whether this signal is ignored; PyPy reports an inherited SIG_IGN, as by `nohup`, as the default."""
    if signal.getsignal(number) is signal.SIG_IGN:
        return True
    with contextlib.suppress(OSError), open(STATUS) as file:  # Linux
        for line in file:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def own_wakeup_fd(fd: int) -> None:
    """Write the number of each signal to this descriptor (signal.set_wakeup_fd); -1: to none."""
    signal.set_wakeup_fd(fd, warn_on_full_buffer=False)  # in a storm of signals a few suffice
    _wakeup_fds[:] = [fd] if fd >= 0 else []


@contextlib.contextmanager
def kept_handlers(what: str) -> Iterator[None]:
    """
    Run code of the user that may set handlers for the server's signals; restore the server's, and log that.

    An event loop of such code (loop.add_signal_handler) also replaces the wake-up descriptor, which is restored, too.
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
                "%s has set handlers for %s, which were removed: the server handles these signals; an app may set some while it is imported",
                what, names,
            )  # fmt: skip


def end_at_once(number: signal.Signals) -> NoReturn:
    """End the process at once: a second signal asks for it."""

    def say() -> None:
        logger.warning("%s again: leaving at once", number.name)
        end_logs()

    forks.end_process(128 + number, say)
