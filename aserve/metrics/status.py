"""What a status says, on the control socket and on the status page.

Owns:     the objects of docs/control.md: of a server as a whole, of a process's memory, of a process that serves by itself.
Thread:   that of whoever asks; `describe_single` the event loop's.
Not here: workers of a supervisor (processes/status.py), what is counted (history.py), who asks (processes/control.py, scrapes.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from ..core.exchange import without_query
from ..core.footprint import Footprint, Footprints
from ..extension import Serving
from ..settings import VERSION

MAX_REQUESTS = 10  # of a process, the oldest that it is at


def describe_server(seconds: float, text: str, threads: int) -> dict[str, Any]:
    """Return what a status says of a server as a whole; `text`: how it is; `threads`: of each process, for the app."""
    return {
        "version": VERSION,
        "python": f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}",
        "pid": os.getpid(),
        "seconds": round(seconds, 1),
        "text": text,
        "threads": threads,
    }


def describe_footprint(footprint: Footprint | None) -> dict[str, int | None]:
    """Return what a status says of what a process takes; None: it is not there yet."""
    memory = footprint.memory if footprint else None
    return {
        "rss_bytes": memory.rss_bytes if memory else None,
        "pss_bytes": memory.pss_bytes if memory else None,
        "uss_bytes": memory.uss_bytes if memory else None,
        "descriptors": footprint.descriptors if footprint else None,
        "descriptor_limit": footprint.descriptor_limit if footprint else None,
    }


def describe_requests(at: Sequence[tuple[float, str]], shows_queries: bool) -> list[list[object]]:
    """Return what a status says of the requests that a process is at."""
    return [[round(seconds, 1), text if shows_queries else without_query(text)] for seconds, text in at[:MAX_REQUESTS]]


def describe_single(
    server: Serving, seconds: float, footprints: Footprints, growth: dict[str, int] | None = None
) -> dict[str, Any]:
    """Return the status of a process without a supervisor, which has run for so long; `growth`: see Growth.describe."""
    now = server.statistics()
    worker: dict[str, Any] = {
        "slot": 0,
        "pid": os.getpid(),
        "generation": 1,
        "state": "draining" if now.is_draining else "ready",
        "seconds": round(seconds, 1),
        "requests": now.requests,
        "connections": now.connections_open,
        "connections_limit": now.connections_limit,
        "websockets": now.connections_websocket,
        "running": now.connections_running,
        "waiting": now.requests_waiting,
        "waiting_seconds": round(now.requests_waiting_seconds, 1),
        "threads_busy": round(now.workers_busy_lately, 1),
        "threads_busy_now": now.workers_busy,
        "threads_stuck": now.workers_stuck,
        "stalled_seconds": now.requests_stalled_seconds,
        "silent_seconds": 0.0,
        **describe_footprint(footprints.of(os.getpid())),
        "growth": growth,
        "at": describe_requests(server.ongoing(MAX_REQUESTS), server.config.show_queries),
    }
    text = f"{'draining' if now.is_draining else 'serving'} on {', '.join(server.urls)}"
    return {
        **describe_server(seconds, text, server.config.threads),
        "workers_wanted": 0,
        "workers_ready": 0,
        "listening": server.listening(),
        "slow": server.slow_requests(),
        "crashes": [],
        "workers": [worker],
    }
