"""The file by which a request goes to another process: a message has no room for it (channel.py).

Owns:     RequestFile, a file in memory for a request that is about to leave; taking a request out of one.
Thread:   a worker's event loop; the supervisor's only one, which reads what is lost.
Not here: the octets (connections/moved_request.py), the way of the descriptor (passing.py, moves.py).

All processes that have such a file share one position in it, and the kernel lets one read at a time. So the first process that reads has the request, and another
finds the end of the file: this decides which one begins it, where the supervisor has taken it back from a worker that did not answer.
"""

from __future__ import annotations

import os

from ..core.memory_file import open_memory_file


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
    """Take the octets of a request; b"": another process has."""
    return os.read(fd, os.fstat(fd).st_size)


def put_request_back(fd: int) -> None:
    """Let another process take a request that this one has taken, or one that has ended."""
    os.lseek(fd, 0, os.SEEK_SET)


def look_at_request(fd: int) -> bytes:
    """Return the octets, and leave the request where it is."""
    return os.pread(fd, os.fstat(fd).st_size, 0)
