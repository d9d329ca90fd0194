"""Limits of time that the app sets by itself: uwsgi.set_user_harakiri, @harakiri.

Owns:     set_user_harakiri; the thread that looks at the limits.
Thread:   any sets; a thread of its own ends the process.
Spec:     uWSGI 2.0.30, set_user_harakiri: the process is killed when the time is over.
Not here: the limit of each request (--request-timeout, wsgi/deadlines.py).

A worker is not killed at once, as it serves other requests: it takes no more, is replaced, and what still runs after --drain-timeout is cut off. A mule,
and a process that does jobs, is killed, and started anew.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from ...core.frames import calls_of, outer_frames, show_calls
from ...core.named_tuple import NamedTuple
from ...workers.threads import Watcher
from .process import present
from .request import environ_here

logger = logging.getLogger("aserve.app")
LOOK_SECONDS = 0.25


class Limit(NamedTuple):
    """A limit of one thread."""

    at: float
    seconds: float
    request: int  # identifies the request in which it was set; 0: none


_limits: dict[int, Limit] = {}  # by thread
_looking: list[threading.Thread] = []


def set_user_harakiri(seconds: int) -> None:
    """End this process if this thread is still at what it does when the time is over; 0: it has done it."""
    if seconds <= 0:
        _limits.pop(threading.get_ident(), None)
        return
    environ = environ_here()
    _limits[threading.get_ident()] = Limit(
        time.monotonic() + seconds, seconds, id(environ) if environ is not None else 0
    )
    if not _looking:
        thread = Watcher(_look, "aserve-uwsgi-harakiri")
        _looking.append(thread)
        thread.start()


def _look() -> None:
    while _looking:
        time.sleep(LOOK_SECONDS)
        end_overdue(time.monotonic())


def end_overdue(now: float) -> None:
    """End the process if a limit is over; forget limits of requests that have ended."""
    frames = sys._current_frames()
    for thread_id, limit in _limits.copy().items():
        frame = frames.get(thread_id)
        environ = environ_here(frame) if frame is not None else None
        if frame is None or (limit.request and id(environ) != limit.request):
            _limits.pop(thread_id, None)
        elif now >= limit.at:
            _limits.pop(thread_id, None)
            _end(limit, frame)


def _end(limit: Limit, frame: Any) -> None:
    process = present()
    what = (
        "it is killed" if not process.worker_id else "it is replaced" if process.masterpid else "nothing can replace it"
    )
    logger.error(
        "uwsgi.set_user_harakiri: a thread is still at what was to take %g s at most; this process is overdue, and %s; the thread is at (the last call first):\n%s",
        limit.seconds, what, show_calls(calls_of(outer_frames(frame))).rstrip(),
    )  # fmt: skip
    if not process.worker_id:
        os.kill(os.getpid(), signal.SIGKILL)
    elif process.masterpid:
        os.kill(os.getpid(), signal.SIGTERM)


def _forget() -> None:
    _limits.clear()
    _looking.clear()


os.register_at_fork(after_in_child=_forget)
