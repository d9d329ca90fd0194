"""An app whose signal handler reads the bodies of requests that run, on the event loop's thread: tests/e2e/test_finalizers.py."""

from __future__ import annotations

import os
import queue
import signal
from typing import Any

bodies: list[Any] = []
found: queue.Queue[str] = queue.Queue()


def on_signal(*_: Any) -> None:
    """Read all of a body, as a finalizer might."""
    try:
        bodies.pop().read()
    except Exception as exc:
        found.put(str(exc))


signal.signal(signal.SIGALRM, on_signal)


def app(environ: Any, start_response: Any) -> Any:
    """Let the handler read, and answer with its exception."""
    bodies.append(environ["wsgi.input"])
    os.kill(os.getpid(), signal.SIGALRM)
    start_response("200 OK", [])
    return [found.get().encode()]
