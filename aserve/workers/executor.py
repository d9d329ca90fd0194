"""The seam: the batched hand-off from the event loop to worker threads and back.

Owns:     the two queues, the decision whom to wake and when.
Thread:   methods say which side calls them.
Not here: what a job does (connections/connection.py gives it), the app (wsgi/gateway.py), how many
          threads there are (threads.py), which of those that yield go on (time_slices.py).

The order of events, and why (figures: benchmarks/README.md):

- A job only joins a queue; a worker is woken once, at the end of the loop's
  iteration (`_wake_at_end_of_iteration`). A worker woken in the middle would fight the loop for
  the GIL at every callback that is still to run.
- The worker runs until the queue is empty: one wake-up for a whole batch.
- The way back is batched too: the first finished job asks the loop for one
  `_flush`; later ones only join the queue. If the next job blocks, it lets go
  of the GIL, and the loop flushes at once.
- Last in, first out among idle workers: the hottest stack and caches.
- Another worker only when the queue stands still behind an app that blocks
  (`_on_stall_timer`). A queue that moves needs no help, and under a GIL one more
  thread for CPU-bound work only adds switches.

Requests of the lane need no hand-off at all. They follow the Leader/Followers
pattern (POSA2): one worker, the leader, waits for them itself (`_lead`), and runs
them one after another, while the loop sleeps. Unlike there, it promotes no follower
first: it only puts the leadership token back, and nobody waits for more meanwhile.
Should the batch take longer than STALL_SECONDS (or twice that), a timer in the kernel
wakes the loop (`_on_stall`), and by the same rule as above another worker is woken
and takes the token. Once an app was seen to block, a leader wakes its successor
before it begins.

A worker whose app writes faster than its client reads yields its slot (`yield_slot`): another
thread compensates for it, beyond --threads, and it goes on in time slices (time_slices.py). Its app's
iterable stays on its stack: one that moved to another thread would lose what the
app keeps by thread, and another request on top of it might not end before it.

The file is long because it is one machine: queue, leader and the timer that looks after
them read each other's state, and none of them can be understood alone.

What both sides change is changed by a single operation of a list, a dict or a deque, so that
nothing here needs a GIL: docs/threads.md has the proofs.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import os
import threading
from typing import Any, Callable, Protocol

from ..errors import WrittenOff
from ..forks import leave
from .cpu import HAS_GIL, CpuMeter
from .threads import WorkerCounts, WorkerThreads
from .time_slices import TimeSlices

logger = logging.getLogger("aserve")

# How long a queue may stand still before another worker is woken. Guess: 1 ms, a
# tenth of a typical database query and a hundred times the cost of a wake-up.
STALL_SECONDS = 0.001
# The same while the process burns CPU: then the GIL is what is missing, not threads;
# but one slow request must not hold up all others for longer than this.
BUSY_STALL_SECONDS = 0.020


class HandleSet(Protocol):
    """What a leader waits at for requests (POSA2's handle set): the lane."""

    @property
    def stall_fd(self) -> int:
        """
        A descriptor: readable when what the last `wait` brought has not led to another within STALL_SECONDS.

        Told at the latest when twice that is over; and once in vain when nothing more comes.
        """

    @property
    def is_waiting(self) -> bool:
        """Whether somebody is inside `wait`, and nothing has come yet."""

    def wait(self, milliseconds: int) -> int:
        """Wait for requests, at most so long (-1: for ever); return how many."""

    def take(self, count: int) -> None:
        """Submit those."""

    def wake(self) -> None:
        """Make `wait` return; from any thread."""


class Executor:
    """Worker threads for one event loop."""

    is_inline = False

    def __init__(self, loop: asyncio.AbstractEventLoop, max_threads: int, extra_threads: int = 0) -> None:
        self._loop = loop
        self._threads = WorkerThreads(self._work, max_threads, extra_threads)
        self._slices = TimeSlices(loop, max_threads)  # of those compensated for
        self._jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self._done: collections.deque[tuple[Callable[[Any, Any], None], Any, Any]] = collections.deque()
        self._idle: list[threading.Lock] = []  # a held lock for each sleeping worker; its release wakes
        self._is_wake_due = False
        self._may_flush: dict[None, bool] = {None: True}  # who takes the item out asks the loop for a `_flush`
        self._is_stopping = False
        # One item for each worker on its way to the queue, just woken or writing its last
        # response: no need to wake another. (A list, since its append and pop are atomic.)
        self.waking: list[None] = []
        # The app was seen to block: workers wake one another without waiting for the stall timer.
        self._app_blocks = False
        self._stall_timer: asyncio.TimerHandle | None = None
        self._seen_waiting: Any = None  # what waited at the last look
        self._still_since = 0.0  # loop time since when it has
        self._handles: HandleSet | None = None
        self._leadership: list[HandleSet] = []  # the token: who takes the handles out of it may wait for requests
        self._generation = 0  # how often the token was taken; the leader's
        self._waiting_leader: list[None] = []  # one item while a leader waits for requests
        self._cpu = CpuMeter()  # the event loop's

    # --- called on the event loop ---

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) in a worker soon. It must not raise."""
        self._jobs.append((function, argument))
        if not self._is_wake_due:
            self._is_wake_due = True
            self._loop.call_soon(self._wake_at_end_of_iteration)

    def attach(self, handles: HandleSet) -> None:
        """Let a worker wait for requests at these handles."""
        self._handles = handles
        self._leadership.append(handles)
        self._loop.add_reader(handles.stall_fd, self._on_stall)
        self._threads.start()

    @property
    def waiting_count(self) -> int:
        """Jobs that no worker has begun."""
        return len(self._jobs)

    @property
    def workers(self) -> WorkerCounts:
        """How many workers there are, and how many of them sleep or wait for requests."""
        return self._threads.counts(self._idle_count)

    @property
    def is_idle(self) -> bool:
        """Whether no job waits, runs or comes back."""
        threads = self._threads
        is_asleep = not threads.compensated and self._idle_count == sum(thread.is_alive() for thread in threads.at_work)
        return is_asleep and self.is_quiet

    @property
    def is_leader_waiting(self) -> bool:
        """Whether a leader waits for requests."""
        return bool(self._waiting_leader.copy())  # and not a look at its length: docs/threads.md, "Step, then look"

    @property
    def _idle_count(self) -> int:
        return len(self._idle) + len(self._waiting_leader)

    def _wake_at_end_of_iteration(self) -> None:
        """Wake a worker: every read of this iteration is done, and the loop is about to sleep without the GIL."""
        self._is_wake_due = False
        if not self._jobs:
            return
        if self.waking:
            # Each of them takes one job; if its app then blocks, the stall timer must see to the others.
            if self._stall_timer is None and len(self._jobs) > len(self.waking):
                self._stall_timer = self._loop.call_later(STALL_SECONDS, self._on_stall_timer)
            return
        # Counted now: a worker woken below may have taken the first, and block, before we look again.
        has_several = len(self._jobs) > 1
        if self._idle_count == len(self._threads.at_work):
            self._app_blocks = not HAS_GIL
            self._wake_one()
        elif not self._cpu.look():
            # A worker is awake and yet neither it nor anybody else computes: its app blocks.
            self._app_blocks = True
            self._wake_one()
        if self._stall_timer is None and (has_several or self._cpu.is_busy):
            self._stall_timer = self._loop.call_later(STALL_SECONDS, self._on_stall_timer)

    def _on_stall(self) -> None:
        """The leader's batch is not done yet."""
        if self._handles is not None:
            try:
                os.read(self._handles.stall_fd, 8)
            except BlockingIOError:
                return  # it is done after all
            except OSError:
                self._loop.remove_reader(self._handles.stall_fd)  # a bug in aserve, or of the app's; but no busy loop
                logger.exception("internal error; please report this as a bug in aserve")
                return
        timer = self._stall_timer
        if timer is None or timer.when() > self._loop.time() + STALL_SECONDS:  # else the next look is near
            if timer is not None:
                timer.cancel()
            self._on_stall_timer()

    def _on_stall_timer(self) -> None:
        """Wake another worker if what waits is still the same as at the last look."""
        self._stall_timer = None
        waiting = self._what_waits()
        if waiting is None:
            self._seen_waiting = None
            return
        now, seconds = self._loop.time(), STALL_SECONDS
        if waiting != self._seen_waiting:
            self._seen_waiting = waiting
            self._still_since = now
            self._cpu.look()  # what it has burnt by the next look
        elif not self._cpu.look() or now - self._still_since >= BUSY_STALL_SECONDS:
            self._app_blocks = not self._cpu.is_busy
            self._still_since = now
            if not self._wake_one():
                if self._handles is None:
                    return  # all are awake: the next finished job moves the queue
                self._poll_while_busy()
                seconds = BUSY_STALL_SECONDS  # nothing but pings can be answered sooner
        self._stall_timer = self._loop.call_later(seconds, self._on_stall_timer)

    def _what_waits(self) -> Any:
        """The head of the queue; or, as no leader waits for requests, those that come; or None."""
        try:
            return self._jobs[0]
        except IndexError:
            # Also while a leader has found something, and has no GIL yet to take it: its timer may be over
            # before it begins. (`is_leader_waiting` still says that it waits.)
            handles = self._handles
            return None if handles is None or handles.is_waiting else self._generation

    def _poll_while_busy(self) -> None:
        """While every worker is busy, see who has come: pings are answered, and the queue is known."""
        try:
            handles = self._leadership.pop()
        except IndexError:
            return
        try:
            handles.take(handles.wait(0))
        except Exception:  # a bug in aserve: as in `_lead`
            logger.exception("internal error; please report this as a bug in aserve")
        self._leadership.append(handles)  # stop() is called on this thread, too
        self._wake_sleeper()  # one may have lain down since the leadership was taken

    def _flush(self) -> None:
        """Bring home what the workers have finished."""
        self._may_flush[None] = True
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
        self._slices.stop()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if self._handles is not None:
            self._loop.remove_reader(self._handles.stall_fd)
            self._handles.wake()
            self._handles = None
            self._leadership.clear()
        while self._wake_sleeper():
            pass

    def join(self, seconds: float) -> list[str]:
        """Wait for the workers to end, at most so long in all; return the names of those that have not."""
        return self._threads.join(seconds)

    def name_of(self, thread_id: int) -> str:
        """Return the name of the worker with this identifier."""
        return self._threads.name_of(thread_id)

    def write_off(self, thread_id: int) -> None:
        """
        Put another worker in the place of one that hangs in its job, which raises WrittenOff should it come back.

        Raises:
            RuntimeError: there is no other, and none can be started. Nor will it be tried again.
        """
        self._threads.write_off(thread_id)
        self._slices.end_slice(thread_id)
        if not (self._threads.start() or self._threads.at_work):
            raise RuntimeError("no other worker is left")

    @property
    def stuck(self) -> list[str]:
        """Names of the workers that were written off and have not ended."""
        return self._threads.stuck

    @property
    def written_off_count(self) -> int:
        """Workers that were written off, since the start."""
        return self._threads.written_off_count

    # --- called from a worker ---

    @property
    def is_quiet(self) -> bool:
        """Whether nothing else is on its way in either direction."""
        return not self._jobs and not self._done

    def submit_here(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) after what the calling worker runs; from HandleSet.take."""
        self._jobs.append((function, argument))

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) on the event loop, in the order of the posts."""
        self._done.append((function, first, second))
        if self._may_flush.pop(None, False):
            try:
                self._loop.call_soon_threadsafe(self._flush)
            except RuntimeError:
                pass  # the loop is closed: this worker was left behind, and nobody waits for it

    def yield_slot(self) -> None:
        """
        Wait for a time slice: what the calling worker does is waited for by nobody.

        Its place is another's meanwhile, so that --threads others are at work; at most --extra-threads do this.
        """
        thread_id = threading.get_ident()
        if thread_id in self._threads.compensated or self._compensate(thread_id):
            self._slices.wait_for_slice(thread_id, bool(self._jobs))

    def end_slice(self) -> None:
        """End the calling worker's time slice: it waits for its client, or goes on as others do, until it yields again."""
        self._slices.end_slice(threading.get_ident())

    def _compensate(self, thread_id: int) -> bool:
        """Leave one's place to another worker; False: there is none to be had, or the caller is no worker of ours."""
        threads = self._threads
        if not threads.compensate(thread_id):
            return False
        if self._jobs or self._leadership or not threads.at_work:
            self._wake_one()
        return not threads.keep_slot(thread_id)  # no thread could be started in its place

    def _regain_slot(self) -> bool:
        """After a job: False if the calling worker was compensated for, and its place is taken."""
        thread_id = threading.get_ident()
        if thread_id not in self._threads.compensated:
            return True
        self._slices.end_slice(thread_id)
        return self._threads.regain_slot(thread_id)

    def _work(self) -> None:
        _yield_to_waker()
        lock = threading.Lock()
        lock.acquire()
        jobs, compensated, slices = self._jobs, self._threads.compensated, self._slices
        while True:
            try:
                function, argument = jobs.popleft()
            except IndexError:
                if self._is_stopping:
                    return
                if slices.is_paused:
                    slices.resume()
                if not self._lead():
                    self._sleep(lock)
                continue
            try:
                function(argument)
            except WrittenOff:
                return
            except BaseException:  # a bug in aserve: the request is lost, the worker is not
                logger.exception("a worker failed; please report this as a bug in aserve")
            del function, argument  # an idle worker keeps no exchange alive
            if compensated and not self._regain_slot():
                return

    def _lead(self) -> bool:
        """Wait for requests, unless somebody else does."""
        try:
            handles = self._leadership.pop()
        except IndexError:
            return False
        waiting_leader = self._waiting_leader
        try:
            waiting_leader.append(None)
            count = 0
            while not (count or self._jobs or self._is_stopping):
                count = handles.wait(-1)
            if not (count or self._is_stopping):
                handles.wake()  # to run a job of the loop's is to let go of the token: start the timer for that
                count = handles.wait(0)
            waiting_leader.clear()
            self._generation += 1
            handles.take(count)
        except Exception:  # a bug in aserve: these requests are lost, those to come are not
            logger.exception("internal error; please report this as a bug in aserve")
        finally:
            if waiting_leader:
                waiting_leader.clear()
            if not self._is_stopping:
                self._leadership.append(handles)
        if len(self._idle) == len(self._threads.at_work) - 1:
            self._app_blocks = not HAS_GIL  # nobody is inside the app: learn anew
        if self._app_blocks and self._jobs:
            self._wake_one()
        return True

    def _sleep(self, lock: threading.Lock) -> None:
        self._idle.append(lock)
        if self._jobs or self._leadership or self._is_stopping:
            # Something came between the look at the queue and the line above.
            try:
                self._idle.remove(lock)
                return
            except ValueError:
                pass  # somebody is releasing the lock already
        lock.acquire()
        self.waking.pop()
        if self._app_blocks and (len(self._jobs) > 1 or (self._jobs and self._leadership)):
            self._wake_one()

    # --- called in a child that the app has forked ---

    def on_forked(self) -> None:
        """Run nothing more here; see forks.py."""
        self._jobs.clear()
        self._jobs.append((leave, None))  # should the worker that has forked ask for its next job
        self._leadership.clear()

    # --- called from both sides ---

    def _wake_one(self) -> bool:
        """Wake or start one worker; False when all are awake."""
        if self._wake_sleeper() or self._threads.start():
            return True
        handles = self._handles
        if self.is_leader_waiting and handles is not None:
            handles.wake()  # and so the leader: nobody else is left
            return True
        return False

    def _wake_sleeper(self) -> bool:
        """Wake one that sleeps; False: none does."""
        try:
            lock = self._idle.pop()
        except IndexError:
            return False
        self.waking.append(None)
        lock.release()
        return True


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
