"""Raising an exception in another thread, as far as the interpreter can.

Owns:     find_interrupt.
Thread:   any thread may interrupt another; a thread may retract only an exception in itself.
Not here: the times for an interrupt (wsgi/deadlines.py).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Callable

from ..core.errors import RequestTimeout

# A worker's sleep between two checks for a step of microseconds in the loop.
CHECK_SECONDS = 0.0005


def find_interrupt() -> tuple[Callable[[int, type[BaseException]], None] | None, Callable[[], None]]:
    """Return two functions: raise an exception in a thread (None: not possible), and retract an exception that has not hit yet."""
    if sys.implementation.name == "pypy":
        try:
            from __pypy__.thread import _raise_in_thread  # type: ignore[import-not-found]
        except ImportError:
            return None, _do_nothing

        def retract_pypy() -> None:
            # PyPy cannot retract an exception, only replace it: raise another, and wait for the hit.
            try:
                _raise_in_thread(threading.get_ident(), RequestTimeout)
                while True:
                    time.sleep(CHECK_SECONDS)
            except RequestTimeout:
                pass

        return _raise_in_thread, retract_pypy
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi
        return None, _do_nothing
    # By item, for a new function object: the attribute is shared, and other code may set argtypes there.
    set_async_exc = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    set_async_exc.argtypes = (ctypes.c_ulong, ctypes.c_void_p)
    set_async_exc.restype = ctypes.c_int

    def interrupt(thread_id: int, kind: type[BaseException]) -> None:
        """
        Raise an exception in a thread; then raise another here, and take it.

        CPython before 3.13 notes an exception for all threads, until one takes an exception; the target notes it anew on taking the GIL. Until then
        all Python code is slower (measured 2026-11-27, a call in a loop: 3.9 and 3.10 by 13 %, 3.12 by 36 %), and on 3.11 a profiled or traced
        thread never gets beyond the call of a function. A retracted exception stays noted, too.
        """
        own_id, own_kind, sleep = threading.get_ident(), id(RequestTimeout), time.sleep
        try:
            set_async_exc(thread_id, id(kind))  # from here on no function in Python is called
            while True:
                set_async_exc(own_id, own_kind)
                sleep(CHECK_SECONDS)
        except RequestTimeout:
            pass

    def retract() -> None:
        interrupt(threading.get_ident(), RequestTimeout)

    return interrupt, retract


def _do_nothing() -> None:
    """Retract nothing, since nothing can be raised."""
