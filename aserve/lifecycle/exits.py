"""The exit of this process: what of the app keeps it, and for how long.

Owns:     begin_ending, which sets the time limit; hold_signals, once none of those that serve is handled; bound_exit, which is called last;
          end_in_time; the log lines about threads and processes of the app that keep a stopped process, and its end at the time limit.
Thread:   the main thread calls; a thread of its own waits and writes.
Not here: signals while it serves (lifecycle/signals.py), the drain of requests (server/server.py), what the supervisor does about a worker that
          does not end (processes/children.py).

Python waits at exit, without a limit: first for threads that are not daemons and for those of executors, then for what `atexit` calls, and
for processes of multiprocessing. All of it may take until the end of the drain (--drain-timeout, which requests use up, too),
or a second if nothing is left of that; a process that has not served has EXIT_SECONDS. `atexit` functions have EXIT_SECONDS more.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
from typing import Any, NamedTuple, NoReturn

from ..connections.stacks import ORDER, describe_stacks
from ..core import forks
from ..core.error_log import end_logs
from ..core.errors import FAILED
from ..workers.threads import OwnThread
from . import signals
from .signals import end_at_once

logger = logging.getLogger("aserve")

# Threads of pools end with the interpreter: report those that are still there after this. Guess.
REPORT_SECONDS = 1.0
# A second less than the supervisor's patience (ENDING_SECONDS in processes/children.py), so that the process itself says what it is at.
EXIT_SECONDS = 4.0

# What comes to a process that ends: two that end it, and two that are obeyed only while it serves, and would kill it by default.
LATE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

_began_at: list[float] = []  # when the process has begun to end, and the time limit
_ends_at: list[float] = []


class Remaining(NamedTuple):
    """What the interpreter will wait for."""

    threads: list[str]
    processes: list[Any]  # of multiprocessing

    def __str__(self) -> str:
        names = [f"thread {name}" for name in self.threads]
        return ", ".join([*names, *(f"process {child.name} (pid {child.pid})" for child in self.processes)])


def begin_ending(seconds: float) -> None:
    """Let all that keeps this process take so long from now on; the first call counts."""
    if not _ends_at:
        _began_at.append(time.monotonic())
        _ends_at.append(_began_at[0] + seconds)


def hold_signals() -> None:
    """
    Let no signal end this process by the default from now on; it is the command's, and has begun to end.

    `timeout`, and a terminal's Ctrl-C under `make`, signal the process and its group: the second may come when all requests have been
    answered, and would cut off what the app does at exit. One that comes later ends the process at once.
    """
    forks.own_handlers({number: signal.signal(number, _on_late_signal) for number in LATE})


def _on_late_signal(number: int, frame: Any) -> None:
    if number in (signal.SIGTERM, signal.SIGINT) and not _is_same():
        end_at_once(signal.Signals(number))


def _is_same() -> bool:
    """Whether a signal that comes now has come together with that by which the process has begun to end."""
    return bool(_began_at) and time.monotonic() - _began_at[0] <= signals.SAME_SIGNAL_SECONDS


@atexit.register  # before the app is imported, so that it is called after what that registers
def _ignore_late_signals() -> None:
    """The interpreter puts the defaults in the place of handlers while it takes itself down, but leaves signals that are ignored."""
    for number in LATE:
        if signal.getsignal(number) is _on_late_signal and _is_same():
            signal.signal(number, signal.SIG_IGN)


def end_in_time(seconds: float) -> None:
    """End this process then if anything keeps it, as a thread of the app's does: without a supervisor nothing else would."""
    timer = threading.Timer(seconds, os._exit, [FAILED])
    timer.daemon = True
    timer.start()


def bound_exit(status: int) -> None:
    """
    End this process in time even if the app keeps it, and log what does, and let a signal end it; called last.

    Its exit status is then `status`, or 1 where that is 0. Nothing is done where nothing keeps a process that has not served.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    remains = any(find_remaining())
    if not (remains or _ends_at):
        return
    if remains:
        hold_signals()
    now = time.monotonic()
    ends_at = max(_ends_at[0], now + REPORT_SECONDS) if _ends_at else now + EXIT_SECONDS
    threading.Thread(target=_watch, args=(ends_at, status or FAILED), name="aserve-ending", daemon=True).start()


def _watch(ends_at: float, status: int) -> None:
    """Log after a moment what keeps the process; end it at the time limit."""
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
    """End this process, which has had its time; say what it is at, and have processes of multiprocessing end, too."""

    def say() -> None:
        what = f"the app's {remaining}" if any(remaining) else "what the app does at exit"
        names = remaining.threads or [threading.main_thread().name]
        stacks = describe_stacks(names).rstrip()
        logger.warning("the time to end is over: leaving %s unfinished; at (%s):\n%s", what, ORDER, stacks)
        end_logs()

    for child in remaining.processes:
        child.terminate()
    forks.end_process(status, say)


def find_remaining() -> Remaining:
    """Return what the interpreter will wait for."""
    # It joins the threads of executors by itself, also where they are daemons: a thread that is one has filled the pool.
    executors = sys.modules.get("concurrent.futures.thread")
    pooled, main = getattr(executors, "_threads_queues", ()), threading.main_thread()
    waited = [
        thread.name
        for thread in threading.enumerate()
        if thread in pooled or not (thread.daemon or thread is main or isinstance(thread, OwnThread))
    ]
    multiprocessing = sys.modules.get("multiprocessing.process")  # otherwise the app has no such processes
    return Remaining(waited, multiprocessing.active_children() if multiprocessing is not None else [])
