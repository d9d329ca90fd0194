"""Processes that the app starts by fork(): what they keep of the server.

Owns:     the hooks around os.fork(); which signal handlers are `run`'s.
Thread:   whichever forks; in the child it is the only one there is.
Not here: subprocess, which starts another program and runs no hooks: all our descriptors
          close at exec, and so do handlers.

A child inherits the handlers of its parent and the descriptor by which they wake the
parent's event loop. Left as they are, a signal for the child would drain the server.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

try:
    from __pypy__.thread import signals_enabled  # type: ignore[import-not-found]
except ImportError:
    signals_enabled = None

# By signal: our handler, and the one that was there before; None: not one of Python's.
_handlers: dict[signal.Signals, tuple[Any, Any]] = {}
# By thread: what it has blocked besides, while it forks.
_masks: dict[int, set[signal.Signals]] = {}


def own_handlers(earlier: dict[signal.Signals, Any]) -> None:
    """These signals have handlers of the event loop's since now; `earlier` are those that were there before."""
    _handlers.update({number: (signal.getsignal(number), handler) for number, handler in earlier.items()})


def disown_handlers() -> None:
    """They have none any more."""
    _handlers.clear()


def _before() -> None:
    # A signal for a child that is a microsecond old (`process.start(); process.terminate()`) waits for _in_child.
    if _handlers:
        _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, set(_handlers))  # type: ignore[assignment]


def _unblock() -> None:
    mask = _masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    try:
        if _handlers:
            _give_signals_back()
    finally:
        _unblock()


def _give_signals_back() -> None:
    """Let signals do what they would without us."""
    if signals_enabled is not None:
        signals_enabled.__enter__()  # PyPy goes on taking the thread that forks for a thread beside the main one
    signal.set_wakeup_fd(-1)
    for number, (ours, before) in _handlers.items():
        if signal.getsignal(number) == ours:
            signal.signal(number, signal.SIG_DFL if before is None else before)
    _handlers.clear()


os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_in_child)
