"""Time slices of the workers without a slot.

Owns:     TimeSlices: the workers in a slice, the workers in a wait, the length.
Thread:   two, under banners: workers wait for slices, the event loop checks for progress.
Not here: yielding a slot, and giving the slot to another worker (executor.py).

A response faster than the reader goes to the disk as fast as the app makes it, and no client waits for the response. If dozens of such workers
computed at once, requests with a waiting client would hardly get the GIL. So:

- One such worker runs at a time, and the next after SLICE_SECONDS. While they block instead of computing, as many run at once as there are workers
  beside them.
- While requests wait for a worker, no slice begins (`is_paused`).
- But when no slice has begun for SLICE_SECONDS, the loop begins one: a waiting thread may hold a resource needed by all others, such as a
  connection of the app's pool. Still, no more of them compute than there are workers. A slice older than STALE_SECONDS is taken for blocked, and
  does not count.
"""

from __future__ import annotations

import asyncio
import threading
import time

from .cpu import CpuMeter

# The length of a slice: some hundred pieces, to spread the cost of a switch. Guess.
SLICE_SECONDS = 0.020
# A slice counts for so long: a slice without an end by then blocks inside the app, or never ends. Guess.
STALE_SECONDS = 1.0


class TimeSlices:
    """Lets a few of many threads run at a time, in order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_running: int) -> None:
        self._loop = loop
        self._max_running = max_running
        self._lock = threading.Lock()  # guards all below
        self._running: dict[int, float] = {}  # by thread: until when, in monotonic time
        self._waiting: dict[int, threading.Lock] = {}  # by thread, in order; a release of the lock begins the slice
        self._begun_count = 0
        self._seen_count = 0  # `_begun_count` at the loop's last check
        self.is_paused = False  # until `resume`
        self._is_watched = False
        self._is_over = False
        self._cpu = CpuMeter()

    # --- called from a worker ---

    def wait_for_slice(self, thread_id: int, is_queue: bool) -> None:
        """
        Wait for a time slice, unless the calling thread still has one, or no other thread waits.

        `is_queue`: requests wait for a worker. Then no slice begins until `resume` is called.
        """
        with self._lock:
            if self._is_over or (thread_id in self._running and not (is_queue or self._is_over_time(thread_id))):
                return
            self._running.pop(thread_id, None)
            begun = self._waiting[thread_id] = threading.Lock()
            begun.acquire()
            self.is_paused = is_queue
            self._begin_slices()
            if self._waiting and not self._is_watched:
                self._is_watched = self._start_watch()
        begun.acquire()

    def _start_watch(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._check_later)
        except RuntimeError:  # the loop is closed: this worker was abandoned, and the result is not needed
            self._begin_all()
            return False
        return True

    def _is_over_time(self, thread_id: int) -> bool:
        """Whether a slice is over, and another thread waits for the next."""
        return bool(self._waiting) and time.monotonic() >= self._running[thread_id]

    def resume(self) -> None:
        """Let slices begin again: no request waits any more."""
        with self._lock:
            self.is_paused = False
            self._begin_slices()

    # --- called from both sides ---

    @property
    def running(self) -> list[int]:
        """The threads in a slice."""
        return list(self._running)

    @property
    def waiting(self) -> list[int]:
        """The threads in a wait for a slice, in order."""
        return list(self._waiting)

    def end_slice(self, thread_id: int) -> None:
        """End the slice of a thread that is done, or waits for something else."""
        with self._lock:
            self._running.pop(thread_id, None)
            self._begin_slices()

    def _begin_slices(self) -> None:
        while self._waiting and not self.is_paused and self._running_count < self._allowed_count:
            self._begin_slice()

    @property
    def _running_count(self) -> int:
        since = time.monotonic() - STALE_SECONDS
        return sum(until >= since for until in self._running.values())

    @property
    def _allowed_count(self) -> int:
        return 1 if self._cpu.measure() else self._max_running

    def _begin_all(self) -> None:
        self._is_over = True
        while self._waiting:
            self._begin_slice()

    def _begin_slice(self) -> None:
        thread_id = next(iter(self._waiting))
        self._running[thread_id] = time.monotonic() + SLICE_SECONDS
        self._begun_count += 1
        self._waiting.pop(thread_id).release()

    # --- called on the event loop ---

    def _check_later(self) -> None:
        self._loop.call_later(SLICE_SECONDS, self._begin_if_stalled)

    def _begin_if_stalled(self) -> None:
        """Begin a slice if none has begun since the last check, and not too many compute."""
        with self._lock:
            is_still = self._begun_count == self._seen_count
            if self._waiting and is_still and (self._running_count < self._max_running or not self._cpu.measure()):
                self._begin_slice()
            self._seen_count = self._begun_count
            self._is_watched = is_watched = bool(self._waiting)
        if is_watched:  # not the attribute: a worker may start a watch meanwhile
            self._check_later()

    def stop(self) -> None:
        """Let all threads run at once from now on: the executor stops."""
        with self._lock:
            self._begin_all()
