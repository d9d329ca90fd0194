"""The open descriptors of this process.

Owns:     is_open, list_open, close_all.
Thread:   any.
Spec:     proc(5): /proc/PID/fd.
Not here: what descriptors refer to (processes/worker/opened.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

FOLDERS = ("/proc/self/fd", "/dev/fd")
# Where descriptors cannot be listed, try this many numbers: 65,536 take 40 ms. Guess.
MAX_TRIED = 65536


def is_open(fd: int) -> bool:
    """Whether there is an open descriptor of this number."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def list_open(known: Iterable[int] = ()) -> set[int]:
    """Return all open descriptors, those in `known` included, and maybe the one used to list them."""
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            return {int(name) for name in os.listdir(folder)}
    # There is no such folder, or no descriptor is left to open it.
    limit = os.sysconf("SC_OPEN_MAX")
    return {fd for fd in {*known, *range(limit if 0 < limit < MAX_TRIED else MAX_TRIED)} if is_open(fd)}


def close_all(fds: Iterable[int]) -> None:
    """Close these descriptors, which are open."""
    for fd in fds:
        os.close(fd)
