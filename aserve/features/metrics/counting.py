"""The counts of one process.

Owns:     Counters: the words of a process, and the methods that raise them.
Thread:   `write` the thread that reports ends (core/ends.py); `note_gil_wait` a GilWatch's; the rest the event loop's.
Not here: the list of words (table.py), their memory (processes/children/pages.py, lone.py), reading them.

Only this process writes its words, each as a whole: a reader finds the number before or after a change, and when the process
is killed, only the ends are lost that it is counting, or that wait to be counted (core/ends.py).

A lock guards them, since threads end exchanges in parallel, also without a GIL. Counters per thread, added up by the loop once a
second, would need none; but a crash would lose them, and no page has room for a thousand threads. Measured
2026-11-23, `write` of requests with both times, CPython 3.11: one alone 0.8 us, each of 64 together 0.2 us.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ...connections.monitoring.statistics import Statistics
from ...connections.shared_memory import pointer_to
from ...core.ends import Ended
from ...core.errors import RequestRefused
from ...core.exchange import ANSWERED, Exchange
from .table import BOUNDS, BUCKETS, CLASSES, COUNTED, ENDS, ERROR_LINES_LOST, FIRST_WORD, PLACES, REFUSALS, SUM, WORDS

# The places of the words that each request raises.
_REQUESTS = PLACES["aserve_requests_total"]
_BYTES = PLACES["aserve_response_body_bytes_total"]
_EXCEPTIONS = PLACES["aserve_app_exceptions_total"]
_QUEUE = PLACES["aserve_request_queue_seconds"]
_DURATION = PLACES["aserve_request_duration_seconds"]
_LOST_LINES = PLACES["aserve_access_log_lines_lost_total"]
_BUSY_SECONDS = PLACES["aserve_threads_busy_seconds_total"]
_LOST_MESSAGES = PLACES[ERROR_LINES_LOST]
_REFUSED = {status: PLACES["aserve_requests_refused_total"] + index for index, status in enumerate(REFUSALS)}
_REFUSED_OTHERWISE = PLACES["aserve_requests_refused_total"] + len(REFUSALS)
_GAUGES = [
    (PLACES[metric.name] + index, read) for metric in COUNTED for index, read in enumerate(metric.reads)
]  # fmt: skip

# By hundreds of the status; a number outside HTTP's counts as none.
_BY_CLASS = [_REQUESTS + (number if number < len(CLASSES) else 0) * len(ENDS) for number in range(10)]
_QUICK = BOUNDS[0]
_QUEUE_SUM, _DURATION_SUM = _QUEUE + SUM, _DURATION + SUM
_GIL = PLACES["aserve_gil_wait_seconds"]


class Counters:
    """The words of one process."""

    # For native/counts.c: see counts.h.
    places = tuple(_BY_CLASS), _BYTES, _QUEUE, _DURATION, BUCKETS

    def __init__(self, memory: Any, threads: int) -> None:
        """`memory`: a page of PAGE_WORDS, whose counters are 0 and have no other writer; `threads`: --threads."""
        self._memory = memory
        # Through a pointer: PyPy writes an item of a memoryview octet by octet, and a reader could see half of it.
        self._words = pointer_to("uint64_t *", memory) + FIRST_WORD
        self._counts = [0] * WORDS  # their values: to read them from the page would cost as much as to write them
        self._lock = threading.Lock()
        self.thread_seconds = 0.0  # spent by threads on requests that have ended
        self._words[PLACES["aserve_threads_limit"]] = threads or 1  # 0: the event loop runs the app

    # --- called from whichever thread ends an exchange ---

    def write(self, ended: Sequence[Ended]) -> None:
        """Count exchanges whose responses were sent, or lost."""
        counts, words = self._counts, self._words
        size, waited, took, held, timed_count, quick_waits, quick = 0, 0.0, 0.0, 0.0, 0, 0, 0
        with self._lock:
            for each in ended:
                began_at, ended_at = each.began_at, each.ended_at
                place = _BY_CLASS[each.status // 100]
                if each.end != ANSWERED:
                    place += 1  # cut
                words[place] = counts[place] = counts[place] + 1
                size += each.size
                if each.has_app_failed:
                    self._raise(_EXCEPTIONS, 1)
                if began_at:
                    wait, run = began_at - (each.arrived_at or began_at), ended_at - began_at
                    timed_count += 1
                    waited += wait
                    if wait <= _QUICK:  # most are: no search for the bucket
                        quick_waits += 1
                    else:
                        self._raise(_QUEUE + _bucket_of(wait), 1)
                    if not each.thread_id:  # its client left while it waited for a thread
                        continue
                    took += run
                    held += (each.left_at or ended_at) - began_at
                    if run <= _QUICK:
                        quick += 1
                    else:
                        self._raise(_DURATION + _bucket_of(run), 1)
            words[_BYTES] = counts[_BYTES] = counts[_BYTES] + size
            if timed_count:
                self.thread_seconds += held
                words[_QUEUE] = counts[_QUEUE] = counts[_QUEUE] + quick_waits
                words[_DURATION] = counts[_DURATION] = counts[_DURATION] + quick
                words[_QUEUE_SUM] = counts[_QUEUE_SUM] = counts[_QUEUE_SUM] + int(waited * 1e6)
                words[_DURATION_SUM] = counts[_DURATION_SUM] = counts[_DURATION_SUM] + int(took * 1e6)

    def add(self, found: Iterable[tuple[int, int]], seconds: float) -> None:
        """Add counts of native/counts.c: pairs of word and increment; `seconds`: spent by threads on these requests."""
        with self._lock:
            for place, by in found:
                self._raise(place, by)
            self.thread_seconds += seconds

    # --- called from the thread of a GilWatch ---

    def note_gil_wait(self, seconds: float) -> None:
        """Count a wait for the GIL."""
        self._add(_GIL + _bucket_of(seconds))
        self._add(_GIL + SUM, int(seconds * 1e6))

    # --- called on the event loop ---

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Count a request that aserve has refused."""
        self._add(_REFUSED.get(why.status, _REFUSED_OTHERWISE))

    def on_second(
        self, now: Statistics, lost_lines: int = 0, busy_seconds: float = 0.0, lost_messages: int = 0
    ) -> None:
        """Write the gauges, and counts of others: lines that the logs have lost since the start, and busy.py's seconds."""
        self._words[_LOST_LINES], self._words[_LOST_MESSAGES] = lost_lines, lost_messages
        self._words[_BUSY_SECONDS] = int(busy_seconds * 1e6)
        for place, read in _GAUGES:
            self._words[place] = read(now)

    # --- called from any of these ---

    def _add(self, place: int, by: int = 1) -> None:
        with self._lock:
            self._raise(place, by)

    def _raise(self, place: int, by: int) -> None:
        """Raise a word; the caller holds the lock."""
        self._counts[place] = self._words[place] = self._counts[place] + by


def _bucket_of(seconds: float) -> int:
    """Return the first bucket whose bound a time does not exceed: the bit length of its milliseconds, rounded up, less one."""
    return min((max(int(seconds * 1e6) - 1, 0) // 1000).bit_length(), BUCKETS)


def read_words(memory: Any) -> list[int]:
    """Return the words of a process from its page, each read as a whole."""
    words = pointer_to("uint64_t *", memory) + FIRST_WORD
    return [words[place] for place in range(WORDS)]
