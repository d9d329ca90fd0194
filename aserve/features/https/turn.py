"""The turn of one process to order certificates, of all that serve from one folder.

Owns:     take_turn.
Thread:   any.
Not here: what is done in it (renewal.py).

A lock of the kernel, which ends with the last process that has its file open. A child inherits that: so an order has its turn for
as long as it runs, even if the worker that has begun it is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def take_turn(path: str) -> Iterator[int | None]:
    """
    Yield the descriptor of the lock, for a child to inherit; None: another process has its turn.

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
