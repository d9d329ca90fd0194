"""One arena of the C library for all of PyPy's threads.

Owns:     share_one_arena.
Thread:   the main thread, before further threads.
Spec:     mallopt(3), M_ARENA_MAX.
Not here: a program that calls aserve.run, whose memory is its own; PyPy's own limits of garbage (docs/pypy.md).

glibc gives each thread an arena, to spare waits between threads. PyPy's threads allocate one at a time anyway, and the collector frees memory of
all threads: bodies of requests leave holes in each arena, unfilled by the next bodies, of another thread.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

IS_PYPY = sys.implementation.name == "pypy"
M_ARENA_MAX = -8


def share_one_arena(environ: Mapping[str, str]) -> bool:
    """
    Let all threads of this process share one arena, on PyPy; return whether the change was made.

    Change nothing if the environment sets the number of arenas or other tunables of glibc, or with another C library.
    """
    if not IS_PYPY or "MALLOC_ARENA_MAX" in environ or "GLIBC_TUNABLES" in environ:
        return False
    try:
        import ctypes  # takes 50 ms, and CPython does not need ctypes here

        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    except (ImportError, OSError, AttributeError):  # no ctypes; no mallopt: musl, macOS
        return False
