"""Log targets: a file, a standard stream, syslog, or a logger.

Owns:     FileTarget, FileModes, OutputTarget, StreamTarget, SyslogTarget, LoggerTarget; `open_target` and `open_stream`, the choice of one of these
          or a PipeTarget (log_pipe.py); `keep_output`, standard output as before the app.
Thread:   any thread at a flush of the log, one at a time (features/access_log/log.py, error_log.py).
Spec:     RFC 5424 (the message), RFC 5426 (over UDP).
Not here: reports of lost lines (features/access_log/log.py, error_log.py).

Several processes may write one file: each appends whole lines with one write(2). If a full disk takes only a part of a line, the part is cut off
again, under flock(2), if still at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from typing import Protocol, TextIO
from urllib.parse import urlsplit

from .log_pipe import PipeTarget

logger = logging.getLogger("aserve")

SYSLOG, LOGGER = "syslog:", "logger:"
LOCAL_SYSLOG = "/dev/log"
# RFC 5424 6.2.1: facility local7, as in nginx; severity informational.
_PRIORITY = 23 * 8 + 6
# RFC 5424 6.1: receivers should take 2048 octets; rsyslog and syslog-ng take 8192 by default.
MAX_MESSAGE_BYTES = 8192
SYSLOG_PORT = 514
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class Target(Protocol):
    """A place for lines, each with a newline. The lines of the access log are ASCII."""

    why_in_part: str  # why fewer lines are written than there were

    def write(self, lines: str) -> int:
        """
        Write these lines; return how many at the end were not written: to count the written ones costs more than to write them.

        Raises:
            OSError: no line was written.
        """

    def reopen(self) -> bool:
        """
        Open the present file of the name; False: the target has no name.

        Raises:
            OSError: the file cannot be opened; nothing has changed.
        """

    def close(self) -> None:
        """Close the target's descriptors."""


class FileModes:
    """The modes of files made by `open_target`, in this process."""

    made = 0o666  # of a new file, without the umask
    given: int | None = None  # of each


class FileTarget:
    """A file shared with other appending processes."""

    def __init__(self, path: str, made: int = 0o666, given: int | None = None) -> None:
        """`made`, `given`: see FileModes."""
        self._path = os.path.abspath(path)  # the app may change the working directory
        self._made, self._given = made, given
        self._fd = self._open()
        self._is_torn = False  # our last line has no end
        self.why_in_part = ""  # of the last write in part

    def _open(self) -> int:
        fd = os.open(self._path, _FLAGS, self._made)
        if self._given is not None:
            try:
                os.fchmod(fd, self._given)
            except OSError as exc:  # another user's file
                logger.warning("cannot set the mode %o of the log %r: %s", self._given, self._path, exc.strerror)
        return fd

    def write(self, lines: str) -> int:
        """See Target.write."""
        octets = _octets_of(lines, self._is_torn, "utf-8")
        with _locked(self._fd):
            sent, last, self.why_in_part = _put(self._fd, octets)
            if sent == len(octets):
                self._is_torn = False
                return 0
            begun = sent - octets.rfind(b"\n", 0, sent) - 1
            # Between two writes may stand another process's line.
            self._is_torn = begun > 0 and not (begun <= last and self._cut_back(begun))
        return octets.count(b"\n", sent)

    def _cut_back(self, count: int) -> bool:
        """Cut a half-written line, `count` octets, off the end, before another process's line follows; False: too late."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no other process is writing
            end = os.lseek(self._fd, 0, os.SEEK_CUR)  # after the octets of this process
            if os.fstat(self._fd).st_size != end:
                return False
            os.ftruncate(self._fd, end - count)
        except OSError:
            return False
        return True

    def reopen(self) -> bool:
        """See Target.reopen."""
        fd = self._open()
        os.close(self._fd)
        self._fd, self._is_torn = fd, False
        return True

    def close(self) -> None:
        """See Target.close."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a disk that is full
                os.close(self._fd)
        self._fd = -1


def _octets_of(lines: str, is_behind_torn: bool, encoding: str) -> bytes:
    """Return the octets of these lines; with a newline first behind a torn line."""
    octets = lines.encode(encoding, "backslashreplace")
    return b"\n" + octets if is_behind_torn else octets


def _put(fd: int, octets: bytes) -> tuple[int, int, str]:
    """
    Write until there is no room; return the octets written, the octets of the last write(2), and why no more were.

    Raises:
        OSError: nothing was written.
    """
    sent = last = os.write(fd, octets)
    while sent < len(octets):
        try:
            last = os.write(fd, octets[sent:])
        except OSError as exc:  # the disk is full
            return sent, last, exc.strerror or str(exc)
        sent += last
    return sent, last, ""


@contextlib.contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Keep other processes from cutting off the end meanwhile; all may write. Where there are no locks, no process cuts."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)


