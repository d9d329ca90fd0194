"""The exit of this process, delayed by threads and processes of the app up to a limit.

Owns:     begin_ending, the time limit; hold_signals, after the server's handlers are gone; bound_exit, the last call; end_in_time; the log lines
          about threads and processes of the app behind a late end, and the end at the time limit.
Thread:   the main thread calls; a second thread waits and writes.
Not here: signals while serving (lifecycle/signals.py), the drain of requests (server/server.py), the supervisor's limit for a hanging worker
          (processes/children/children.py).

Python waits at exit, without a limit: first for threads that are not daemons and for threads of executors, then for `atexit` functions, and for
processes of multiprocessing. Here the wait may take until the end of --drain-timeout, shared with requests, or a second if nothing is left; in a
process that has not served, EXIT_SECONDS. `atexit` functions have EXIT_SECONDS more.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn

from ..connections.monitoring.stacks import ORDER, describe_stacks
from ..core import forks
from ..core.error_log import end_logs
from ..core.errors import FAILED
from ..core.named_tuple import NamedTuple
from ..workers.threads import OwnThread
from . import signals
from .signals import end_at_once

logger = logging.getLogger("aserve")

# Threads of pools end with the interpreter: report threads still running after this. Guess.
REPORT_SECONDS = 1.0
# A second less than the supervisor's limit (ENDING_SECONDS in processes/children/children.py), for the stacks in the log.
EXIT_SECONDS = 4.0

# Signals to an ending process: two for the end, and two handled only while serving, and deadly by default.
LATE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

_began_at: list[float] = []  # when the process has begun to end, by time.monotonic()
_ends_at: list[float] = []


class Remaining(NamedTuple):
    """The threads and processes that hold up the interpreter's end."""

    threads: list[str]
    processes: list[Any]  # of multiprocessing

    def __str__(self) -> str:
        names = [f"thread {name}" for name in self.threads]
        return ", ".join([*names, *(f"process {child.name} (pid {child.pid})" for child in self.processes)])


def begin_ending(seconds: float) -> None:
    """Set the time limit for the end of this process, from now on; the first call counts."""
    if not _ends_at:
        _began_at.append(time.monotonic())
        _ends_at.append(_began_at[0] + seconds)


def hold_signals() -> None:
    """
    Handle signals of the command during the end, so that none ends the process by default.

    `timeout`, and Ctrl-C under `make`, signal the process and the group: the second signal may come after the last response, and would cut off the
    app's exit functions. A still later signal ends the process at once.
    """
    free = [number for number in LATE if signal.getsignal(number) is not _on_late_signal]
    forks.own_handlers({number: signal.signal(number, _on_late_signal) for number in free})


def _on_late_signal(number: int, frame: Any) -> None:
    if number in (signal.SIGTERM, signal.SIGINT) and not _is_same():
        end_at_once(signal.Signals(number))


def _is_same() -> bool:
    """Whether a signal that comes now belongs to the one that has begun the end."""
    return bool(_began_at) and time.monotonic() - _began_at[0] <= signals.SAME_SIGNAL_SECONDS


@atexit.register  # before the import of the app, so that the app's functions run first
def _ignore_late_signals() -> None:
    """Ignore late signals, and signals with a handler of the app's, as of a timer: the interpreter's shutdown resets handlers to the default, but
    leaves ignored signals."""
    for number in signal.valid_signals() if _ends_at else ():
        if callable(signal.getsignal(number)) and (number not in (signal.SIGTERM, signal.SIGINT) or _is_same()):
            signal.signal(number, signal.SIG_IGN)


@atexit.register  # as above
def _skip_what_is_no_file() -> None:
    """Spare an object of the app in the place of a standard stream, if without `flush`: the interpreter's last call would make the status 120."""
    for name in ("stdout", "stderr"):
        if not hasattr(getattr(sys, name, None), "flush"):
            setattr(sys, name, None)


def end_in_time(seconds: float) -> None:
    """End this process after `seconds` even if a thread of the app runs on: without a supervisor nothing else would."""
    timer = threading.Timer(seconds, os._exit, [FAILED])
    timer.daemon = True
    timer.start()


def bound_exit(status: int) -> None:
    """
    Bound the end of this process against the app, log the reason of a late end, and let a signal end the process; called last.

    The exit status is then `status`, or 1 in place of 0. The work of `atexit` functions is unknown before: also a failed import may have left some.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    hold_signals()
    now = time.monotonic()
    ends_at = max(_ends_at[0], now + REPORT_SECONDS) if _ends_at else now + EXIT_SECONDS
    threading.Thread(target=_watch, args=(ends_at, status or FAILED), name="aserve-ending", daemon=True).start()


def _watch(ends_at: float, status: int) -> None:
    """Log after REPORT_SECONDS the reason of the late end; end the process at the time limit."""
    time.sleep(REPORT_SECONDS)
    remaining = find_remaining()
    if any(remaining):
        left = max(ends_at - time.monotonic(), 0.0)
        logger.warning(
            "waiting for the app's %s; a second signal ends it, or the time limit, in %.0f s", remaining, left
        )
    _sleep_until(ends_at)
    remaining = find_remaining()
    if not any(remaining):
        _sleep_until(ends_at + EXIT_SECONDS)
        remaining = find_remaining()
    _end(remaining, status)


def _sleep_until(moment: float) -> None:
    time.sleep(max(moment - time.monotonic(), 0.0))


def _end(remaining: Remaining, status: int) -> NoReturn:
    """End this process at the time limit; log the stacks, and end processes of multiprocessing, too."""

    def say() -> None:
        what = f"the app's {remaining}" if any(remaining) else "what the app does at exit"
        names = remaining.threads or [threading.main_thread().name]
        stacks = describe_stacks(names).rstrip()
        logger.warning("the time to end is over: leaving %s unfinished; stacks (%s):\n%s", what, ORDER, stacks)
        end_logs()

    for child in remaining.processes:
        child.terminate()
    forks.end_process(status, say)


def find_remaining() -> Remaining:
    # The interpreter joins the threads of executors, also daemons, as threads started from a daemon thread are.
    executors = sys.modules.get("concurrent.futures.thread")
    pooled, main = getattr(executors, "_threads_queues", ()), threading.main_thread()
    waited = [
        thread.name
        for thread in threading.enumerate()
        if thread in pooled or not (thread.daemon or thread is main or isinstance(thread, OwnThread))
    ]
    multiprocessing = sys.modules.get("multiprocessing.process")  # not imported: the app has no such processes
    return Remaining(waited, multiprocessing.active_children() if multiprocessing is not None else [])
