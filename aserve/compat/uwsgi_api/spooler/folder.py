"""A folder of jobs: each is a file, until it is done.

Owns:     the form of a file, its name, its due time, and its lock.
Thread:   any; `write_job` many threads and processes at the same time.
Spec:     uWSGI 2.0.30, core/spooler.c: name and form are the same, so that each server can do the jobs of the other.
Not here: doing a job (runner.py), the app's functions (functions.py).

A job cannot be lost, and is never half written: the file is written under another name, synced, and renamed. Its modification time is its due time.
The process that does it holds a lock on it (flock(2)), which the kernel releases at the process's end. A job is put off before it begins, so that one
that kills its process does not kill the next at once; its file is removed when it is done. So after a crash a job may be done twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import math
import os
import re
import select
import socket
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Callable

from ....core.descriptors import sync_folder
from ....core.named_tuple import NamedTuple

MODIFIER = 17
MAX_VARS_BYTES = 65535
FIRST_SECONDS, MAX_SECONDS = 1.0, 3600.0  # between two tries of a job that fails
ABANDONED_SECONDS = 3600.0  # a temporary file without a writer; Guess
MAX_COUNTED = 10_000  # by count_jobs: 4 ms of CPU time (2026-11-23)
WAKE = ".wake"
_FIFO = os.O_NONBLOCK | os.O_NOFOLLOW
_PREFIX, _NEW, _UNREADABLE = "uwsgi_spoolfile_on_", ".new-", ".unreadable-"
_HEAD = struct.Struct("<BHB")
_PRIORITY = re.compile(r"[0-9]{1,9}\Z")
LAST = 10**9  # the place of jobs without a priority
_numbers = itertools.count(1)


class DueJob(NamedTuple):
    """A job's place in the order, and its path."""

    priority: int
    at: float
    path: str


class Job:
    """A job that this process does, under its lock."""

    def __init__(self, path: str, fd: int, values: dict[bytes, bytes], body: bytes) -> None:
        self.path = path
        self.values = values
        self.body = body
        self.next_at = math.inf  # when it is due again: never
        self._fd = fd

    def put_off(self, now: float, seconds: float | None = None) -> float:
        """Put the job off by `seconds`, or by as long as it has been due, from 1 s to an hour; return by how much."""
        if seconds is None:
            seconds = growing_seconds(self.path, now)
        os.utime(self._fd, (now + seconds, now + seconds))
        self.next_at = now + seconds
        return seconds

    def remove(self) -> None:
        """Remove the job, which is done."""
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            os.unlink(self.path)
        self.next_at = math.inf

    def close(self) -> None:
        """Release the lock, so that others can do the job if it still exists."""
        os.close(self._fd)


