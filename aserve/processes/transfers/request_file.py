"""The file by which a request goes to another process: a message has no room for it (channel.py).

Owns:     RequestFile, a file in memory for a request that is about to leave; taking a request out of one; the mark that it may have begun.
Thread:   a worker's event loop; the supervisor's only one, which reads what is lost.
Not here: the octets (connections/drain/moved_request.py), the way of the descriptor (passing.py, transfers.py).

All processes that have such a file share one position in it. The first process that reads has the request, and another finds the end of the file: this
decides which one begins it, where the supervisor has taken it back from a worker that did not answer. Two that read at once could both find the
octets, so each reads under a lock of its process (fcntl(2); flock(2)'s would be shared, as the position is). None waits for the lock: the process
that has it takes the request.

A worker empties the file before a thread can begin the request. So the supervisor knows this also from a worker that was killed before its
message was sent.
"""

from __future__ import annotations

import fcntl
import os

from ...core.memory_file import open_memory_file


class RequestFile:
    """A file that is made with the first octets."""

    def __init__(self) -> None:
        self._fd = -1

    def write(self, octets: bytes) -> None:
        """
        Put these octets in the place of what is there.

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
        """Return the descriptor, which the caller owns from now on."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        """Close the file, unless it was detached."""
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
    """Let another process take a request that this one has taken, or one that has ended."""
    os.lseek(fd, 0, os.SEEK_SET)


def look_at_request(fd: int) -> bytes:
    """Return the octets, and leave the request where it is."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def is_read(fd: int) -> bool:
    """Whether a process has taken the request."""
    return os.lseek(fd, 0, os.SEEK_CUR) >= os.fstat(fd).st_size


def mark_begun(fd: int) -> None:
    """Let all processes know that a thread may have begun the request: no other may get it."""
    os.truncate(fd, 0)


def is_begun(fd: int) -> bool:
    """Whether a thread may have begun the request."""
    return not os.fstat(fd).st_size
