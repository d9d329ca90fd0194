"""How to raise an exception in another thread, as far as the interpreter can.

Owns:     find_interrupt.
Thread:   the interrupt: any but its thread; retracting it: its thread alone.
Not here: when a thread may be interrupted (wsgi/deadlines.py).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Callable

from ..errors import RequestTimeout

# A worker waits so long between two looks for what takes the loop microseconds.
LOOK_SECONDS = 0.0005


def find_interrupt() -> tuple[Callable[[int, type[BaseException]], None] | None, Callable[[], None]]:
    """Return how to raise an exception in a thread, and how a thread retracts what has not hit it yet."""
    if sys.implementation.name == "pypy":
        try:
            from __pypy__.thread import _raise_in_thread  # type: ignore[import-not-found]
        except ImportError:
            return None, _do_nothing

        def retract_pypy() -> None:
            # It cannot be retracted, only replaced, by one that we wait for.
            try:
                _raise_in_thread(threading.get_ident(), RequestTimeout)
                while True:
                    time.sleep(LOOK_SECONDS)
            except RequestTimeout:
                pass

        return _raise_in_thread, retract_pypy
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi
        return None, _do_nothing
    # A function object of our own: the attribute is shared with whoever sets its argtypes.
    set_async_exc = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    set_async_exc.argtypes = (ctypes.c_ulong, ctypes.c_void_p)
    set_async_exc.restype = ctypes.c_int

    def interrupt(thread_id: int, kind: type[BaseException]) -> None:
        set_async_exc(thread_id, id(kind))

    def retract() -> None:
        set_async_exc(threading.get_ident(), None)

    return interrupt, retract


def _do_nothing() -> None:
    """Nothing was raised, so nothing is to be retracted."""
