"""Log targets with a reader that may stop: a named pipe, a socket, and a pipe or terminal as a standard stream.

Owns:     PipeTarget; `awaited_reader`, before the first start.
Thread:   any thread at a flush of the log, one at a time (features/access_log/log.py, error_log.py).
Spec:     pipe(7): a write of at most PIPE_BUF octets is atomic; so lines of several processes in one pipe stay whole.
Not here: the choice of a target (log_target.py); reports of lost lines (features/access_log/log.py, error_log.py).

No thread waits for such a reader. The kernel's buffer holds lines for a slow reader; further lines are lost. A thread for the log would only delay
the loss, and hold up the end of the process.
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

# The pipe buffer requested of the kernel: 8,000 lines of 128 octets. Linux gives 64 KiB by default, and 1 MiB to any user.
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
        Own the descriptor, until `close`; -1: there is no reader yet.

        `path`: opened by `reopen`; empty: nothing. A blocking descriptor (shared with other processes) is polled for room before each write.
        """
        self._path, self._encoding = path, encoding
        self._rest = b""  # of a line partly with the reader
        self._take(fd)

    def _take(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode if fd >= 0 else 0
        self._fd, self._is_socket = fd, stat.S_ISSOCK(mode)
        if sys.platform == "linux" and stat.S_ISFIFO(mode):
            with contextlib.suppress(OSError):  # a limit of all pipes of one user
                fcntl.fcntl(fd, _F_SETPIPE_SZ, WAITING_BYTES)

    @classmethod
    def open(cls, path: str, is_patient: bool) -> PipeTarget:
        """
        Open the file of this name; `is_patient`: a named pipe may get a reader later, and each write looks for one.

        Raises:
            OSError: the file cannot be opened, or has no reader.
        """
        path = os.path.abspath(path)  # the app may change the working directory
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
        Write to the open file of a descriptor of the program, without a change of flags.

        Raises:
            OSError: there is no descriptor left.
        """
        # Non-blocking is a flag of the open file description, shared with other processes: so open another.
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
            self._rest = b""  # the next reader lacks the beginning
            raise
        if count == whole:
            raise BlockingIOError(errno.EAGAIN, BEHIND)
        return count

    def _put(self, octets: bytes) -> int:
        """Write as many octets as there is room for; return how many."""
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
        """Whether PIPE_BUF octets can be written without waiting; a non-blocking descriptor may just be tried."""
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
        """Drop the rest of a half-written line: in a forked child the rest is the parent's."""
        self._rest = b""

    def close(self) -> None:
        """See Target.close."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _batches(lines: str, encoding: str) -> Iterator[bytes]:
    """Yield pieces of whole lines, each at most PIPE_BUF octets; a longer line is a piece by itself."""
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
    If this is a named pipe, wait for a reader, and keep the pipe open for writing in the block.

    Without a writer the reader would find the end of the file before the log begins.
    """
    fd = _wait_for_reader(path)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _wait_for_reader(path: str) -> int:
    """Return a descriptor of the named pipe; -1: not a named pipe, or an open that failed, as the log itself reports."""
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
