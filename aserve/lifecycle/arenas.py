"""Where the C library keeps the large objects of PyPy.

Owns:     share_one_arena.
Thread:   the main thread, before others are there.
Spec:     mallopt(3), M_ARENA_MAX.
Not here: a program that calls aserve.run, whose memory is its own; how much PyPy itself lets garbage grow (docs/pypy.md).

glibc gives threads arenas of their own, so that they need not wait for one another. PyPy's threads allocate one at a time, and its collector frees
what any of them has allocated: bodies of requests leave holes in each arena, which the next ones, of another thread, do not fill.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

IS_PYPY = sys.implementation.name == "pypy"
M_ARENA_MAX = -8


def share_one_arena(environ: Mapping[str, str]) -> bool:
    """
    Let all threads of this process share one arena, on PyPy; return whether they do.

    Not where the environment says how many there are to be, or what else glibc is to do, nor with another C library.
    """
    if not IS_PYPY or "MALLOC_ARENA_MAX" in environ or "GLIBC_TUNABLES" in environ:
        return False
    try:
        import ctypes  # takes 50 ms, and CPython does not need it here

        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    except (ImportError, OSError, AttributeError):  # no ctypes; no mallopt: musl, macOS
        return False
