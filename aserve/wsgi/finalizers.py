"""Calls of the app into aserve that must not wait: by finalizers, weak references' callbacks and signal handlers.

Owns:     refuse_inside.
Thread:   any.
Spec:     PEP 3333; Python's data model, `object.__del__`: may run in any thread, between any two bytecodes of ours.
Not here: the locks and waits (response.py, deadlines.py, connections/, workers/); the uwsgi module's (compat/uwsgi_api/locks.py).

Such a call may come within code of ours under a lock, or on the event loop's thread, during a wait of a worker for the loop. By taking a lock, or
by a wait for a worker or the loop, the call could wait for ever, and with it the whole process. The loop starts threads, and Thread.start waits
for the new thread's first lines and for the lock of the interpreter's list of threads: a call within either must not wait.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from types import FrameType
from typing import Any

from ..core.errors import AppError
from ..workers.executor import WORKING

# In frames of these a lock may be held, or a response be half made. Below other frames of ours the search goes on.
LOCKING = ("aserve.core.", "aserve.connections.", "aserve.workers.", "aserve.wsgi.response")
# These hold no lock while the app runs; nor does WORKING, which calls C, and C the app.
CALLS_APP = {("aserve.wsgi.gateway", None), ("aserve.connections.connection", "run")}
# The first lines of a thread, up to its entry in the interpreter's list.
BEGINNING = threading.Thread._bootstrap_inner.__code__  # type: ignore[attr-defined]


def refuse_inside(loop: Any, called: dict[str, Any] | None = None) -> None:
    """
    Refuse the app's call if inside code of ours; `called`: the globals of the called module, if not the caller's.

    Raises:
        AppError: this is the thread of `loop`, the server's, outside the app, or a thread that begins, or is within code that may hold a lock.
    """
    if loop is not None and asyncio._get_running_loop() is loop:  # with --threads 0 the app finds no running loop
        raise AppError("a finalizer or signal handler called the response of a request on the event loop's thread")
    if threading._active_limbo_lock._is_owned():  # type: ignore[attr-defined]
        raise _within("threading")
    caller = sys._getframe(1)
    frame: FrameType | None = caller
    called = called or caller.f_globals
    while frame is not None and frame.f_globals is not called:  # on PyPy partial() has a frame
        frame = frame.f_back
    while frame is not None and frame.f_globals is called:
        frame = frame.f_back
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code in WORKING or not CALLS_APP.isdisjoint(((name, None), (name, frame.f_code.co_name))):
            return
        is_beginning = frame.f_code is BEGINNING and threading.get_ident() not in threading._active  # type: ignore[attr-defined]
        if is_beginning or name.startswith(LOCKING):
            raise _within(name)
        frame = frame.f_back


def _within(name: str) -> AppError:
    return AppError(f"a finalizer or signal handler called the response of a request within {name}")
