"""What each thread of this process is at, for a person.

Owns:     describe_stacks; request_of, format_frames, for one thread.
Thread:   any that holds the GIL for a moment; it reads source files.
Not here: stacks of a process whose event loop hangs (faulthandler, processes/worker.py).

A thread's request is found on its stack: nothing is noted while requests are served.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from types import FrameType

from .connections.connection import Connection
from .exchange import Exchange
from .frames import outer_frames
from .wsgi.gateway import Gateway

_RUN = Connection.run.__code__
_RESPOND = Gateway.respond.__code__
# They sleep, and are of no interest.
GIL_WATCH, SLOW_WATCH = "aserve-gil-watch", "aserve-slow-requests"
MAX_FRAMES = 30  # of a stack, the innermost


def describe_stacks() -> str:
    """Return for each thread its name, its request, and its stack from the app on; threads without anything to do in one line."""
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    own, texts, idle = threading.get_ident(), [], []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: threads.get(item[0], "")):
        name = threads.get(ident, f"thread {ident}")
        exchange, frames = request_of(frame)
        if exchange is not None:
            texts.append(f"{name}, at {exchange.summary}{_age_of(exchange)}:\n{format_frames(frames)}")
        elif ident == own or name.startswith("aserve-worker-"):
            idle.append(name)
        elif name not in (GIL_WATCH, SLOW_WATCH):
            texts.append(f"{name}:\n{format_frames(frames)}")
    if idle:
        texts.append(f"waiting for requests: {', '.join(idle)}\n")
    return "\n".join(texts)


def request_of(frame: FrameType) -> tuple[Exchange | None, list[FrameType]]:
    """Return the exchange that a stack is at, and the frames from the app on; without one, all frames. The innermost is first."""
    frames: list[FrameType] = []
    inside: list[FrameType] | None = None
    for at in outer_frames(frame):
        if at.f_code is _RESPOND:
            inside = frames[:]
        elif at.f_code is _RUN:
            return at.f_locals.get("exchange"), frames if inside is None else inside
        frames.append(at)
    return None, frames


def _age_of(exchange: Exchange) -> str:
    """Return for how long a worker has been at it, if requests are timed (--metrics, or an access log that tells times)."""
    return f" for {time.monotonic() - exchange.began_at:.1f} s" if exchange.began_at else ""


def format_frames(frames: list[FrameType]) -> str:
    """Return a stack as text, the innermost frame last."""
    chosen = frames[:MAX_FRAMES]
    lines = traceback.format_list(
        [traceback.FrameSummary(f.f_code.co_filename, f.f_lineno or 0, f.f_code.co_name) for f in reversed(chosen)]
    )
    skipped = f"  ({len(frames) - MAX_FRAMES} frames before these)\n" if len(frames) > MAX_FRAMES else ""
    return skipped + "".join(lines)
