"""The JSON of uWSGI's stats server, for the tools that read it (--stats).

Owns:     render_stats.
Thread:   that of its owner: a supervisor's, or an event loop's; pure but for the clock and the process's user.
Spec:     uWSGI, "The uWSGI Stats Server", as uwsgitop 0.12 reads it.
Not here: connections (scrapes.py), the numbers (lifecycle/status.py, counting.py).

A name has uWSGI's meaning where aserve has such a number. The exceptions: `avg_rt` is the mean since the start, in uWSGI the mean of the
last value and the latest request; `listen_queue` are requests that wait for a thread, which are accepted and read here; `vsz`, signals,
locks and the counts of single threads are not known, and 0 or empty.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.start_folder import real_folder
from .table import CLASSES, ENDS, PLACES, REFUSALS, SUM

_REQUESTS = slice(PLACES["aserve_requests_total"], PLACES["aserve_requests_total"] + len(CLASSES) * len(ENDS))
_BYTES, _EXCEPTIONS = PLACES["aserve_response_body_bytes_total"], PLACES["aserve_app_exceptions_total"]
_DURATION = PLACES["aserve_request_duration_seconds"]
_TIMED_OUT = PLACES["aserve_requests_refused_total"] + REFUSALS.index(504)


def render_stats(status: Mapping[str, Any], words: Mapping[int, Sequence[int]]) -> bytes:
    """Return the JSON; `status` as for `aserve status --json`, `words`: the counts, by slot."""
    latest: dict[int, Mapping[str, Any]] = {}
    for worker in status["workers"]:  # of two in a slot, the ready one
        if worker["slot"] in words and (worker["slot"] not in latest or worker["state"] == "ready"):
            latest[worker["slot"]] = worker
    workers = [_describe(worker, words[slot], status["threads"]) for slot, worker in sorted(latest.items())]
    waiting = sum(worker["waiting"] for worker in status["workers"])
    stats = {
        "version": f"aserve-{status['version']}",
        "listen_queue": waiting,
        "listen_queue_errors": 0,
        "signal_queue": 0,
        "load": waiting,
        "pid": status["pid"],
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "cwd": real_folder(),
        "locks": [],
        "sockets": [],
        "workers": workers,
    }
    return json.dumps(stats, indent=1).encode()


def _describe(worker: Mapping[str, Any], words: Sequence[int], threads: int) -> dict[str, Any]:
    timed, busy, count = sum(words[_DURATION : _DURATION + SUM]), worker["threads_busy"], max(threads, 1)
    running_microseconds = words[_DURATION + SUM]
    status = ("busy" if busy else "idle") if worker["state"] == "ready" else "pause"
    return {
        "id": worker["slot"] or 1,
        "pid": worker["pid"],
        "accepting": int(worker["state"] == "ready"),
        "requests": sum(words[_REQUESTS]),
        "delta_requests": worker["requests"],
        "exceptions": words[_EXCEPTIONS],
        "harakiri_count": words[_TIMED_OUT],
        "signals": 0,
        "signal_queue": 0,
        "status": status,
        "rss": worker["rss_bytes"] or 0,
        "vsz": 0,
        "running_time": running_microseconds,
        "last_spawn": int(time.time() - worker["seconds"]),
        "respawn_count": worker["generation"],
        "tx": words[_BYTES],
        "avg_rt": running_microseconds // timed if timed else 0,
        "apps": [],
        "cores": [
            {
                "id": number, "requests": 0, "static_requests": 0, "routed_requests": 0, "offloaded_requests": 0,
                "write_errors": 0, "read_errors": 0, "in_request": int(number < busy), "vars": [], "req_info": {},
            }
            for number in range(count)
        ],
    }  # fmt: skip
