"""The turn of one process to order certificates, among all with the same folder.

Owns:     take_turn.
Thread:   any.
Not here: the work of the turn (renewal.py).

A lock of the kernel, released with the last process that has the file open. A child inherits the file: so an order has the turn for as long as the
order runs, even if the worker at the begin is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def take_turn(path: str) -> Iterator[int | None]:
    """
    Yield the descriptor of the lock, for a child to inherit; None: another process has the turn.

    Raises:
        OSError: the file cannot be made, or the file system has no locks.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield fd
    finally:
        os.close(fd)
