"""Locks among processes, which a process lets go when it dies, however that happens.

Owns:     Locks: one for what is ours, for a moment; the numbered ones of `uwsgi.lock`, for as long as the app likes; those of
          signals that run.
Thread:   any.
Spec:     fcntl(2), "Advisory record locking": a lock is of one octet of a file, which need not be there, and of a process.
Not here: what is done below them (caches.py, signals.py).

The kernel takes a lock from a process that ends, also by SIGKILL, and a process that is forked has none of its parent's. Among
the threads of one process something else stands before each.
"""

from __future__ import annotations

import fcntl
import operator
import os
import threading
import time
from typing import Any, Callable, TypeVar

from ..forks import weakly

Result = TypeVar("Result")

USER_COUNT = 256  # of uwsgi.lock(); a number of ours costs nothing, uWSGI has 1 unless `locks` says more
OURS = USER_COUNT
RUNNING = OURS + 1  # and so on: one for each signal
# Who waits for a lock of the app's tries again after this. Between two tries an interrupt of --request-timeout comes through, and
# the kernel sees no deadlock where it is only that two threads of one process wait, and not the process. Guess.
FIRST_SECONDS, MAX_SECONDS = 0.0005, 0.005


class Locks:
    """Those of one file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._forget_threads()
        os.register_at_fork(after_in_child=weakly(self._forget_threads))

    def _forget_threads(self) -> None:
        """Begin anew, in a process that was forked: its parent's threads are not here to let go."""
        self._ours = threading.Lock()
        self._held: dict[int, object] = {}  # those of the app that threads of this process have, or try to have

    # For a moment

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call this while no other thread of any process is in here."""
        # Between a lock and its release only calls into C: --request-timeout may raise in any thread, in any of Python's.
        with self._ours:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, OURS)
                return function(*arguments)
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, OURS)

    # Of the app

    def lock(self, number: int) -> None:
        """
        Wait until nobody has this lock, and take it.

        Raises:
            ValueError: there is no such lock.
            TypeError: it is no whole number. So for all of these.
        """
        number = check_lock(number)
        us, seconds = object(), FIRST_SECONDS
        try:
            while self._held.setdefault(number, us) is not us or not self._try(number):
                time.sleep(seconds)
                seconds = min(2 * seconds, MAX_SECONDS)
        except BaseException:
            self._let_go(number, us)
            raise

    def unlock(self, number: int) -> None:
        """
        Let this lock go, if a thread of this process has it.

        Raises:
            ValueError: there is no such lock.
        """
        number = check_lock(number)
        us = self._held.get(number)
        if us is not None:
            self._let_go(number, us)

    def is_locked(self, number: int) -> bool:
        """
        Whether somebody has this lock, in whatever process.

        Raises:
            ValueError: there is no such lock.
        """
        number = check_lock(number)
        us = object()
        try:
            return self._held.setdefault(number, us) is not us or not self._try(number)
        finally:
            self._let_go(number, us)

    def _let_go(self, number: int, us: object) -> None:
        if self._held.get(number) is us:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, number)
            self._held.pop(number, None)

    # Of signals that run

    def begin(self, signal: int) -> bool:
        """Note that this process runs the signal; return False if another does."""
        return self._try(RUNNING + signal)

    def end(self, signal: int) -> None:
        """Note that it runs it no more."""
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, RUNNING + signal)

    def _try(self, place: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:  # EACCES or EAGAIN
            return False
        return True


def check_lock(number: int) -> int:
    """
    Return the number of a lock.

    Raises:
        ValueError: there is none of this number.
        TypeError: it is no whole number.
    """
    index = operator.index(number)
    if not 0 <= index < USER_COUNT:
        raise ValueError(f"there is no lock {number}: they are 0 to {USER_COUNT - 1}")
    return index
