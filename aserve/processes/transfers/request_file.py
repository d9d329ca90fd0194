"""The file of a request on the way to a different process: a message has no room for a request (channel.py).

Owns:     RequestFile, a file in memory for a leaving request; taking a request out of a file; the mark of a perhaps begun request.
Thread:   a worker's event loop; the supervisor's only one, for lost requests.
Not here: the octets (connections/drain/moved_request.py), the way of the descriptor (passing.py, transfers.py).

All processes with such a file share one position in the file. The first process to read has the request, and the next reader finds the end of the
file: this decides who begins the request, after the supervisor has taken the request back from a silent worker. Two readers at once could both
find the octets, so each reads under a lock of the process (fcntl(2); flock(2)'s would be shared, as the position is). No process waits for the
lock: the process with the lock takes the request.

A worker empties the file before a thread can begin the request. So the supervisor knows of the beginning also from a worker killed before the
message was sent.
"""

from __future__ import annotations

import fcntl
import os

from ...core.memory_file import open_memory_file


class RequestFile:
    """A file, made with the first octets."""

    def __init__(self) -> None:
        self._fd = -1

    def write(self, octets: bytes) -> None:
        """
        Put these octets in the place of the present octets.

        Raises:
            OSError: no descriptor or memory is left.
        """
        if self._fd < 0:
            self._fd = open_memory_file("aserve-request")
        else:
            os.truncate(self._fd, 0)
        view, size = memoryview(octets), 0
        while size < len(octets):
            size += os.pwrite(self._fd, view[size:], size)

    def detach(self) -> int:
        """Return the descriptor, from now on the caller's."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        """Close the file, unless detached."""
        if self._fd >= 0:
            os.close(self.detach())


def take_request(fd: int) -> bytes:
    """
    Take the octets of a request; b"": another process has, or does so now.

    Raises:
        OSError: the kernel has no memory for the lock.
    """
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return b""
    try:
        return os.read(fd, os.fstat(fd).st_size)
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def put_request_back(fd: int) -> None:
    """Let a different process take a request taken by this process, or by an ended process."""
    os.lseek(fd, 0, os.SEEK_SET)


def look_at_request(fd: int) -> bytes:
    """Return the octets, and leave the request in place."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def is_read(fd: int) -> bool:
    """Whether a process has taken the request."""
    return os.lseek(fd, 0, os.SEEK_CUR) >= os.fstat(fd).st_size


def mark_begun(fd: int) -> None:
    """Let all processes know that a thread may have begun the request: no further process may get the request."""
    os.truncate(fd, 0)


def is_begun(fd: int) -> bool:
    """Whether a thread may have begun the request."""
    return not os.fstat(fd).st_size
