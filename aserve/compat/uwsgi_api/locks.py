"""Locks between processes, which the kernel releases when a process dies, even by SIGKILL.

Owns:     Locks: one for aserve's own data, held briefly; the numbered ones of `uwsgi.lock`, held as long as the app likes; those
          of running signals.
Thread:   any.
Spec:     fcntl(2), "Advisory record locking": a lock belongs to a process, and to one octet of a file, which need not exist.
Not here: the data that they guard (caches.py, signals.py).

A forked process has none of its parent's locks. Between the threads of one process, a Python lock or a dict stands before each.

Python may call a finalizer or a signal handler of the app while its thread holds the lock. These must not wait for a lock of their own
thread: `run` raises Inside. They then read without the lock, and defer changes until the thread has released it (`after`). Calls
into the app, such as its log handlers, are deferred as well.
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

USER_COUNT = 256  # of uwsgi.lock(); a lock costs nothing here; uWSGI has 1, or `locks`
OURS = USER_COUNT
RUNNING = OURS + 1  # the first of one for each signal
AREAS = RUNNING + 256  # the first of one for each area of memory
# How long to wait between two tries for a lock of the app. Between tries --request-timeout can interrupt the thread, and the kernel
# reports no deadlock when only two threads of one process wait, and not the whole process. Guess.
FIRST_SECONDS, MAX_SECONDS = 0.0005, 0.005


class Inside(Exception):
    """This thread holds the lock already."""


class Locks:
    """The locks on one file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._forget_threads()
        os.register_at_fork(after_in_child=weakly(self._forget_threads))

    def _forget_threads(self) -> None:
        """Begin anew in a forked process: its parent's threads, which would release their locks, do not exist here."""
        self._ours = threading.RLock()  # an RLock knows its owner; it is never taken twice
        self._later: dict[int, deque[tuple[Callable[..., object], tuple[Any, ...]]]] = {}  # by thread
        self._held: dict[int, object] = {}  # the app's locks that threads of this process hold, or wait for

    # Held briefly

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """
        Call a function while no other thread of any process is in `run`.

        Raises:
            Inside: this thread is in `run` already, and was interrupted there.
        """
        if self._ours._is_owned():  # type: ignore[attr-defined]
            raise Inside
        try:
            # Between taking and releasing there are only calls into C: --request-timeout may raise in Python code of any thread.
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
        """Call a function as soon as this thread is not in `run`: at once, or at the end of the interrupted call."""
        if self._ours._is_owned():  # type: ignore[attr-defined]
            self._later.setdefault(threading.get_ident(), deque()).append((function, arguments))
        else:
            function(*arguments)

    def _call_later(self) -> None:
        later = self._later.get(threading.get_ident())
        while later:
            function, arguments = later.popleft()
            function(*arguments)

    # The app's locks

    def lock(self, number: int) -> None:
        """
        Wait until this lock is free, and take it.

        Raises:
            ValueError: there is no such lock.
            TypeError: the number is no whole number. The same for all of these.
        """
        self._hold(check_lock(number))

    def _hold(self, number: int) -> None:
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
        Release this lock, if a thread of this process holds it.

        Raises:
            ValueError: there is no such lock.
        """
        self._release(check_lock(number))

    def _release(self, number: int) -> None:
        us = self._held.get(number)
        if us is not None:
            self._let_go(number, us)

    def lock_area(self, area: int) -> None:
        """Wait until the lock of an area of memory is free, and take it."""
        self._hold(AREAS + area)

    def unlock_area(self, area: int) -> None:
        """Release the lock of an area, if a thread of this process holds it."""
        self._release(AREAS + area)

    def is_locked(self, number: int) -> bool:
        """
        Whether any process holds this lock.

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

    # The locks of running signals

    def begin(self, signal: int) -> bool:
        """Note that this process runs the signal; return False if another process does."""
        return self._try(RUNNING + signal)

    def end(self, signal: int) -> None:
        """Note that this process does not run the signal any more."""
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, RUNNING + signal)

    def _try(self, place: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:  # EACCES or EAGAIN
            return False
        return True


def check_lock(number: int) -> int:
    """
    Check the number of a lock, and return it.

    Raises:
        ValueError: there is no lock of this number.
    """
    index = operator.index(number)
    if not 0 <= index < USER_COUNT:
        raise ValueError(f"there is no lock {number}: they are 0 to {USER_COUNT - 1}")
    return index
