"""Locks among processes, which a process lets go when it dies, however that happens.

Owns:     Locks: one for what is ours, for a moment; the numbered ones of `uwsgi.lock`, for as long as the app likes; those of
          signals that run.
Thread:   any.
Spec:     fcntl(2), "Advisory record locking": a lock is of one octet of a file, which need not be there, and of a process.
Not here: what is done below them (caches.py, signals.py).

The kernel takes a lock from a process that ends, also by SIGKILL, and a process that is forked has none of its parent's. Among
the threads of one process something else stands before each.

Python may call a finalizer, or a handler of a signal, in the midst of what is done under the lock, and these may be the app's. They
must not wait for what their own thread has: `run` raises Inside there. What is read then is read as it is; what is changed waits
until that thread is out (`after`). So does all that calls the app by itself, such as handlers of its logging.
"""

from __future__ import annotations

import fcntl
import operator
import os
import threading
import time
from collections import deque
from typing import Any, Callable, TypeVar

from ...core.forks import weakly

Result = TypeVar("Result")

USER_COUNT = 256  # of uwsgi.lock(); a number of ours costs nothing, uWSGI has 1 unless `locks` says more
OURS = USER_COUNT
RUNNING = OURS + 1  # and so on: one for each signal
# Who waits for a lock of the app's tries again after this. Between two tries an interrupt of --request-timeout comes through, and
# the kernel sees no deadlock where it is only that two threads of one process wait, and not the process. Guess.
FIRST_SECONDS, MAX_SECONDS = 0.0005, 0.005


class Inside(Exception):
    """This thread is under the lock already."""


class Locks:
    """Those of one file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._forget_threads()
        os.register_at_fork(after_in_child=weakly(self._forget_threads))

    def _forget_threads(self) -> None:
        """Begin anew, in a process that was forked: its parent's threads are not here to let go."""
        self._ours = threading.RLock()  # which knows its thread; nothing is done under it twice
        self._later: dict[int, deque[tuple[Callable[..., object], tuple[Any, ...]]]] = {}  # by thread
        self._held: dict[int, object] = {}  # those of the app that threads of this process have, or try to have

    # For a moment

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """
        Call this while no other thread of any process is in here.

        Raises:
            Inside: this thread is: it was interrupted there.
        """
        if self._ours._is_owned():  # type: ignore[attr-defined]
            raise Inside
        try:
            # Between a lock and its release only calls into C: --request-timeout may raise in any thread, in any of Python's.
            with self._ours:
                try:
                    fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, OURS)
                    return function(*arguments)
                finally:
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, OURS)
        finally:
            if self._later:
                self._call_later()

    def after(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call this as soon as this thread is not in `run`: at once, or at the end of what was interrupted."""
        if self._ours._is_owned():  # type: ignore[attr-defined]
            self._later.setdefault(threading.get_ident(), deque()).append((function, arguments))
        else:
            function(*arguments)

    def _call_later(self) -> None:
        later = self._later.get(threading.get_ident())
        while later:
            function, arguments = later.popleft()
            function(*arguments)

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
