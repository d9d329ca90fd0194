"""The open descriptors of this process.

Owns:     is_open, list_open, for_each_above_standard, close_all, sync_folder; accept, above the standard descriptors.
Thread:   any.
Spec:     proc(5): /proc/PID/fd.
Not here: the files behind descriptors (processes/worker/opened.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterable
from typing import Any, Callable

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
    """Return all open descriptors, and those in `known`; maybe the one used for the list, too."""
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            return {int(name) for name in os.listdir(folder)}
    # No such folder, or no descriptor left to open the folder.
    limit = os.sysconf("SC_OPEN_MAX")
    return {fd for fd in {*known, *range(limit if 0 < limit < MAX_TRIED else MAX_TRIED)} if is_open(fd)}


def for_each_above_standard(act: Callable[[int], object]) -> None:
    """Call `act` with each open descriptor above 2."""
    for fd in list_open():
        if fd > 2:
            with contextlib.suppress(OSError):  # the descriptor used for the list
                act(fd)


def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
    """
    Accept a connection, with a descriptor above 2: the app may have closed a lower one a moment ago, and the app's output would reach the client.

    Raises:
        OSError: see accept(2).
    """
    sock, peer = listening.accept()
    if sock.fileno() > 2:
        return sock, peer
    with sock:
        copy = socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD, 3))  # PyPy 3.9 has no F_DUPFD_CLOEXEC
    copy.set_inheritable(False)
    return copy, peer


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Have the names of the files in a folder, as after a rename, survive a loss of power."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
