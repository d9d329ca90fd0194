"""The signals of a process that serves.

Owns:     the handlers that run() sets, and the app's own, which they call first; whether a signal is ignored; the end at a second signal.
Thread:   the main thread.
Not here: what a signal means to the server (running.py), what children inherit (forks.py), a process that has stopped and does
          not end (exits.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import Any, Callable, NoReturn

from . import forks
from .error_log import end_logs

logger = logging.getLogger("aserve")

STATUS = "/proc/self/status"


class Signals:
    """Handlers on an event loop, until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._earlier: dict[signal.Signals, Any] = {}
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

    def close(self) -> None:
        """Put the earlier handlers back."""
        for number, handler in self._earlier.items():
            self._loop.remove_signal_handler(number)
            if handler is not None:  # None: it is not Python's
                signal.signal(number, handler)  # uvloop would leave one that does nothing
        forks.disown_handlers()  # last: a child forked just now must not keep one of ours
        self._earlier.clear()

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


def is_ignored(number: signal.Signals) -> bool:
    """Whether this signal does nothing; PyPy takes what it was started with, as by `nohup`, for the default."""
    if signal.getsignal(number) is signal.SIG_IGN:
        return True
    with contextlib.suppress(OSError), open(STATUS) as file:  # Linux
        for line in file:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def end_at_once(number: signal.Signals) -> NoReturn:
    """End the process at once: a second signal asks for it."""

    def say() -> None:
        logger.warning("%s again: leaving at once", number.name)
        end_logs()

    forks.end_process(128 + number, say)
