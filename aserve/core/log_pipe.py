"""Where a log goes that a process reads, which may stop: a named pipe, a pipe or terminal as a standard stream, a socket.

Owns:     PipeTarget; `awaited_reader`, before the first start.
Thread:   any that flushes the log, one at a time (features/access_log/log.py, error_log.py).
Spec:     pipe(7): of PIPE_BUF octets at most all are written at once, or none; so processes that write one pipe tear no lines.
Not here: which targets these are (log_target.py); what is done about lines that are lost (features/access_log/log.py, error_log.py).

Nobody waits for such a reader. What waits for it is in the kernel; beyond that lines are lost. In a thread of its own a log
could wait; but that would only put the same end off, and hold the process at its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import select
import socket
import stat
import sys
import time
from collections.abc import Iterator

logger = logging.getLogger("aserve")

# What the kernel is asked to hold of a pipe: 8,000 lines of 128 octets. Linux has 64 KiB by default, and lets anybody have 1 MiB.
WAITING_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl has the name from Python 3.10 on
BEHIND = "its reader does not keep up"
# Between two looks whether a named pipe has a reader.
_LOOK_SECONDS = 0.1
_FLAGS = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK


class PipeTarget:
    """A pipe, a terminal or a stream socket, by a descriptor."""

    why_in_part = BEHIND

    def __init__(self, fd: int, path: str = "", encoding: str = "utf-8") -> None:
        """
        Take the descriptor, which is closed at the end; -1: there is no reader yet.

        `path`: what `reopen` opens; empty: nothing. A descriptor that is not non-blocking, since others have it too, is asked each
        time whether it has room.
        """
        self._path, self._encoding = path, encoding
        self._rest = b""  # of a line that the reader has in part
        self._take(fd)

    def _take(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode if fd >= 0 else 0
        self._fd, self._is_socket = fd, stat.S_ISSOCK(mode)
        if sys.platform == "linux" and stat.S_ISFIFO(mode):
            with contextlib.suppress(OSError):  # a limit of all that one user's pipes may hold
                fcntl.fcntl(fd, _F_SETPIPE_SZ, WAITING_BYTES)

    @classmethod
    def open(cls, path: str, is_patient: bool) -> PipeTarget:
        """
        Open what has this name; `is_patient`: a named pipe may get its reader later, and each write looks whether it has.

        Raises:
            OSError: it cannot be opened, or it has no reader.
        """
        path = os.path.abspath(path)  # the app may change the folder
        try:
            return cls(os.open(path, _FLAGS), path)
        except OSError as exc:
            # A socket gives this error, too.
            if not (is_patient and exc.errno == errno.ENXIO and _is_named_pipe(path)):
                raise
        return cls(-1, path)

    @classmethod
    def beside(cls, fd: int, encoding: str = "utf-8") -> PipeTarget:
        """
        Write to what a descriptor has, which is the program's: its flags stay as they are.

        Raises:
            OSError: there is no descriptor left.
        """
        # Non-blocking is a flag of what open() has made, and others have that, too: so make another.
        with contextlib.suppress(OSError):  # a socket; another user's; no /proc
            return cls(os.open(f"/proc/self/fd/{fd}", _FLAGS), encoding=encoding)
        return cls(os.dup(fd), encoding=encoding)

    def write(self, lines: str) -> int:
        """See Target.write."""
        count = whole = lines.count("\n")
        if self._fd < 0:
            self._take(os.open(self._path, _FLAGS))
        try:
            self._rest = self._rest[self._put(self._rest) :]
            for octets in () if self._rest else _batches(lines, self._encoding):
                sent = self._put(octets)
                count -= octets.count(b"\n", 0, sent)
                if sent < len(octets):
                    end = octets.index(b"\n", max(sent - 1, 0)) + 1 if sent else 0
                    self._rest = octets[sent:end]
                    count -= bool(self._rest)
                    break
        except OSError:
            self._rest = b""  # the next reader has not its beginning
            raise
        if count == whole:
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
        """See Target.reopen."""
        if not self._path:
            return False
        fd = os.open(self._path, _FLAGS)
        self.close()
        self._take(fd)
        self.forget()
        return True

    def forget(self) -> None:
        """Leave out the rest of a line that a reader has in part: in a child it is its parent's."""
        self._rest = b""

    def close(self) -> None:
        """See Target.close."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _batches(lines: str, encoding: str) -> Iterator[bytes]:
    """Return the lines in pieces that a pipe takes as a whole, each of whole lines; a line that is longer is one by itself."""
    batch = b""
    for line in lines.encode(encoding, "backslashreplace").split(b"\n")[:-1]:
        octets = line + b"\n"
        if batch and len(batch) + len(octets) > select.PIPE_BUF:
            yield batch
            batch = b""
        batch += octets
    yield batch


def _is_named_pipe(path: str) -> bool:
    return stat.S_ISFIFO(os.stat(path).st_mode)


@contextlib.contextmanager
def awaited_reader(path: str) -> Iterator[None]:
    """
    If this is a named pipe, wait until it has a reader, and stay its writer until the end.

    Without a writer the reader would find the end of the file before the log begins.
    """
    fd = _wait_for_reader(path)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _wait_for_reader(path: str) -> int:
    """Return a descriptor of the named pipe; -1: it is none, or cannot be opened, which the log itself reports."""
    is_told = False
    while True:
        try:
            return os.open(path, _FLAGS) if path and _is_named_pipe(path) else -1
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                return -1
        if not is_told:
            logger.info("waiting for a reader of the named pipe %r", path)
            is_told = True
        time.sleep(_LOOK_SECONDS)