class OutputTarget:
    """
    A standard stream to a file, shared with the program's prints.

    Lines bypass the stream's buffer: the buffer would keep lines refused by a full disk, and write them later, or fail again and again. There is no
    lock and no cutting: other processes share the open file description, so a lock does not keep them apart.
    """

    def __init__(self, stream: TextIO, fd: int) -> None:
        # A second descriptor: the app may close the stream's, and another file of the app then gets the number.
        self._stream, self._fd, self._encoding = stream, os.dup(fd), stream.encoding
        self._is_torn = False  # our last line has no end
        self.why_in_part = ""  # of the last write in part

    def write(self, lines: str) -> int:
        """See Target.write."""
        with contextlib.suppress(OSError, ValueError):  # closed, or a full disk: the same without this log
            self._stream.flush()  # earlier output of the program
        octets = _octets_of(lines, self._is_torn, self._encoding)
        sent, _, self.why_in_part = _put(self._fd, octets)
        self._is_torn = not octets[:sent].endswith(b"\n")
        return octets.count(b"\n", sent)

    def reopen(self) -> bool:
        """Do nothing: nothing moves the stream."""
        return False

    def close(self) -> None:
        """See Target.close."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class StreamTarget:
    """An object put by the program in the place of a standard stream."""

    why_in_part = "only a part of it was taken"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, lines: str) -> int:
        """See Target.write."""
        try:
            self._stream.write(lines)
            getattr(self._stream, "flush", str)()  # `print` needs none
        except OSError:
            raise
        except Exception as exc:  # as of a stream closed by the program
            raise OSError(0, str(exc)) from None
        return 0

    def reopen(self) -> bool:
        """Do nothing: nothing moves the stream."""
        return False

    def close(self) -> None:
        """Do nothing: the stream is the program's."""


class SyslogTarget:
    """A syslog server: the machine's own, or a server behind UDP. A line is a datagram; sending never waits."""

    why_in_part = "only a part of it was taken"

    def __init__(self, where: str) -> None:
        """
        Connect.

        Raises:
            OSError: no server listens there, as far as the system can tell.
            ValueError: `where` is neither a path nor udp://HOST:PORT.
        """
        self._where = where
        self._host_name = socket.gethostname() or "-"
        self._place = self._find()
        self._socket = _connected(*self._place)

    def _find(self) -> tuple[int, object]:
        """Return family and address."""
        if not self._where.startswith("udp://"):
            return socket.AF_UNIX, self._where or LOCAL_SYSLOG
        url = urlsplit(self._where)
        if not url.hostname or url.path:
            raise ValueError(f"{self._where!r} is not of the form udp://HOST:PORT")
        family, _, _, _, address = socket.getaddrinfo(url.hostname, url.port or SYSLOG_PORT, type=socket.SOCK_DGRAM)[0]
        return family, address

    def write(self, lines: str) -> int:
        """See Target.write."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        head = f"<{_PRIORITY}>1 {stamp}.{int(now % 1 * 1000):03d}Z {self._host_name} aserve {os.getpid()} access - "
        each = lines.split("\n")[:-1]
        for sent, line in enumerate(each):
            try:
                self._send((head + line).encode("ascii", "replace")[:MAX_MESSAGE_BYTES])
            except OSError:
                if not sent:
                    raise
                return len(each) - sent
        return 0

    def _send(self, octets: bytes) -> None:
        try:
            self._socket.send(octets)
        except BlockingIOError:
            raise  # a slow server
        except OSError:
            # The server has restarted; or, over UDP, did not listen for the last datagram. To resolve the name again might take long.
            before, self._socket = self._socket, _connected(*self._place)
            before.close()
            self._socket.send(octets)

    def reopen(self) -> bool:
        """See Target.reopen."""
        place = self._find()
        sock = _connected(*place)
        self._socket.close()
        self._place, self._socket = place, sock
        return True

    def close(self) -> None:
        """See Target.close."""
        self._socket.close()


class LoggerTarget:
    """A logger of Python's logging: each line is a record of the level INFO, and the handlers may wait."""

    why_in_part = ""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def write(self, lines: str) -> int:
        """See Target.write."""
        for line in lines.split("\n")[:-1]:
            self._logger.info(line)
        return 0

    def reopen(self) -> bool:
        """Do nothing: the handlers are the program's."""
        return False

    def close(self) -> None:
        """Do nothing: the logger is the program's."""


def _connected(family: int, address: object) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.connect(address)  # type: ignore[arg-type]
    except BaseException:
        sock.close()
        raise
    return sock


# Standard output of a command, and a descriptor, or -1; empty in a program with an embedded Server.
_kept: list[tuple[TextIO | None, int]] = []


def open_target(name: str, is_patient: bool = True) -> Target:
    """
    Return the target of --access-log; `is_patient`: see PipeTarget.open.

    Raises:
        OSError: the target cannot be opened, or no server listens.
        ValueError: the address after syslog: has not the right form.
    """
    if name == "-":
        stream, fd = _kept[0] if _kept else (sys.stdout, -1)
        if stream is None:
            raise OSError(0, "standard output is closed")
        return open_stream(stream, fd)
    if name.startswith(SYSLOG):
        return SyslogTarget(name[len(SYSLOG) :])
    if name.startswith(LOGGER):
        return LoggerTarget(name[len(LOGGER) :])
    is_read = os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode)
    return PipeTarget.open(name, is_patient) if is_read else FileTarget(name, FileModes.made, FileModes.given)


def open_stream(stream: TextIO, fd: int = -1) -> Target:
    """Return a target for a standard stream of the program, without waits for the reader; `fd`: from `keep_output`, or -1."""
    try:
        is_own = fd >= 0 or stream in (sys.__stdout__, sys.__stderr__)
        fd = fd if fd >= 0 else stream.fileno()
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return PipeTarget.beside(fd, stream.encoding)
        if is_own:
            return OutputTarget(stream, fd)
    except (AttributeError, OSError, ValueError):  # no file of the system: an object of the program
        pass
    return StreamTarget(stream)


def keep_output() -> None:
    """Let `-` be the present standard output: the app may replace the name later, or close the descriptor, and another file then gets the
    number."""
    for _, fd in _kept:
        if fd >= 0:
            os.close(fd)
    stream, fd = sys.stdout, -1
    with contextlib.suppress(OSError):  # there is no descriptor left
        if stream is sys.__stdout__ and stream is not None:  # and no object of the program
            fd = os.dup(stream.fileno())
    _kept[:] = [(stream, fd)]
