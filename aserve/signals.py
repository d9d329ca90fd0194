"""The signals of a process that serves, and of one that has stopped and does not end.

Owns:     the handlers that run() sets, and the app's own, which they call first; the log
          line about threads or processes of the app that keep a stopped process.
Thread:   the main thread; a separate thread writes that line.
Not here: what a signal means to the server (running.py), what children inherit (forks.py).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from typing import Any, Callable, NoReturn

from . import forks

logger = logging.getLogger("aserve")

# Threads of pools end with the interpreter: report those that are still there after this. Guess.
REPORT_SECONDS = 1.0


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


def end_at_once(number: signal.Signals) -> NoReturn:
    """End the process at once: a second signal asks for it."""

    def say() -> None:
        logger.warning("%s again: leaving at once", number.name)
        logging.shutdown()

    forks.end_process(128 + number, say)


# After the end


def log_what_remains() -> None:
    """
    Log which threads or processes of the app keep this process, if any do, and let a signal end it; called last.

    Python waits for threads that are not daemons and for processes of multiprocessing; it terminates daemons among these.
    """
    if threading.current_thread() is not threading.main_thread() or not _what_remains():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        earlier = signal.signal(number, lambda number, _: end_at_once(signal.Signals(number)))
        forks.own_handlers({number: earlier})
    threading.Thread(target=_log_after_a_moment, name="aserve-ending", daemon=True).start()


def _log_after_a_moment() -> None:
    time.sleep(REPORT_SECONDS)
    remaining = _what_remains()
    if remaining:
        logger.warning("waiting for the app's %s; a second signal ends it", ", ".join(remaining))


def _what_remains() -> list[str]:
    """Return the names of what the interpreter will wait for."""
    names = [
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread()
    ]
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:  # otherwise the app has no such processes
        names += [f"process {child.name} (pid {child.pid})" for child in multiprocessing.active_children()]
    return names
