"""The stacks and requests of this process's threads, as text for an operator.

Owns:     describe_stacks, describe_busy: threads at the same place share one stack; look_at_threads, for each thread.
Thread:   any that holds the GIL for a moment; source files are read.
Not here: the form of a stack (core/frames.py); stacks of a process with a hanging event loop (faulthandler, processes/children/forked.py).

A thread's request is found on the stack: nothing is recorded while requests are served. The stack of a plain request in C has only the worker's
frame of ours: there the engine knows the request.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator
from types import FrameType

from ...core.exchange import TIMED_OUT, Exchange
from ...core.frames import calls_of, outer_frames, show_calls
from ...core.named_tuple import NamedTuple
from ...workers.executor import WORKING
from ...workers.threads import Watcher
from ...wsgi.gateway import Gateway
from ..connection import Connection
from ..lane.native import running

_RUN = Connection.run.__code__
_RESPOND = Gateway.respond.__code__
MAX_HEADS = 8  # of threads at the same place
ORDER = "the last call first"  # a note beside stacks


class _Found(NamedTuple):
    """A thread, the request, and the stack."""

    name: str
    ident: int
    exchange: Exchange | None
    stack: str
    is_watcher: bool = False


def describe_stacks(names: Container[str] | None = None) -> str:
    """
    Return for each thread the name, the request, and the stack from the app on; all waiting threads in one line.

    With `names` only those threads, busy or not. The thread with the oldest request comes first.
    """
    own, found, idle = threading.get_ident(), [], []
    for each in _find():
        is_ours = each.ident == own or each.name.startswith("aserve-worker-")
        if names is not None:
            found += [each] if each.name in names else []
        elif each.exchange is not None or not is_ours:
            found += [each] if not each.is_watcher else []
        else:
            idle.append(each.name)
    return "\n".join([*_merge(found), *([f"waiting for requests: {', '.join(idle)}\n"] if idle else [])])


def describe_busy() -> str:
    """Return the same for threads with a request."""
    return "\n".join(_merge(each for each in _find() if each.exchange is not None))


def _find() -> Iterator[_Found]:
    threads = threading.enumerate()
    names = {thread.ident: thread.name for thread in threads}
    watchers = {thread.ident for thread in threads if isinstance(thread, Watcher)}
    for ident, exchange, frames in sorted(look_at_threads(), key=lambda found: names.get(found[0], "")):
        name, stack = names.get(ident, f"thread {ident}"), show_calls(calls_of(frames))
        yield _Found(name, ident, exchange, stack, ident in watchers)


def _merge(found: Iterable[_Found]) -> list[str]:
    """Return a text for each stack, with all threads on that stack in front."""
    by_stack: dict[str, list[_Found]] = {}
    for each in sorted(found, key=lambda each: (each.exchange is None, _began_at(each))):
        by_stack.setdefault(each.stack, []).append(each)
    texts = []
    for stack, threads in by_stack.items():
        heads = [_head_of(each) for each in threads[:MAX_HEADS]]
        if threads[MAX_HEADS:]:
            heads.append(f"and {len(threads) - MAX_HEADS} more threads")
        texts.append("\n".join(heads) + f":\n{stack}")
    return texts


def _began_at(found: _Found) -> float:
    return found.exchange.began_at if found.exchange is not None else 0.0


def _head_of(found: _Found) -> str:
    """Return a thread's name, the request, and the request's age, if requests are timed (--metrics, for one)."""
    if found.exchange is None:
        return found.name
    began_at = found.exchange.began_at
    age = f" for {time.monotonic() - began_at:.1f} s" if began_at else ""
    late = ", timed out: no client waits for it" if found.exchange.end == TIMED_OUT else ""
    return f"{found.name}, at {found.exchange.summary}{age}{late}"


def look_at_threads(arrived_before: float = math.inf) -> list[tuple[int, Exchange | None, list[FrameType]]]:
    """
    Return each thread's identifier, the exchange, and the frames from the app on; without an exchange, all frames. The innermost is first.

    `arrived_before`: later plain requests may be left out, see `running` of connections/lane/native.py.
    """
    plain = running(arrived_before)
    found = [(ident, *_request_of(frame, plain.get(ident))) for ident, frame in sys._current_frames().items()]
    # A worker goes on meanwhile. A worker with the same request before and now had that request in between: no request runs twice.
    still = running(-math.inf)
    return [
        (ident, exchange if exchange is not plain.get(ident) or exchange is still.get(ident) else None, frames)
        for ident, exchange, frames in found
    ]


def _request_of(frame: FrameType, plain: Exchange | None) -> tuple[Exchange | None, list[FrameType]]:
    """Return the exchange of a stack, and the frames from the app on; `plain`: the worker's exchange in C, if any."""
    frames: list[FrameType] = []
    inside: list[FrameType] | None = None
    for at in outer_frames(frame):
        if at.f_code is _RESPOND:
            inside = frames[:]
        elif at.f_code is _RUN:
            return at.f_locals.get("exchange"), frames if inside is None else inside
        elif plain is not None and at.f_code in WORKING:
            return plain, frames
        frames.append(at)
    return None, frames
