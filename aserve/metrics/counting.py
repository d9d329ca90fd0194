"""What one process counts.

Owns:     Counters: the words of a process, and the calls that raise them.
Thread:   `write` whichever thread ends an exchange, several at once; `note_gil_wait` a thread of its own; the rest the event loop's.
Not here: which words there are (table.py), whose memory they are in (processes/slots.py, single.py), who reads them.

Only this process writes its words, each as a whole: a reader finds the number of before or the one of after, and a
process that is killed takes nothing along but what it is just counting.

A lock guards them, since threads end exchanges side by side, also without a GIL. Cells of each thread, added up by the loop once a
second, would need none; but a crash would lose what is in them, and no page has room for a thousand threads. Measured
2026-11-22, `write` alone, of a request with both times: 1.1 us on CPython 3.11, 0.11 us on PyPy 3.9, of which the lock is 0.16 and 0.05.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from ..connections.shared_memory import pointer_to
from ..errors import RequestRefused
from ..exchange import ANSWERED, Exchange
from ..statistics import Statistics
from .table import BUCKETS, CLASSES, COUNTED, ENDS, FIRST_WORD, PLACES, REFUSALS, SUM, WORDS

# Where the words are that each request raises.
_REQUESTS = PLACES["aserve_requests_total"]
_BYTES = PLACES["aserve_response_body_bytes_total"]
_EXCEPTIONS = PLACES["aserve_app_exceptions_total"]
_QUEUE = PLACES["aserve_request_queue_seconds"]
_DURATION = PLACES["aserve_request_duration_seconds"]
_LOST_LINES = PLACES["aserve_access_log_lines_lost_total"]
_REFUSED = {status: PLACES["aserve_requests_refused_total"] + index for index, status in enumerate(REFUSALS)}
_REFUSED_OTHERWISE = PLACES["aserve_requests_refused_total"] + len(REFUSALS)
_GAUGES = [
    (PLACES[metric.name] + index, read) for metric in COUNTED for index, read in enumerate(metric.reads)
]  # fmt: skip

# By how many bits the whole milliseconds of a time have, that is below its bucket's bound: where the bucket is.
_QUEUE_BUCKETS = [_QUEUE + min(bits, BUCKETS) for bits in range(65)]
_DURATION_BUCKETS = [_DURATION + min(bits, BUCKETS) for bits in range(65)]
_QUEUE_SUM, _DURATION_SUM = _QUEUE + SUM, _DURATION + SUM
_GIL = PLACES["aserve_gil_wait_seconds"]

_monotonic = time.monotonic


class Counters:
    """The words of one process; a RequestLog."""

    wants_times = True

    def __init__(self, memory: Any, threads: int) -> None:
        """`memory`: a page of PAGE_WORDS, of which ours are all 0, and nobody else writes them; `threads`: --threads."""
        self._memory = memory
        # By a pointer: PyPy writes an item of a memoryview octet by octet, and a reader may be between two of them.
        self._words = pointer_to("uint64_t *", memory) + FIRST_WORD
        self._counts = [0] * WORDS  # what is in them: to read it there again would cost as much as to write it
        self._lock = threading.Lock()
        self._words[PLACES["aserve_threads_limit"]] = threads or 1  # 0: the event loop's

    # --- called from whichever thread ends an exchange ---

    def write(self, exchange: Exchange) -> None:
        """Count an exchange whose response is out, or lost."""
        counts, words, response = self._counts, self._words, exchange.response
        status_class, size = (response.code // 100, response.sent_bytes) if response is not None else (0, 0)
        if status_class >= len(CLASSES):
            status_class = 0
        place = _REQUESTS + status_class * len(ENDS) + (exchange.end != ANSWERED)
        began_at = exchange.began_at
        if began_at:
            waited = int((began_at - (exchange.arrived_at or began_at)) * 1e6) or 1
            took = int((_monotonic() - began_at) * 1e6) or 1
            wait_place = _QUEUE_BUCKETS[((waited - 1) // 1000).bit_length()]
            took_place = _DURATION_BUCKETS[((took - 1) // 1000).bit_length()]
        with self._lock:
            counts[place] = words[place] = counts[place] + 1
            counts[_BYTES] = words[_BYTES] = counts[_BYTES] + size
            if began_at:
                counts[wait_place] = words[wait_place] = counts[wait_place] + 1
                counts[took_place] = words[took_place] = counts[took_place] + 1
                counts[_QUEUE_SUM] = words[_QUEUE_SUM] = counts[_QUEUE_SUM] + waited
                counts[_DURATION_SUM] = words[_DURATION_SUM] = counts[_DURATION_SUM] + took
        if exchange.has_app_failed:
            self._add(_EXCEPTIONS)

    # --- called from the thread of a GilWatch ---

    def note_gil_wait(self, seconds: float) -> None:
        """Count a wait for the GIL."""
        waited = int(seconds * 1e6)
        self._add(_GIL + min((max(waited - 1, 0) // 1000).bit_length(), BUCKETS))
        self._add(_GIL + SUM, waited)

    # --- called on the event loop ---

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Count a request that aserve has refused."""
        self._add(_REFUSED.get(why.status, _REFUSED_OTHERWISE))

    def on_second(self, now: Statistics, lost_lines: int = 0) -> None:
        """Write the gauges, and what is counted elsewhere: lines that the access log has lost since the start."""
        self._words[_LOST_LINES] = lost_lines
        for place, read in _GAUGES:
            self._words[place] = read(now)

    # --- called from all sides ---

    def _add(self, place: int, by: int = 1) -> None:
        with self._lock:
            self._counts[place] = self._words[place] = self._counts[place] + by


def read_words(memory: Any) -> list[int]:
    """Return the words of a process from its page, each as it is written: as a whole."""
    words = pointer_to("uint64_t *", memory) + FIRST_WORD
    return [words[place] for place in range(WORDS)]
