"""The last minute, from counts that are kept anyway.

Owns:     History: a sample of all words each second, and the differences between samples.
Thread:   that of its owner: a supervisor's, or an event loop's.
Not here: counting (counting.py), warnings (lifecycle/advice.py).

Measured 2026-11-23: a sample of one process takes 30 us on CPython 3.11, and 0.1 ms on PyPy 3.9, once a second; requests pay nothing.
An event takes 1 ms and 3 ms, while a browser reads the stream.
"""

from __future__ import annotations

import array
import bisect
import collections
import itertools
import time
from collections.abc import Sequence
from typing import Any

from ...workers.busy import SECONDS as BUSY_SECONDS
from .table import BOUNDS, BUCKETS, CLASSES, ENDS, PLACES, REFUSALS, SUM, THOUSANDTH, WORDS

SECONDS = 60
RECENT_SECONDS = 10
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# Reported for times beyond the last bound: twice that bound.
BEYOND = 2 * BOUNDS[-1]

_REQUESTS, _REFUSED = PLACES["aserve_requests_total"], PLACES["aserve_requests_refused_total"]
_QUEUE, _DURATION = PLACES["aserve_request_queue_seconds"], PLACES["aserve_request_duration_seconds"]
_GIL = PLACES["aserve_gil_wait_seconds"]
_LIMIT, _BUSY = PLACES["aserve_threads_limit"], PLACES["aserve_threads"]
_WAITING = PLACES["aserve_requests_waiting"]
# The mean share of busy threads from which all count as busy. A thread needs less than a percent of its time between two requests.
FULL = 0.99
# The gauges: names here, and words.
_GAUGES = {
    "threads_limit": _LIMIT,
    "threads_busy": _BUSY,
    "threads_idle": _BUSY + 1,
    "threads_compensated": _BUSY + 2,
    "threads_stuck": _BUSY + 3,
    "waiting": _WAITING,
    "in_flight": PLACES["aserve_requests_in_flight"],
    **{
        f"connections_{state}": PLACES["aserve_connections"] + index
        for index, state in enumerate(("handshake", "idle", "receiving", "running", "ending"))
    },
    "spool_files": PLACES["aserve_spool_files"],
    "spool_files_responses": PLACES["aserve_spool_files"] + 1,
}

_IN_THOUSANDTHS = {name for name in _GAUGES if name.startswith("threads_") and name != "threads_limit"}

Words = Sequence[int]


class History:
    """Samples of the words of all processes together."""

    def __init__(self) -> None:
        self._samples: collections.deque[tuple[float, Words]] = collections.deque(maxlen=SECONDS + 1)
        self._busy_since: float | None = None  # since when all threads have been busy
        self.all_busy_seconds = 0.0  # for how long; 0: they are not

    def add(self, words: Words) -> None:
        """Add a sample once a second: the sums over all processes."""
        now = time.monotonic()
        self._samples.append((now, array.array("Q", words)))
        if not 0 < words[_LIMIT] * FULL <= words[_BUSY] * THOUSANDTH:
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = now - BUSY_SECONDS  # the value is the mean of this time
        self.all_busy_seconds = now - self._busy_since if self._busy_since is not None else 0.0

    def describe(self) -> dict[str, Any]:
        """Return the present gauges, the counts of the last minute, and a row for each of its seconds, the latest last."""
        samples = list(self._samples) or [(time.monotonic(), [0] * WORDS)]
        (first_at, first), (last_at, last) = samples[0], samples[-1]
        seconds = last_at - first_at
        grown = [max(after - before, 0) for before, after in zip(first, last)]
        ends = {
            f"{status} {end}": count
            for (status, end), count in zip([(c, e) for c in CLASSES for e in ENDS], grown[_REQUESTS:])
            if count
        }
        refused = {str(why): count for why, count in zip([*REFUSALS, "other"], grown[_REFUSED:]) if count}
        requests = sum(ends.values())
        return {
            "now": {name: _value(name, last) for name in _GAUGES},
            "minute": {
                "seconds": round(seconds, 1),
                "requests": requests,
                "per_second": round(requests / seconds, 2) if seconds else 0.0,
                "ends": ends,
                "refused": refused,
                "exceptions": grown[PLACES["aserve_app_exceptions_total"]],
                "lost_lines": grown[PLACES["aserve_access_log_lines_lost_total"]],
                "body_bytes": grown[PLACES["aserve_response_body_bytes_total"]],
                "queue": _describe_times(grown[_QUEUE : _QUEUE + SUM + 1]),
                "duration": _describe_times(grown[_DURATION : _DURATION + SUM + 1]),
                "gil": _describe_times(grown[_GIL : _GIL + SUM + 1]),
            },
            "series": _series_of(samples),
            "recent": self._describe_recent(samples),
        }

    def _describe_recent(self, samples: Sequence[tuple[float, Words]]) -> dict[str, float]:
        """Return for how many seconds all threads have been busy; and for the last ten, their mean load and the mean wait."""
        latest = [words for _, words in samples[-RECENT_SECONDS - 1 :]]
        limit = latest[-1][_LIMIT]
        return {
            "all_busy_seconds": round(self.all_busy_seconds, 1),
            "busy_share": round(latest[-1][_BUSY] * THOUSANDTH / limit, 2) if limit else 0.0,
            "queue_seconds": _mean(latest[0], latest[-1], _QUEUE),
        }


def _series_of(samples: Sequence[tuple[float, Words]]) -> dict[str, list[float]]:
    pairs = list(zip(samples, samples[1:]))
    return {
        "per_second": [
            round(max(_requests(after) - _requests(before), 0) / ((then - at) or 1), 2)
            for (at, before), (then, after) in pairs
        ],
        "queue_seconds": [_mean(before, after, _QUEUE) for (_, before), (_, after) in pairs],
        "duration_seconds": [_mean(before, after, _DURATION) for (_, before), (_, after) in pairs],
        **{name: [_value(name, words) for _, words in samples] for name in ("threads_busy", "waiting", "in_flight")},
    }


def _value(name: str, words: Words) -> float:
    word = words[_GAUGES[name]]
    return round(word * THOUSANDTH, 1) if name in _IN_THOUSANDTHS else word


def _requests(words: Words) -> int:
    return sum(words[_REQUESTS : _REQUESTS + len(CLASSES) * len(ENDS)])


def _mean(before: Words, after: Words, place: int) -> float:
    """Return the mean time of the requests between two samples, in seconds; 0: there were none."""
    count = sum(after[place : place + SUM]) - sum(before[place : place + SUM])
    return round((after[place + SUM] - before[place + SUM]) / count / 1e6, 6) if count > 0 else 0.0


def _describe_times(words: Words) -> dict[str, float | None]:
    """Return mean and quantiles of a histogram in seconds; a quantile is its bucket's bound, at most twice too high."""
    count = sum(words[:SUM])
    if not count:
        return {"count": 0, "mean": None, **dict.fromkeys(QUANTILES)}
    found: dict[str, float | None] = {"count": count, "mean": round(words[SUM] / count / 1e6, 6)}
    below = list(itertools.accumulate(words[: BUCKETS + 1]))
    for name, share in QUANTILES.items():
        found[name] = (*BOUNDS, BEYOND)[bisect.bisect_left(below, share * count)]
    return found