def write_job(
    folder: str, values: Mapping[bytes, bytes], body: bytes = b"", at: float = 0.0, priority: str = ""
) -> str:
    """
    Write a job into a folder and sync it to disk; return its path.

    Raises:
        ValueError: the values have more than 64 KiB together, or the priority is no number.
        OSError: it was not written; or it was, but may not survive a loss of power.
    """
    octets = job_of(values, body, priority)
    place = os.path.join(folder, priority) if priority else folder
    _make(place)
    now = time.time()
    name = name_of(max(at, now))
    path, new = os.path.join(place, _PREFIX + name), os.path.join(place, _NEW + name)
    with open(new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        try:
            file.write(octets)
            file.flush()
            os.utime(file.fileno(), (now, at or now))
            os.fsync(file.fileno())
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    sync_folder(place)
    wake(folder)
    return path


def job_of(values: Mapping[bytes, bytes], body: bytes, priority: str) -> bytes:
    """
    Return the octets of a job.

    Raises:
        ValueError: the values have more than 64 KiB together, or the priority is no number.
    """
    if priority and not _PRIORITY.match(priority):
        raise ValueError(f"{priority!r} is no priority: up to nine digits")
    items = list(itertools.chain.from_iterable(values.items()))
    if sum(map(len, items)) + 2 * len(items) > MAX_VARS_BYTES:
        raise ValueError("the values of a job have 64 KiB at most, together with their names; a body has room for more")
    octets = b"".join([part for item in items for part in (len(item).to_bytes(2, "little"), item)])
    return _HEAD.pack(MODIFIER, len(octets), 0) + octets + body


def name_of(due: float) -> str:
    """Return a unique name that contains the time since which a job is due."""
    return (
        f"{socket.gethostname()}_{os.getpid()}_{next(_numbers)}_{os.urandom(4).hex()}_{int(due)}_{int(due % 1 * 1e6)}"
    )


def _make(folder: str) -> None:
    """Make a folder, if it does not exist, and sync its parent, so that a loss of power cannot lose the jobs in it."""
    if not os.path.isdir(folder):
        parent = os.path.dirname(os.path.abspath(folder))
        _make(parent)
        with contextlib.suppress(FileExistsError):  # another process has made it
            os.mkdir(folder, 0o700)
        sync_folder(parent)


def wake(folder: str) -> None:
    """Wake the processes that wait for jobs in a folder, if there are any."""
    with contextlib.suppress(OSError):  # no process waits; or the FIFO is full, and they are awake
        fd = os.open(os.path.join(folder, WAKE), os.O_WRONLY | _FIFO)
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):  # a copy of the folder has a file in its place
                os.write(fd, b"j")
        finally:
            os.close(fd)


def open_wake(folder: str) -> int:
    """
    Return a descriptor that becomes readable when a job was written; make the folder if it does not exist.

    A file in the place of the FIFO, as in a copy of the folder, is replaced: it is always readable, and would wake all the time.

    Raises:
        OSError: the folder cannot be made, or written to.
    """
    _make(folder)
    path = os.path.join(folder, WAKE)
    with _locked(folder):
        _make_fifo(path)
        if not _is_fifo(path):
            os.unlink(path)
            _make_fifo(path)
        return os.open(path, os.O_RDWR | _FIFO)  # for writing, too, so that reading never finds an end


def close_wake(folder: str, fd: int) -> None:
    """Close the descriptor of `open_wake`; remove the FIFO if no process waits at it any more."""
    os.close(fd)
    path = os.path.join(folder, WAKE)
    with contextlib.suppress(OSError), _locked(folder):  # the folder may be gone
        try:
            os.close(os.open(path, os.O_WRONLY | _FIFO))
        except OSError as fault:
            if fault.errno == errno.ENXIO and _is_fifo(path):  # a FIFO that no process reads
                os.unlink(path)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the folder's lock: another process must not remove the FIFO that this one has just made or found."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_fifo(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)


def _is_fifo(path: str) -> bool:
    return stat.S_ISFIFO(os.lstat(path).st_mode)


def _ignore(path: str, what: str, fault: OSError) -> None:
    """Ignore a fault."""


def list_jobs(folder: str, tell: Callable[[str, str, OSError], object] = _ignore) -> list[DueJob]:
    """
    Return the jobs of a folder: the lowest priority number first, jobs without one last; within, by time.

    Leave out unreadable ones, and call `tell` with the path, a clause and the error.
    """
    found: list[DueJob] = []
    places = [(LAST, folder)]
    with _telling(folder, tell), os.scandir(folder) as entries:
        places += [(int(e.name), e.path) for e in entries if _PRIORITY.match(e.name) and e.is_dir()]
    for priority, place in places:
        with _telling(place, tell), os.scandir(place) as entries:
            for entry in entries:
                with _telling(entry.path, tell):
                    if entry.name.startswith(_PREFIX):
                        found.append(DueJob(priority, entry.stat(follow_symlinks=False).st_mtime, entry.path))
                    elif entry.name.startswith(_NEW) and entry.stat().st_ctime < time.time() - ABANDONED_SECONDS:
                        os.unlink(entry.path)  # its writer has died before it became a job
    return sorted(found)


