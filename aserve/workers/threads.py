"""The threads of an executor.

Owns:     OwnThread; Watcher; WorkerThreads: at work, compensated or written off; their names and numbers.
Thread:   any, under one lock.
Not here: the work and the sleep of workers (executor.py); the turns of compensated ones (time_slices.py).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable

from ..core.log_once import LogOnce
from ..core.named_tuple import NamedTuple

logger = logging.getLogger("aserve")


class OwnThread(threading.Thread):
    """
    A thread of ours with code of the app: the interpreter does not wait for this thread at exit, but for threads started here.

    Started as a daemon. Threads inherit the flag from their maker (threading.Thread), so `daemon` is False from the run on: a thread started by a
    view is no daemon, as under any other server, and the interpreter waits for the thread.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._call = target
        self._runs = False

    @property
    def daemon(self) -> bool:  # type: ignore[override]
        """Whether the run has not begun: the interpreter reads this at the start, and threads made by this one later."""
        return not self._runs

    def run(self) -> None:
        """Run the target."""
        self._runs = True
        self._call()


class Watcher(threading.Thread):
    """A thread of ours that sleeps, looks, and sleeps again, without code of the app: a daemon left out of `aserve stacks`."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)


class WorkerCounts(NamedTuple):
    """How many workers there are of each kind."""

    at_work: int = 0  # in a slot of --threads
    idle: int = 0  # of these: waiting for a request
    compensated: int = 0  # slowed down by readers: other threads have the slots (as in ForkJoinPool)
    stuck: int = 0  # written off, and not yet ended
    written_off: int = 0  # since the start
    aside: int = 0  # serving WebSockets: other threads have the slots
    lacking: int = 0  # of those allowed to be at work: wanted lately, and not started by the system


# After a refusal of the system the next thread is tried when the first of these has passed; after the second the refusal is forgotten. Guesses.
RETRY_SECONDS, LACK_SECONDS = 1.0, 60.0


class WorkerThreads:
    """At most `max_threads` at work, and at most `extra_threads` compensated, with slots taken by other threads."""

    def __init__(self, work: Callable[[], None], max_threads: int, extra_threads: int) -> None:
        self._work = work
        self.max_threads = max_threads
        self._max_total = self._most = max_threads + extra_threads  # the first is less while the system starts no more
        self._lacked_at = -LACK_SECONDS  # time of the system's last refusal
        self._lock = threading.Lock()  # guards all below
        self.at_work: list[threading.Thread] = []
        self.compensated: dict[int, threading.Thread] = {}  # by identifier
        self._aside: set[int] = set()  # the compensated ones outside the limit of `extra_threads`
        self._written_off: list[threading.Thread] = []
        self.written_off_count = 0  # since the start
        self._started_count = 0
        self._limit_line, self._lack_line = LogOnce(logger, logging.WARNING), LogOnce(logger, logging.ERROR)

    def start(self) -> bool:
        """
        Start another worker; False: the allowed number is reached, or the system starts no more.

        Raises:
            RuntimeError: there is no worker, and the system starts no thread.
        """
        with self._lock:
            total = len(self.at_work) + self._compensated_count
            if self._max_total < self._most and time.monotonic() >= self._lacked_at + RETRY_SECONDS:
                self._max_total = self._most  # the system may have room again
            if len(self.at_work) >= self.max_threads or total >= self._max_total:
                return False
            name = f"aserve-worker-{self._started_count + 1}"
            thread = OwnThread(self._work, name)
            try:
                thread.start()
            except RuntimeError as exc:
                if not self._started_count:
                    raise  # no worker at all: nothing can be served
                self._max_total, self._lacked_at = total, time.monotonic()
                refusal = exc
            else:
                if self._max_total == self._most:
                    self._lack_line.reset()
                self._started_count += 1
                self.at_work.append(thread)
                return True
        # Without the lock, as in compensate(): a log handler of the app's may take long.
        self._lack_line.log("cannot start worker %d: %s; going on with %d", total + 1, refusal, total)
        return False

    def compensate(self, thread_id: int) -> bool:
        """Free the slot of a worker for another; False: too many are compensated, or the thread is no worker."""
        with self._lock:
            count = self._compensated_count
            if count < self._max_total - self.max_threads:
                thread = self._take_out(thread_id)
                if thread is not None:
                    self.compensated[thread_id] = thread
                return thread is not None
        if self._max_total > self.max_threads:
            self._limit_line.log(
                "%d responses outrun their readers, as many as --extra-threads has room for; "
                "others keep their worker threads until there is room",
                count,
            )
        return False

    def set_aside(self, thread_id: int) -> bool:
        """Free the slot of a worker for another, beyond `extra_threads`; False: the thread is no worker in a slot."""
        with self._lock:
            thread = self._take_out(thread_id)
            if thread is not None:
                self.compensated[thread_id] = thread
                self._aside.add(thread_id)
            return thread is not None

    def regain_slot(self, thread_id: int) -> bool:
        """Count a compensated worker as at work again; False: the slot is taken, and the worker must end."""
        with self._lock:
            thread = self.compensated.pop(thread_id)
            self._aside.discard(thread_id)
            if not self.compensated:
                self._limit_line.reset()
            # While the executor stops, other workers have ended already, and there may be work left.
            if sum(other.is_alive() for other in self.at_work) >= self.max_threads:
                return False
            self.at_work.append(thread)
            return True

    def keep_slot(self, thread_id: int) -> bool:
        """Count a compensated worker as at work again if no other worker is; False: another is."""
        with self._lock:
            if not self.at_work:
                self.at_work.append(self.compensated.pop(thread_id))
                self._aside.discard(thread_id)
                return True
            return False

    def write_off(self, thread_id: int) -> None:
        """Free the slot of a hanging thread, and count the thread as written off."""
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

    def counts(self, idle_count: int) -> WorkerCounts:
        """Return the number of workers of each kind; `idle_count` of those at work are idle."""
        at_work = len(self.at_work)
        return WorkerCounts(
            at_work, min(idle_count, at_work), self._compensated_count, len(self.stuck), self.written_off_count,
            len(self._aside), self._lacking_count,
        )  # fmt: skip

    @property
    def _lacking_count(self) -> int:
        if time.monotonic() > self._lacked_at + LACK_SECONDS:
            return 0
        return max(self.max_threads - self._max_total, 0)

    @property
    def _compensated_count(self) -> int:
        return len(self.compensated) - len(self._aside)

    @property
    def stuck(self) -> list[str]:
        """Names of the workers written off and not yet ended."""
        return [thread.name for thread in self._written_off if thread.is_alive()]

    def name_of(self, thread_id: int) -> str:
        """Return the name of the worker with this identifier."""
        return next((thread.name for thread in self._all if thread.ident == thread_id), "a worker")

    def join(self, seconds: float) -> list[str]:
        """Wait for all workers to end, at most this long; return the names of the rest."""
        deadline = time.monotonic() + seconds
        threads = self._all
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return [thread.name for thread in threads if thread.is_alive()]

    @property
    def _all(self) -> list[threading.Thread]:
        with self._lock:
            return [*self.at_work, *self.compensated.values()]
