"""Where the access log goes if somebody reads it, and may stop: a named pipe, a pipe or terminal as standard output, a socket.

Owns:     PipeTarget.
Thread:   who flushes the log, one at a time (access_log.py).
Spec:     pipe(7): of PIPE_BUF octets at most all are written at once, or none; so processes that write one pipe tear no lines.
Not here: which targets these are (log_target.py); what is done about lines that are lost (access_log.py).

Nobody waits for such a reader. What waits for it is in the kernel; beyond that lines are lost. In a thread of its own a log
could wait; but that would only put the same end off, and hold the process at its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
import sys
from collections.abc import Iterator, Sequence

# What the kernel is asked to hold of a pipe: 8,000 lines of 128 octets. Linux has 64 KiB by default, and lets anybody have 1 MiB.
WAITING_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl has the name from Python 3.10 on
BEHIND = "its reader does not keep up"


class PipeTarget:
    """A pipe, a terminal or a stream socket, by a descriptor."""

    why_in_part = BEHIND

    def __init__(self, fd: int, path: str = "") -> None:
        """
        Take the descriptor, which is closed at the end.

        `path`: what `reopen` opens; empty: nothing. A descriptor that is not non-blocking, since others have it too, is asked each
        time whether it has room.
        """
        self._fd, self._path = fd, path
        self._rest = b""  # of a line that the reader has in part
        self._is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
        if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(fd).st_mode):
            with contextlib.suppress(OSError):  # a limit of all that one user's pipes may hold
                fcntl.fcntl(fd, _F_SETPIPE_SZ, WAITING_BYTES)

    @classmethod
    def open(cls, path: str, is_patient: bool) -> PipeTarget:
        """
        Open what has this name; `is_patient`: wait for a named pipe's reader, once.

        Raises:
            OSError: it cannot be opened, or nobody reads it.
        """
        path = os.path.abspath(path)  # the app may change the folder
        fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | (0 if is_patient else os.O_NONBLOCK))
        os.set_blocking(fd, False)
        return cls(fd, path)

    @classmethod
    def beside(cls, fd: int) -> PipeTarget:
        """
        Write to what a descriptor has, which is the program's: its flags stay as they are.

        Raises:
            OSError: there is no descriptor left.
        """
        # Non-blocking is a flag of what open() has made, and others have that, too: so make another.
        with contextlib.suppress(OSError):  # a socket; another user's; no /proc
            return cls(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK))
        return cls(os.dup(fd))

    def write(self, lines: Sequence[str]) -> int:
        """See Target.write."""
        count = 0
        try:
            self._rest = self._rest[self._put(self._rest) :]
            for octets in () if self._rest else _batches(lines):
                sent = self._put(octets)
                count += octets[:sent].count(b"\n")
                if sent < len(octets):
                    end = octets.index(b"\n", max(sent - 1, 0)) + 1 if sent else 0
                    self._rest = octets[sent:end]
                    count += bool(self._rest)
                    break
        except OSError:
            self._rest = b""  # the next reader has not its beginning
            raise
        if not count:
            raise BlockingIOError(errno.EAGAIN, BEHIND)
        return count

    def _put(self, octets: bytes) -> int:
        """Write as much as there is room for; return how much that was."""
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(octets) and self._has_room():
                if self._is_socket:
                    with socket.socket(fileno=os.dup(self._fd)) as sock:
                        sent += sock.send(octets[sent:], socket.MSG_DONTWAIT)
                else:
                    sent += os.write(self._fd, octets[sent : sent + select.PIPE_BUF])
        return sent

    def _has_room(self) -> bool:
        """Whether PIPE_BUF octets can be written without waiting: a descriptor that is non-blocking says so by itself."""
        if self._is_socket or not os.get_blocking(self._fd):
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return bool(poll.poll(0))

    def reopen(self) -> bool:
        """See Target.reopen; nobody waits for a reader here."""
        if not self._path:
            return False
        new = self.open(self._path, is_patient=False)
        os.close(self._fd)
        self._fd, self._rest = new._fd, b""
        return True

    def close(self) -> None:
        """See Target.close."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _batches(lines: Sequence[str]) -> Iterator[bytes]:
    """Return the lines in pieces that a pipe takes as a whole, each of whole lines; a line that is longer is one by itself."""
    batch = ""
    for line in lines:
        if batch and len(batch) + len(line) > select.PIPE_BUF:
            yield batch.encode("ascii")
            batch = ""
        batch += line
    yield batch.encode("ascii")
