"""The batched hand-off from the event loop to worker threads and back.

Owns:     the two queues; the decision which worker to wake, and when.
Thread:   both sides; banners say which side calls a method.
Not here: the jobs (connections/connection.py), the app (wsgi/gateway.py), the number of threads (threads.py), the turns of yielding workers
          (time_slices.py), the wait of jobs (queue_wait.py).

The order of events, and why (figures: benchmarks/README.md):

- A job only joins a queue; a worker is woken once, at the end of the loop's iteration (`_wake_at_end_of_iteration`). A worker woken in the middle
  would fight the loop for the GIL at every callback still to run.
- The worker runs until the queue is empty: one wake-up for a whole batch.
- The way back is batched too: the first finished job asks the loop for one `_flush`; later jobs only join the queue. If the next job blocks, the
  worker lets go of the GIL, and the loop flushes at once.
- Last in, first out among idle workers: the hottest stack and caches.
- Another worker is woken only when the queue stands still because an app blocks (`_on_stall_timer`). A moving queue needs no help: under a GIL, one
  more thread for CPU-bound work only adds switches.

Requests of the lane need no hand-off at all. They follow the Leader/Followers pattern (POSA2): one worker, the leader, waits for requests
(`_lead`), and runs them one after another, while the loop sleeps. Unlike in the pattern, the leader promotes no follower first: the leader only
puts the leadership token back, and no worker waits for more meanwhile. If nothing is answered for STALL_SECONDS (or twice that), a timer in the
kernel wakes the loop (`_on_stall`); a long batch in motion does not, as each wake-up of the loop takes the GIL and the CPU from the leader. By the
rule above, the loop then wakes another worker, which takes the token. Once an app has been seen to block, a leader wakes another worker before
beginning the batch.

A worker whose app writes faster than the client reads yields the slot (`yield_slot`): another thread, beyond --threads, compensates for the worker,
and the worker continues in time slices (time_slices.py). The app's iterable stays on this thread, and nothing else runs here meanwhile: apps keep
state per thread, and a request nested on top of the iterable could block the iterable.

The file is long because queue, leader and stall timer read each other's state: none can be understood alone.

Both sides change shared state only by single operations of a list, a dict or a deque, so
nothing here relies on the GIL: docs/threads.md has the proofs.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import logging
import os
import threading
import time
from typing import Any, Callable, Protocol

from ..core.errors import WrittenOff
from ..core.forks import end_child
from .cpu import HAS_GIL, CpuMeter, is_ready
from .queue_wait import QueueWait
from .threads import WorkerCounts, WorkerThreads
from .time_slices import TimeSlices

logger = logging.getLogger("aserve")

# How long a queue may stand still before another worker is woken. Guess: 1 ms, a
# tenth of a typical database query and a hundred times the cost of a wake-up.
STALL_SECONDS = 0.001
# The same while the process is busy: the GIL is scarce, and threads are not; but quick requests must not wait for the end of a computing one. Measured
# 2026-11-26 (as in lifecycle/switch_interval.py): 10 ms and 5 ms help the quick ones equally, 2 ms takes half of the CPU from computing ones; with
# 20 ms a request of 19 ms held up all others, and all clients came in step with that request.
BUSY_STALL_SECONDS = 0.005
# How often the loop polls for requests while every worker is busy, for the sake of health checks and pings. Guess.
BUSY_POLL_SECONDS = 0.020
# When to call `on_crowded` again if asked: a worker of another process may be free again. Guess.
RELIEVED_SECONDS = 0.002

Job = tuple[Callable[[Any], None], Any]  # a function, which must not raise, and the argument


class HandleSet(Protocol):
    """The set of connections on which the leader waits for requests (POSA2's handle set): the lane."""

    @property
    def stall_fd(self) -> int:
        """
        A descriptor that tells a stall: requests were found, and the next `wait` does not begin.

        It is readable STALL_SECONDS to twice that after requests were found, or after the last answers (some at a time); and once in vain when no more
        requests come.
        """

    @property
    def is_waiting(self) -> bool:
        """Whether a worker is inside `wait`, and no request has come yet."""

    def wait(self, milliseconds: int) -> int:
        """Wait for requests, at most this long (-1: for ever); return how many have come."""

    def submit_arrivals(self, count: int) -> None:
        """Submit the `count` requests found by the last `wait`."""

    def wake(self) -> None:
        """Make `wait` return; from any thread."""

    def flush(self) -> None:
        """Send what was to be sent together with the next answers; from any thread."""

    def watch(self) -> None:
        """Let `stall_fd` signal in STALL_SECONDS to twice that, unless requests are answered meanwhile."""


class Executor:
    """Worker threads for one event loop."""

    is_inline = False
    pause_seconds = STALL_SECONDS  # `on_pause` is called this long after a batch of the handles, or up to twice as long

    def __init__(self, loop: asyncio.AbstractEventLoop, max_threads: int, extra_threads: int = 0) -> None:
        self._loop = loop
        self.threads = WorkerThreads(self._work, max_threads, extra_threads)
        self.compensated = self.threads.compensated
        self._slices = TimeSlices(loop, max_threads)  # of the compensated workers
        self.jobs: collections.deque[Job] = collections.deque()  # jobs not begun by a worker
        # Queue a job without waking a worker: the calling worker, in HandleSet.submit_arrivals, comes to the job next. Not a method of ours: each
        # request of the lane would pay for the call.
        self.submit_here: Callable[[Job], None] = self.jobs.append
        self._begun_count = 0  # jobs begun by workers, modulo 256; two at once may count as one
        self.queue_wait = QueueWait(self.jobs, loop.time, lambda: self.begun_count)
        self._done: collections.deque[tuple[Callable[[Any, Any], None], Any, Any]] = collections.deque()
        self._idle: list[threading.Lock] = []  # a held lock for each sleeping worker; a release wakes the worker
        self._is_wake_due = False
        self._may_flush: dict[None, bool] = {
            None: True
        }  # the thread that takes the item out asks the loop for a `_flush`
        self.is_stopping = False
        # One item for each worker on its way to the queue, just woken or writing its last
        # response: no other has to be woken. (A list, since its append and pop are atomic.)
        self.waking: list[None] = []
        # The app has been seen to block: workers wake one another without waiting for the stall timer.
        self.app_blocks = not HAS_GIL
        self._stall_timer: asyncio.TimerHandle | None = None
        self._seen_waiting: Any = None  # `_what_waits` when the timer last fired
        self._still_since = 0.0  # loop time since when `_seen_waiting` is the same
        self._handles: HandleSet | None = None
        self._native: Any = None  # the leader in C, if there is one
        self.leadership: list[HandleSet] = []  # the token: the worker that takes the handles out may wait for requests
        self._generation = 0  # how often the token was taken; only the leader changes it
        self.waiting_leader: list[None] = []  # one item while a leader waits for requests
        self._cpu = CpuMeter()  # the event loop's
        self._last_awake = 0  # the system's number of the worker last seen at the queue
        # Called when requests on the handles cease, and while a batch takes long; on the event loop.
        self.on_pause: Callable[[], None] | None = None
        # Called on the event loop each BUSY_POLL_SECONDS while no worker is free and a job waits; returns whether to call again in
        # RELIEVED_SECONDS.
        self.on_crowded: Callable[[], bool] | None = None

    # --- called on the event loop ---

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument), which must not raise, in a worker soon."""
        self.jobs.append((function, argument))
        if not self._is_wake_due:
            self._is_wake_due = True
            self._loop.call_soon(self._wake_at_end_of_iteration)

    def put_back(self, function: Callable[[Any], None], argument: Any) -> None:
        """Submit a withdrawn job: the job has waited longest, and comes before all others."""
        self.jobs.appendleft((function, argument))
        if not self._is_wake_due:
            self._is_wake_due = True
            self._loop.call_soon(self._wake_at_end_of_iteration)

    def attach(self, handles: HandleSet, native: Any = None) -> None:
        """Let a worker wait for requests on these handles from now on; `native`: the Native with the wait in C."""
        self._handles = handles
        self._native = native.engine if native is not None else None
        self.leadership.append(handles)
        self._loop.add_reader(handles.stall_fd, self._on_stall)
        self.threads.start()

    @property
    def waiting_count(self) -> int:
        """Jobs not begun by a worker."""
        return len(self.jobs) + (self._native.waiting if self._native is not None else 0)

    @property
    def begun_count(self) -> int:
        """A number that changes when a worker begins a job."""
        return self._begun_count + (self._native.progress if self._native is not None else 0)

    def withdraw(self, job: Job) -> bool:
        """Take a job back; False: a worker has begun the job, or has begun another one just now."""
        try:
            self.jobs.remove(job)
        except (ValueError, IndexError):  # IndexError: the jobs have changed meanwhile
            return False
        return True

    @property
    def workers(self) -> WorkerCounts:
        """The number of workers, and of workers asleep or in a wait for requests."""
        # A leader with found requests is busy, also while waiting for the GIL, maybe held by the caller's thread.
        handles = self._handles
        is_leader_idle = self.is_leader_waiting and (handles is None or handles.is_waiting)
        return self.threads.counts(len(self._idle) + is_leader_idle)

    @property
    def is_idle(self) -> bool:
        """Whether no job waits or runs, and no result is on the way back."""
        threads = self.threads
        is_asleep = not threads.compensated and self._idle_count == sum(thread.is_alive() for thread in threads.at_work)
        return is_asleep and self.is_quiet

    @property
    def is_leader_waiting(self) -> bool:
        """Whether a leader waits for requests."""
        return bool(self.waiting_leader.copy())  # not its length: docs/threads.md, "Step, then look"

    @property
    def _idle_count(self) -> int:
        return len(self._idle) + len(self.waiting_leader)

    def _wake_at_end_of_iteration(self) -> None:
        """Wake a worker: every read of this iteration is done, and the loop is about to sleep without the GIL."""
        self._is_wake_due = False
        if not self.jobs:
            return
        if self.waking:
            # Each waking worker takes one job; if the app then blocks, the stall timer must wake more workers.
            if self._stall_timer is None and len(self.jobs) > len(self.waking):
                self._stall_timer = self._loop.call_later(STALL_SECONDS, self._on_stall_timer)
            return
        # Count now: a worker woken below may take the first, and block, before the last test here.
        has_several, computes, is_woken = len(self.jobs) > 1, self._cpu.is_busy, True
        if self._idle_count == len(self.threads.at_work):
            self.app_blocks = not HAS_GIL
            self._wake_one()
        elif not (computes := self._computes()):
            # A worker is awake, and yet no thread of the process computes: its app blocks.
            self.app_blocks = True
            is_woken = self._wake_one()
        if self._stall_timer is None and (has_several or computes or not is_woken):
            self._stall_timer = self._loop.call_later(STALL_SECONDS, self._on_stall_timer)

    def _on_stall(self) -> None:
        """Start the stall timer: the leader's batch is not done yet."""
        if self._handles is not None:
            try:
                os.read(self._handles.stall_fd, 8)
            except BlockingIOError:
                return  # the batch is done after all
            except OSError:
                self._loop.remove_reader(self._handles.stall_fd)  # a bug in aserve or in the app, but no reason to spin
                logger.exception("internal error; please report this as a bug in aserve")
                return
            self._handles.flush()
        timer = self._stall_timer
        if timer is None or timer.when() > self._loop.time() + STALL_SECONDS:  # else the timer fires soon
            if timer is not None:
                timer.cancel()
            self._on_stall_timer()

    def _on_stall_timer(self) -> None:
        """Wake another worker if the same job or batch waits as when the timer last fired."""
        self._stall_timer = None
        waiting = self._what_waits()
        self._tell_pause()  # after that check: the end of a further request calls this again
        if waiting is None:
            self._seen_waiting = None
            return
        now, seconds = self._loop.time(), STALL_SECONDS
        if waiting != self._seen_waiting:
            if self._seen_waiting is not None and self._handles is not None and not self.app_blocks:
                # The batch moves. A check each millisecond would take the GIL from the worker: answers put off the kernel's timer.
                self._seen_waiting = None
                self._handles.watch()
                return
            self._seen_waiting = waiting
            self._still_since = now
            self._cpu.measure()  # starts the time for the next call's judgement
        elif not (computes := self._computes()) or now - self._still_since >= BUSY_STALL_SECONDS:
            self.app_blocks = not computes
            self._still_since = now
            if self._native is not None:
                self._native.spill()  # other workers may take the leader's requests now, too
            if not self._wake_one():
                if self._handles is None and self.on_crowded is None:
                    return  # all are awake: the next finished job moves the queue
                self._poll_while_busy()
                seconds = BUSY_POLL_SECONDS  # only health checks and pings can be answered sooner
                if self._is_relieved():
                    seconds = RELIEVED_SECONDS
                    self._seen_waiting, self._still_since = self._what_waits(), now - BUSY_STALL_SECONDS
        self._stall_timer = self._loop.call_later(seconds, self._on_stall_timer)

    def _computes(self) -> bool:
        """Whether the process lacks the GIL or a CPU, and not threads."""
        # Beside a busy process a worker is ready to run for milliseconds, and no CPU time shows it.
        return self._cpu.measure() or (HAS_GIL and not self.app_blocks and is_ready(self._last_awake))

    def _tell_pause(self) -> None:
        try:
            if self.on_pause is not None:
                self.on_pause()
        except Exception:  # a bug in aserve; the timer must go on
            logger.exception("internal error; please report this as a bug in aserve")

    def _is_relieved(self) -> bool:
        """Let waiting jobs be withdrawn; return whether more may be soon."""
        try:
            return bool(self.jobs) and self.on_crowded is not None and self.on_crowded()
        except Exception:  # a bug in aserve; the timer must go on
            logger.exception("internal error; please report this as a bug in aserve")
            return False

    def _what_waits(self) -> Any:
        """Return the first job; if there is none, the generation, unless a leader waits for requests; or else None."""
        try:
            return self.jobs[0]
        except IndexError:
            # A leader with found requests, but without the GIL yet, counts as busy: the timer may fire before the leader begins.
            # (`is_leader_waiting` still says otherwise.)
            handles, native = self._handles, self._native
            if native is not None and (native.waiting or not handles.is_waiting):  # type: ignore[union-attr]
                return native.progress
            return None if handles is None or handles.is_waiting else self._generation

    def _poll_while_busy(self) -> None:
        """Poll the handles while every worker is busy: health checks and pings are answered and the queue is known."""
        try:
            handles = self.leadership.pop()
        except IndexError:
            return
        try:
            handles.submit_arrivals(handles.wait(0))
        except Exception:  # a bug in aserve: as in `_lead`
            logger.exception("internal error; please report this as a bug in aserve")
        self.leadership.append(handles)  # stop() is called on this thread, too
        self._wake_sleeper()  # a worker may have gone to sleep since the token was taken

    def _flush(self) -> None:
        """Call the functions posted by the workers."""
        self._may_flush[None] = True
        done = self._done
        for _ in range(len(done)):
            function, first, second = done.popleft()
            try:
                function(first, second)
            except Exception:  # a bug in aserve: this answer is lost, later ones are not
                logger.exception("an answer failed; please report this as a bug in aserve")

    def stop(self) -> None:
        """Let workers end when the queue is empty. Abandon those that hang inside the app."""
        self.is_stopping = True
        self._slices.stop()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if self._handles is not None:
            self._loop.remove_reader(self._handles.stall_fd)
            self._handles.wake()
            self._handles = None
            self.leadership.clear()
        while self._wake_sleeper():
            pass

    def write_off(self, thread_id: int) -> None:
        """
        Replace a worker that hangs in a job. If the job ever returns, it must raise WrittenOff.

        Raises:
            RuntimeError: there is no other worker, and none can be started, now or later.
        """
        self.threads.write_off(thread_id)
        self._slices.end_slice(thread_id)
        if not (self.threads.start() or self.threads.at_work):
            raise RuntimeError("no other worker is left")

    def set_aside(self, thread_id: int) -> None:
        """
        Let another worker take the place of one whose job may last for ever; no limit of ours counts the old worker.

        After the job the old worker takes a free slot, or ends.
        """
        if self.threads.set_aside(thread_id):
            self._hand_slot_over(thread_id)

    # --- called from a worker ---

    @property
    def is_quiet(self) -> bool:
        """Whether neither a job nor a result waits."""
        return not self.waiting_count and not self._done

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) on the event loop, in the order of the posts."""
        self._done.append((function, first, second))
        if self._may_flush.pop(None, False):
            self._ask_for_flush()

    def _ask_for_flush(self) -> None:
        while True:
            try:
                self._loop.call_soon_threadsafe(self._flush)
                return
            except RuntimeError:
                return  # the loop is closed: this worker was left behind, and the result is not needed
            except MemoryError:
                time.sleep(STALL_SECONDS)  # no other thread would ask: try until there is memory

    def yield_slot(self) -> None:
        """
        Give the calling worker's slot to another, then wait for a time slice: the client is not waiting for this response's next piece.

        So --threads other workers stay at work. At most --extra-threads workers yield at once; a further one keeps the slot, and returns at once.
        """
        thread_id = threading.get_ident()
        if thread_id in self.threads.compensated or (
            self.threads.compensate(thread_id) and self._hand_slot_over(thread_id)
        ):
            self._slices.wait_for_slice(thread_id, bool(self.jobs))

    def end_slice(self) -> None:
        """End the calling worker's time slice: the worker waits for the client, or needs no slice until the next yield."""
        self._slices.end_slice(threading.get_ident())

    def _regain_slot(self) -> bool:
        """Take a slot back after a job, if the calling worker was compensated; False: none is free, the worker must end."""
        thread_id = threading.get_ident()
        if thread_id not in self.threads.compensated:
            return True
        self._slices.end_slice(thread_id)
        return self.threads.regain_slot(thread_id)

    def _work(self) -> None:
        while True:
            try:
                return self._run_jobs()
            except MemoryError:
                pass  # no job is lost here, and there may be memory soon

    def _run_jobs(self) -> None:
        self._last_awake = number = threading.get_native_id()
        lock = threading.Lock()
        lock.acquire()
        jobs, compensated, slices, new_context = self.jobs, self.threads.compensated, self._slices, contextvars.Context
        while True:
            try:
                function, argument = jobs.popleft()
            except IndexError:
                function = None
            if function is None:  # outside of `except`: an exception of the app has no such __context__
                if self.is_stopping:
                    return
                if slices.is_paused:
                    slices.resume()
                try:
                    if not self._lead():
                        self._sleep(lock)
                except WrittenOff:
                    return
                self._last_awake = number
                if compensated and not self._regain_slot():
                    return
                continue
            # CPython has these numbers already: without memory the job is not lost here.
            self._begun_count = self._begun_count + 1 & 255
            try:
                # A new context as at a thread's begin, not a copy of the main thread's: objects made current there by an import (an app context of
                # Flask, decimal's) would be shared by all requests. Measured 2026-11-25: 500 instructions of hello's 53,550.
                new_context().run(function, argument)
            except WrittenOff:
                return
            except BaseException:  # a bug in aserve: the request is lost, the worker is not
                logger.exception("a worker failed; please report this as a bug in aserve")
            del function, argument  # an idle worker must keep no exchange alive
            if compensated and not self._regain_slot():
                return

    def _lead(self) -> bool:
        """Take the token, wait for requests and submit them; False: another worker has the token."""
        if self._native is not None:
            try:
                return self._native.work()  # type: ignore[no-any-return]
            except WrittenOff:
                raise
            except BaseException:  # a bug in aserve: the worker goes on
                logger.exception("internal error; please report this as a bug in aserve")
                return True
        try:
            handles = self.leadership.pop()
        except IndexError:
            return False
        waiting_leader = self.waiting_leader
        try:
            waiting_leader.append(None)
            count = 0
            while not (count or self.jobs or self.is_stopping):
                count = handles.wait(-1)
            if not (count or self.is_stopping):
                handles.wake()  # the leader gives up the token for a job of the loop's: start the stall timer
                count = handles.wait(0)
            waiting_leader.clear()
            self._generation += 1
            handles.submit_arrivals(count)
        except Exception:  # a bug in aserve: these requests are lost, later ones are not
            logger.exception("internal error; please report this as a bug in aserve")
        finally:
            if waiting_leader:
                waiting_leader.clear()
            if not self.is_stopping:
                self.leadership.append(handles)
        if self.app_blocks:
            self.on_batch(bool(self.jobs))
        return True

    def on_batch(self, has_requests: bool = True) -> None:
        """Wake another worker to lead, if the app blocks; called by the leader after a batch."""
        if len(self._idle) == len(self.threads.at_work) - 1:
            self.app_blocks = not HAS_GIL  # no worker is inside the app: forget it
        if self.app_blocks and has_requests:
            self._wake_one()

    def _sleep(self, lock: threading.Lock) -> None:
        self._idle.append(lock)
        if self.jobs or self.leadership or self.is_stopping:
            # A job came after the queue was found empty, and before the append.
            try:
                self._idle.remove(lock)
                return
            except (ValueError, MemoryError):  # there may be no memory for the former
                pass  # another thread is releasing the lock already
        lock.acquire()
        self.waking.pop()
        if self.app_blocks and (len(self.jobs) > 1 or (self.jobs and self.leadership)):
            self._wake_one()

    # --- called in a child forked by the app ---

    def on_forked(self) -> None:
        """Drop all jobs: run nothing more here; see core/forks.py."""
        self.jobs.clear()
        self.jobs.append((end_child, None))  # in case the worker that has forked asks for its next job
        self.leadership.clear()

    # --- called from both sides ---

    def _hand_slot_over(self, thread_id: int) -> bool:
        """Let another worker take the slot freed by this one; False: no other could be started, and this worker keeps the slot."""
        threads = self.threads
        if (self.jobs or self.leadership or not threads.at_work) and not self._wake_one():
            return not threads.keep_slot(thread_id)
        return True  # a worker started just now may have freed a slot already

    def _wake_one(self) -> bool:
        """Wake or start one worker; False: all are awake."""
        if self._wake_sleeper() or self.threads.start():
            return True
        handles = self._handles
        if self.is_leader_waiting and handles is not None:
            handles.wake()  # the leader itself: no other worker is left
            return True
        return False

    def _wake_sleeper(self) -> bool:
        try:
            lock = self._idle.pop()
        except IndexError:
            return False
        self.waking.append(None)
        lock.release()
        return True


# The callers of a job in a worker, or of the leader in C: our outermost frames below the app's frames of a plain request.
WORKING = (Executor._lead.__code__, Executor._run_jobs.__code__)
