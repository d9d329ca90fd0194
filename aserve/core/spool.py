"""The part of a response still unread by the client, in a temporary file.

Owns:     ResponseSpool: an unlinked temporary file, used as a ring.
Thread:   two, under banners: the app's thread appends, the event loop reads.
Not here: the choice of this way (connections/loop/sending.py), the limit's value (settings/table.py).

The file is written to the end of the ring and then from the beginning again, over octets already read: a long response never exceeds the limit.
Both sides give offsets (pread, pwrite), so one descriptor is enough.

The file is closed once: the thread that takes the file out of the spool under the lock closes the file, after releasing the lock: the writer, if
the spool is closed during a write, and otherwise `close`.
"""

from __future__ import annotations

import os
import threading
from typing import Callable

from .budgets import SpoolFile, SpoolSpace
from .errors import ClientDisconnected

# The largest file closed by the event loop itself. Measured 2026-11-21: to close a file with 8 MiB in the page cache takes 0.4 ms, with 1 GiB 59
# ms.
QUICK_CLOSE_BYTES = 1 << 24
# Octets for one call: PyPy copies written octets, and each time gets memory above this size from the system. Measured 2026-11-22, 64 bodies of 5
# MiB: 0.65 s with this and with half of it, 0.85 s with twice as much.
WRITE_BYTES = 1 << 17


class ResponseSpool:
    """
    The octets of one response waiting in a file, in order; at most `limit_bytes`.

    After `begin`, all further octets must be appended, until the loop has read the spool empty: then `is_begun` is False again, and pieces may go
    to the transport directly.
    """

    __slots__ = (
        "_file", "_is_closed", "_is_failed", "_is_sealed", "_is_writing", "_limit_bytes", "_lock", "_read_count", "_writer",
        "_written_count", "end_error", "has_reader", "is_begun", "is_ended",
    )  # fmt: skip

    def __init__(self, limit_bytes: int, space: SpoolSpace) -> None:
        self._limit_bytes = limit_bytes
        self._file: SpoolFile | None = SpoolFile(space)  # closed by the thread that takes the file out
        self._lock = threading.Lock()  # guards all below; never held while waiting for the disk
        self._writer = threading.Lock()  # an app's second thread may write() meanwhile
        self._read_count = self._written_count = 0  # octets, since the spool was last empty
        self._is_writing = False
        self._is_closed = False
        self._is_failed = False
        self._is_sealed = False
        self.is_begun = False
        self.has_reader = False  # the loop is about to read, or will come back
        # Used on the event loop alone: whether the app is done, and the error behind a response cut short.
        self.is_ended = False
        self.end_error: str | None = None

    # --- called from a worker ---

    def begin(self) -> bool:
        """Begin to spool: all further octets must be appended; False: the disk has failed, or the spool is closed."""
        with self._lock:
            self.is_begun = not (self._is_failed or self._is_closed)
            return self.is_begun

    def append(self, octets: bytes | memoryview) -> bool:
        """
        Append octets; False: no room now, and nothing was appended.

        Raises:
            ClientDisconnected: the response has ended, or its client has left.
            OSError: the disk is full, or the file cannot be made; from then on there is no room.
        """
        with self._writer:
            with self._lock:
                if self._is_over:
                    raise ClientDisconnected("the response has ended")
                file = self._file
                if file is None or not self._fits(len(octets)) or not file.reserve(self._size_with(len(octets))):
                    self.is_begun = self._read_count < self._written_count
                    return False
                # The loop may have read the spool empty since the caller's look at `is_begun`: later pieces must not overtake this.
                self.is_begun = self._is_writing = True
                at = self._written_count % self._limit_bytes
            is_written = False
            try:
                self._write(file, octets, at)
                is_written = True
            finally:
                self._end_writing(len(octets) if is_written else None)
            return True

    def _end_writing(self, count: int | None) -> None:
        """Count octets as written (None: writing failed); close the file if the spool was closed meanwhile."""
        with self._lock:
            self._is_writing = False
            if count is None:
                self._is_failed = True
                self.is_begun = self._read_count < self._written_count
            else:
                self._written_count += count
            file = self._take_file() if self._is_closed else None
        if file is not None:
            file.close()

    def _take_file(self) -> SpoolFile | None:
        """Take the file out for a close, with the lock held; None: another thread has taken it already."""
        file, self._file = self._file, None
        return file

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._is_sealed

    def _write(self, file: SpoolFile, octets: bytes | memoryview, at: int) -> None:
        fd = file.open().fileno()
        rest = memoryview(octets)
        while rest:
            written = os.pwrite(fd, rest[: min(self._limit_bytes - at, WRITE_BYTES)], at)
            rest = rest[written:]
            at = (at + written) % self._limit_bytes

    def has_room(self, count: int) -> bool:
        """Whether this many octets could be appended."""
        with self._lock:
            return self._fits(count) and self._file is not None and self._file.has_room(self._size_with(count))

    def _fits(self, count: int) -> bool:
        return not self._is_failed and self._written_count - self._read_count + count <= self._limit_bytes

    def _size_with(self, count: int) -> int:
        """Return the size of the file with `count` more octets."""
        return min(self._written_count % self._limit_bytes + count, self._limit_bytes)

    def seal(self) -> None:
        with self._lock:
            self._is_sealed = True

    def wants_reader(self) -> bool:
        """Return whether the caller must wake the loop to read; mark the loop as woken."""
        with self._lock:
            if self.has_reader:
                return False
            self.has_reader = True
            return True

    # --- called on the event loop ---

    def read(self, most_bytes: int) -> bytes:
        """
        Return the next octets, at most `most_bytes`. None left: return b""; `wants_reader` is then true for the next.

        Raises:
            OSError: the disk has failed.
        """
        with self._lock:
            count = 0 if self._is_closed else min(self._written_count - self._read_count, most_bytes)
            if not count:
                self.has_reader = False
                if not self._is_writing:
                    self.is_begun = False
                    self._read_count = self._written_count = 0  # the pages at the beginning are warm
                return b""
            at = self._read_count % self._limit_bytes
            assert self._file is not None
            fd = self._file.open().fileno()
        octets = os.pread(fd, min(count, self._limit_bytes - at), at)
        if not octets:
            raise OSError("a temporary file has lost its end")
        with self._lock:
            self._read_count += len(octets)
        return octets

    def close(self) -> Callable[[], None] | None:
        """Close the spool. Return a function that closes a large file, for a worker to call."""
        with self._lock:
            self._is_closed = True
            file = None if self._is_writing else self._take_file()
        if file is None:
            return None
        if file.size_bytes > QUICK_CLOSE_BYTES:
            return file.close
        file.close()
        return None

    # --- called from both sides ---

    @property
    def has_file(self) -> bool:
        """Whether there is a file, open."""
        return self._file is not None

    @property
    def waiting_bytes(self) -> int:
        """Octets unread by the loop."""
        return self._written_count - self._read_count
