"""The threads of an executor.

Owns:     WorkerThreads: who is at work, who is compensated for, who is written off; names and numbers.
Thread:   any, under one lock.
Not here: what they do, who sleeps (executor.py); who of those compensated for goes on (time_slices.py).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable, NamedTuple

logger = logging.getLogger("aserve")


class WorkerCounts(NamedTuple):
    """How many workers there are of each kind."""

    at_work: int = 0  # in a place of --threads
    idle: int = 0  # of these: they wait for something to do
    compensated: int = 0  # blocked by a slow reader: another has its place (as in ForkJoinPool)
    stuck: int = 0  # written off, and not yet ended
    written_off: int = 0  # since the start


class WorkerThreads:
    """At most `max_threads` at work, and `extra_threads` whose places others have taken: they are compensated for."""

    def __init__(self, work: Callable[[], None], max_threads: int, extra_threads: int) -> None:
        self._work = work
        self.max_threads = max_threads
        self._max_total = max_threads + extra_threads  # less when the system gives no more
        self._lock = threading.Lock()  # guards all below
        self.at_work: list[threading.Thread] = []
        self.compensated: dict[int, threading.Thread] = {}  # by identifier
        self._written_off: list[threading.Thread] = []
        self.written_off_count = 0  # since the start
        self._started_count = 0
        self._has_told_limit = False

    def start(self) -> bool:
        """
        Start another worker; False: there are as many as may be.

        Raises:
            RuntimeError: it would be the first, and the system gives no thread.
        """
        with self._lock:
            total = len(self.at_work) + len(self.compensated)
            if len(self.at_work) >= self.max_threads or total >= self._max_total:
                return False
            name = f"aserve-worker-{self._started_count + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                if not self._started_count:
                    raise  # a service that never had a worker
                logger.error("cannot start worker %d: %s; going on with %d", total + 1, exc, total)
                self._max_total = total
                return False
            self._started_count += 1
            self.at_work.append(thread)
            return True

    def compensate(self, thread_id: int) -> bool:
        """Free the place of a worker for another; False: too many are compensated for, or it is none of ours."""
        with self._lock:
            if len(self.compensated) >= self._max_total - self.max_threads:
                self._tell_limit()
                return False
            thread = self._take_out(thread_id)
            if thread is not None:
                self.compensated[thread_id] = thread
            return thread is not None

    def regain_slot(self, thread_id: int) -> bool:
        """Count one that was compensated for among those at work again; False: its place is taken, and it must end."""
        with self._lock:
            thread = self.compensated.pop(thread_id)
            self._has_told_limit = self._has_told_limit and bool(self.compensated)
            # At the end others have ended already, and there may be work left.
            if sum(other.is_alive() for other in self.at_work) >= self.max_threads:
                return False
            self.at_work.append(thread)
            return True

    def keep_slot(self, thread_id: int) -> bool:
        """Let one that was compensated for keep its place, if there is nobody else; False: there is."""
        with self._lock:
            if not self.at_work:
                self.at_work.append(self.compensated.pop(thread_id))
                return True
            return False

    def write_off(self, thread_id: int) -> None:
        """Count on a thread no longer."""
        with self._lock:
            thread = self.compensated.pop(thread_id, None) or self._take_out(thread_id)
            if thread is not None:
                self._written_off = [other for other in self._written_off if other.is_alive()] + [thread]
                self.written_off_count += 1

    def _take_out(self, thread_id: int) -> threading.Thread | None:
        for thread in self.at_work:
            if thread.ident == thread_id:
                self.at_work.remove(thread)
                return thread
        return None

    def _tell_limit(self) -> None:
        if not self._has_told_limit and self._max_total > self.max_threads:
            self._has_told_limit = True
            logger.warning(
                "%d responses outrun their readers, as many as --extra-threads has room for; "
                "others keep their worker threads until there is room",
                len(self.compensated),
            )

    def counts(self, idle_count: int) -> WorkerCounts:
        """Return how many there are, `idle_count` of which sleep."""
        at_work = len(self.at_work)
        return WorkerCounts(
            at_work, min(idle_count, at_work), len(self.compensated), len(self.stuck), self.written_off_count
        )

    @property
    def stuck(self) -> list[str]:
        """Names of those that were written off and have not ended."""
        return [thread.name for thread in self._written_off if thread.is_alive()]

    def name_of(self, thread_id: int) -> str:
        """Return the name of the worker with this identifier."""
        return next((thread.name for thread in self._all if thread.ident == thread_id), "a worker")

    def join(self, seconds: float) -> list[str]:
        """Wait for all to end, at most so long; return the names of those that have not."""
        deadline = time.monotonic() + seconds
        threads = self._all
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return [thread.name for thread in threads if thread.is_alive()]

    @property
    def _all(self) -> list[threading.Thread]:
        with self._lock:
            return [*self.at_work, *self.compensated.values()]
