"""Whose time slice it is, among workers that have yielded their slots.

Owns:     TimeSlices: who goes on, who waits, for how long.
Thread:   two, under banners: workers wait for slices, the event loop looks whether they move.
Not here: who yields, and who takes its place (executor.py).

A response that outruns its reader goes to the disk as fast as the app makes it, and
nobody waits for it. Were dozens of them to compute at once, those who are waited for
would hardly get the GIL. So:

- One goes on at a time, and after SLICE_SECONDS the next. While they do not compute but
  block, as many go on at once as there are workers beside them.
- While requests wait for a worker, none goes on (`is_paused`).
- But whenever for SLICE_SECONDS no slice has begun, the loop begins another: one of those
  that wait may have what all others need, such as a connection of the app's pool. Of those
  who compute there are never more than workers: a slice of STALE_SECONDS is taken to block.
"""

from __future__ import annotations

import asyncio
import threading
import time

from .cpu import CpuMeter

# How long one goes on before the next: some hundred pieces, so that few of them pay for the change. Guess.
SLICE_SECONDS = 0.020
# How long a slice counts: one that has not ended by then waits inside the app, or is hopeless. Guess.
STALE_SECONDS = 1.0


class TimeSlices:
    """Lets few of many threads go on at a time, in the order in which they came."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_running: int) -> None:
        self._loop = loop
        self._max_running = max_running
        self._lock = threading.Lock()  # guards all below
        self._running: dict[int, float] = {}  # by thread: until when, in monotonic time
        self._waiting: dict[int, threading.Lock] = {}  # by thread, in order; the lock's release begins its slice
        self._begun_count = 0
        self._seen_count = 0  # of those begun, at the loop's last look
        self.is_paused = False  # until `resume`
        self._is_watched = False
        self._is_over = False
        self._cpu = CpuMeter()

    # --- called from a worker ---

    def wait_for_slice(self, thread_id: int, is_queue: bool) -> None:
        """
        Wait for a time slice, unless the calling thread has one that is not over, or that nobody else wants.

        `is_queue` tells that requests wait for a worker; `resume` has to be called when none does any more.
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
                self._is_watched = self._watch_soon()
        begun.acquire()

    def _watch_soon(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._watch)
        except RuntimeError:  # the loop is closed: this worker was left behind, and nobody waits for it
            self._begin_all()
            return False
        return True

    def _is_over_time(self, thread_id: int) -> bool:
        """Whether a slice is over, and somebody waits for the next."""
        return bool(self._waiting) and time.monotonic() >= self._running[thread_id]

    def resume(self) -> None:
        """Let slices begin again: no request waits any more."""
        with self._lock:
            self.is_paused = False
            self._begin_slices()

    # --- called from both sides ---

    @property
    def running(self) -> list[int]:
        """The threads that have their slice."""
        return list(self._running)

    @property
    def waiting(self) -> list[int]:
        """The threads that wait for theirs, in order."""
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
        """Slices that are not stale."""
        since = time.monotonic() - STALE_SECONDS
        return sum(until >= since for until in self._running.values())

    @property
    def _allowed_count(self) -> int:
        return 1 if self._cpu.look() else self._max_running

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

    def _watch(self) -> None:
        self._loop.call_later(SLICE_SECONDS, self._look)

    def _look(self) -> None:
        """Begin a slice if there was none since the last look, and there are not too many that compute."""
        with self._lock:
            is_still = self._begun_count == self._seen_count
            if self._waiting and is_still and (self._running_count < self._max_running or not self._cpu.look()):
                self._begin_slice()
            self._seen_count = self._begun_count
            self._is_watched = is_watched = bool(self._waiting)
        if is_watched:  # not the attribute: a worker that waits for a slice meanwhile starts a watch of its own
            self._watch()

    def stop(self) -> None:
        """From now on everybody goes on at once: it is the end."""
        with self._lock:
            self._begin_all()