@contextlib.contextmanager
def _telling(path: str, tell: Callable[[str, str, OSError], object]) -> Iterator[None]:
    """Report a fault with `tell`, and continue with others."""
    try:
        yield
    except FileNotFoundError:
        pass  # it was done meanwhile
    except OSError as fault:
        tell(path, "cannot be looked at", fault)


def count_jobs(folder: str) -> int:
    """Return the number of jobs that are not done, at most MAX_COUNTED; also 0 if the folder cannot be listed."""
    count, places = 0, [folder]
    for place in places:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in itertools.islice(entries, MAX_COUNTED - count):
                if entry.name.startswith(_PREFIX):
                    count += 1
                elif place is folder and _PRIORITY.match(entry.name):
                    places.append(entry.path)
    return count


def take_job(path: str, now: float) -> Job | None:
    """
    Lock a job and return it; None: another process does it, or has done it, or it is not due.

    Raises:
        ValueError: the file is no job; it is renamed, so that it is not tried again.
        OSError: the file cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
        if found.st_nlink and found.st_mtime <= now:
            job = Job(path, fd, *parse_job(_read(fd, found.st_size)))
            fd = -1
            return job
    except BlockingIOError:
        pass
    except ValueError:
        folder, name = os.path.split(path)
        os.rename(path, os.path.join(folder, _UNREADABLE + name))
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    return None


def read_job(path: str) -> tuple[dict[bytes, bytes], bytes]:
    """
    Return values and body of a job.

    Raises:
        OSError: there is none.
        ValueError: it is none.
    """
    with open(path, "rb") as file:
        return parse_job(_read(file.fileno(), os.fstat(file.fileno()).st_size))


def _read(fd: int, size: int) -> bytes:
    octets = b""
    while len(octets) < size:
        piece = os.pread(fd, size - len(octets), len(octets))
        if not piece:
            break
        octets += piece
    return octets


def parse_job(octets: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """
    Return values and body of a job.

    Raises:
        ValueError: it is none.
    """
    if len(octets) < _HEAD.size:
        raise ValueError("it has no head")
    modifier, length, _ = _HEAD.unpack_from(octets)
    end = _HEAD.size + length
    if modifier != MODIFIER or len(octets) < end:
        raise ValueError(f"it begins with {octets[:4]!r}, and has {len(octets)} octets")
    items, place = [], _HEAD.size
    while place < end:
        begin = place + 2
        place = begin + int.from_bytes(octets[place:begin], "little")
        items.append(octets[begin:place])
    if place != end or len(items) % 2:
        raise ValueError("its values overrun it")
    return dict(zip(items[::2], items[1::2])), octets[end:]


def growing_seconds(path: str, now: float) -> float:
    """Return for how long to put off a failed job: as long as it has been due, by its name; from 1 s to an hour."""
    match = re.search(r"_([0-9]{1,12})_([0-9]{1,6})\Z", path)
    since = int(match[1]) + int(match[2]) / 1e6 if match else now
    return min(max(now - since, FIRST_SECONDS), MAX_SECONDS)


class JobFolder:
    """A folder, in the process that does its jobs."""

    # How often to look for jobs without a wake-up, as from another machine or a copy. Guess.
    look_seconds = 10.0

    def __init__(self, name: str) -> None:
        """
        Make the folder, if it does not exist.

        Raises:
            OSError: the folder cannot be made, or written to.
        """
        self.name = name
        self._waking = open_wake(name)

    def register(self, poll: select.poll) -> None:
        """Make `poll` return when a job was written."""
        poll.register(self._waking, select.POLLIN)

    def jobs(self, tell: Callable[[str, str, OSError], object]) -> list[DueJob]:
        """Return the jobs of the folder; see list_jobs."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._waking, 65536)  # before listing: a job written from now on ends the next wait
        return list_jobs(self.name, tell)

    def take(self, path: str, now: float) -> Job | None:
        """
        Lock a job and return it, or None.

        Raises:
            ValueError, OSError: see take_job.
        """
        return take_job(path, now)

    def close(self) -> None:
        """Close the descriptor; the last process leaves nothing but jobs in the folder."""
        close_wake(self.name, self._waking)
