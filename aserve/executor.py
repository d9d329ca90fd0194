"""The seam: the batched hand-off from the event loop to worker threads and back.

Owns:     the two queues, the workers, the decision whom to wake and when.
Thread:   methods say which side calls them.
Not here: what a job does (connection.py gives it), the app (wsgi.py).

The order of events, and why (figures: benchmarks/README.md):

- A job only joins a queue; a worker is woken once, at the end of the loop's
  iteration (`_kick`). A worker woken in the middle would fight the loop for
  the GIL at every callback that is still to run.
- The worker runs until the queue is empty: one wake-up for a whole batch.
- The way back is batched too: the first finished job asks the loop for one
  `_flush`; later ones only join the queue. If the next job blocks, it lets go
  of the GIL, and the loop flushes at once.
- Last in, first out among idle workers: the hottest stack and caches.
- Another worker only when the queue stands still behind an app that blocks
  (`_watch`). A queue that moves needs no help, and under a GIL one more
  thread for CPU-bound work only adds switches.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import os
import sys
import threading
import time
from typing import Any, Callable

logger = logging.getLogger("aserve")

# How long a queue may stand still before another worker is woken. Guess: 1 ms, a
# tenth of a typical database query and a hundred times the cost of a wake-up.
WATCH_SECONDS = 0.001
# The same while the process burns CPU: then the GIL is what is missing, not threads;
# but one slow request must not hold up all others for longer than this.
BUSY_WATCH_SECONDS = 0.020
# The share of one CPU from which the process counts as busy.
BUSY_SHARE = 0.8

_has_gil: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class Executor:
    """Worker threads for one event loop."""

    is_inline = False

    def __init__(self, loop: asyncio.AbstractEventLoop, max_threads: int) -> None:
        self._loop = loop
        self._max_threads = max_threads
        self._jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self._done: collections.deque[tuple[Callable[[Any, Any], None], Any, Any]] = collections.deque()
        self._idle: list[threading.Lock] = []  # a held lock for each sleeping worker; its release wakes
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._kick_due = False
        self._flush_due = False
        self._is_stopping = False
        # One item for each worker on its way to the queue, just woken or writing its last
        # response: no need to wake another. (A list, since its append and pop are atomic.)
        self.coming: list[None] = []
        # The app was seen to block: workers wake one another without waiting for `_watch`.
        self._app_blocks = False
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watched_job: Any = None  # the head of the queue at the last look
        self._still_since = 0.0  # loop time at which it became the head
        self._cpu_seconds = self._cpu_time = 0.0
        self._is_busy = False

    # --- called on the event loop ---

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) in a worker soon. It must not raise."""
        self._jobs.append((function, argument))
        if not self._kick_due:
            self._kick_due = True
            self._loop.call_soon(self._kick)

    @property
    def waiting_count(self) -> int:
        """Jobs that no worker has begun."""
        return len(self._jobs)

    @property
    def is_idle(self) -> bool:
        """Whether no job waits, runs or comes back."""
        return self.is_quiet and len(self._idle) == sum(thread.is_alive() for thread in self._threads)

    def _kick(self) -> None:
        """Every read of this iteration is done, and the loop is about to sleep without the GIL."""
        self._kick_due = False
        if not self._jobs:
            return
        if self.coming:
            # Each of them takes one job; if its app then blocks, `_watch` must see to the others.
            if self._watch_timer is None and len(self._jobs) > len(self.coming):
                self._watch_timer = self._loop.call_later(WATCH_SECONDS, self._watch)
            return
        # Counted now: a worker woken below may have taken the first, and block, before we look again.
        has_several = len(self._jobs) > 1
        if len(self._idle) == len(self._threads):
            self._app_blocks = not _has_gil
            self._wake_one()
        elif not self._burns_cpu():
            # A worker is awake and yet neither it nor anybody else computes: its app blocks.
            self._app_blocks = True
            self._wake_one()
        if self._watch_timer is None and (has_several or self._is_busy):
            self._watch_timer = self._loop.call_later(WATCH_SECONDS, self._watch)

    def _watch(self) -> None:
        """Wake another worker if the queue has not moved since the last look."""
        self._watch_timer = None
        try:
            head = self._jobs[0]
        except IndexError:
            self._watched_job = None
            return
        now = self._loop.time()
        if head is not self._watched_job:
            self._watched_job = head
            self._still_since = now
        elif not self._burns_cpu() or now - self._still_since >= BUSY_WATCH_SECONDS:
            self._app_blocks = not self._is_busy
            self._still_since = now
            if not self._wake_one():
                return  # all are awake: the next finished job moves the queue
        self._watch_timer = self._loop.call_later(WATCH_SECONDS, self._watch)

    def _burns_cpu(self) -> bool:
        """Whether the process has used most of a CPU lately."""
        now = time.perf_counter()
        elapsed = now - self._cpu_time
        if elapsed >= WATCH_SECONDS:
            seconds = time.process_time()
            self._is_busy = _has_gil and (seconds - self._cpu_seconds) >= BUSY_SHARE * elapsed
            self._cpu_seconds, self._cpu_time = seconds, now
        return self._is_busy

    def _flush(self) -> None:
        """Bring home what the workers have finished."""
        self._flush_due = False
        done = self._done
        for _ in range(len(done)):
            function, first, second = done.popleft()
            try:
                function(first, second)
            except Exception:  # a bug in aserve: this one is lost, those behind it are not
                logger.exception("an answer failed; please report this as a bug in aserve")

    def stop(self) -> None:
        """Let workers end when the queue is empty. Those inside an app that hangs are left behind."""
        self._is_stopping = True
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        while self._idle:
            self._wake_one()

    def join(self, seconds: float) -> list[str]:
        """Wait for the workers to end, at most so long in all; return the names of those that have not."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return [thread.name for thread in self._threads if thread.is_alive()]

    # --- called from a worker ---

    @property
    def is_quiet(self) -> bool:
        """Whether nothing else is on its way in either direction."""
        return not self._jobs and not self._done

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) on the event loop, in the order of the posts."""
        self._done.append((function, first, second))
        if not self._flush_due:
            self._flush_due = True
            try:
                self._loop.call_soon_threadsafe(self._flush)
            except RuntimeError:
                pass  # the loop is closed: this worker was left behind, and nobody waits for it

    def _work(self) -> None:
        _yield_to_waker()
        lock = threading.Lock()
        lock.acquire()
        jobs = self._jobs
        while True:
            try:
                function, argument = jobs.popleft()
            except IndexError:
                if self._is_stopping:
                    return
                self._sleep(lock)
                continue
            try:
                function(argument)
            except BaseException:  # a bug in aserve: the request is lost, the worker is not
                logger.exception("a worker failed; please report this as a bug in aserve")
            del function, argument  # an idle worker keeps no exchange alive

    def _sleep(self, lock: threading.Lock) -> None:
        self._idle.append(lock)
        if self._jobs or self._is_stopping:
            # Something came between the look at the queue and the line above.
            try:
                self._idle.remove(lock)
                return
            except ValueError:
                pass  # somebody is releasing the lock already
        lock.acquire()
        self.coming.pop()
        if self._app_blocks and len(self._jobs) > 1:
            self._wake_one()

    # --- called from both sides ---

    def _wake_one(self) -> bool:
        """Wake or start one worker; False when all are awake."""
        try:
            lock = self._idle.pop()
        except IndexError:
            return self._start_thread()
        self.coming.append(None)
        lock.release()
        return True

    def _start_thread(self) -> bool:
        with self._starting:
            number = len(self._threads) + 1
            if number > self._max_threads:
                return False
            thread = threading.Thread(target=self._work, name=f"aserve-worker-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                if not self._threads:
                    raise
                logger.error("cannot start worker %d: %s; going on with %d", number, exc, number - 1)
                self._max_threads = number - 1
                return False
            self._threads.append(thread)
            return True


class InlineExecutor:
    """`--threads 0`: jobs run on the event loop's own thread, one after another."""

    is_inline = True
    is_quiet = False  # nobody writes past the loop
    waiting_count = 0  # jobs run at once
    is_idle = True

    def __init__(self) -> None:
        self._jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self._is_running = False
        self.coming: list[None] = []

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) now, or after the job that submits it."""
        self._jobs.append((function, argument))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._jobs:
                function, argument = self._jobs.popleft()
                function(argument)
        finally:
            self._is_running = False

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) now."""
        function(first, second)

    def stop(self) -> None:
        """Nothing to stop."""

    def join(self, seconds: float) -> list[str]:
        """Nothing to wait for."""
        return []


def _yield_to_waker() -> None:
    """
    Ask the kernel not to run this thread the moment it is woken, but when its waker sleeps.

    A worker that takes the CPU from the loop that wakes it finds the GIL taken and goes back to
    sleep. Measured 2026-11-21, 10 connections on one CPU: 0.27 instead of 1.12 context switches
    a request, 12 % more requests per CPU second. (sched(7): SCHED_BATCH needs no privilege.)
    """
    if hasattr(os, "SCHED_BATCH") and hasattr(os, "sched_setscheduler"):
        try:
            # PyPy 3.9 lacks the name; without the flag, child processes would inherit the policy.
            reset_on_fork = getattr(os, "SCHED_RESET_ON_FORK", 0x40000000)
            os.sched_setscheduler(0, os.SCHED_BATCH | reset_on_fork, os.sched_param(0))
        except OSError:
            pass  # a sandbox that forbids it: only slower
