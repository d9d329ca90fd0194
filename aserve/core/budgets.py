"""How much memory, disk and how many descriptors large bodies may take, all connections together.

Owns:     Budget, a count with a limit; MemoryBudget, where each object counts once, and a worker may wait a moment for room; SpoolSpace, the disk
          and descriptors of temporary files of one kind; SpoolFile, one temporary file, counted while open; the log lines when a budget is used up,
          and when there is room again.
Thread:   any; each Budget has a lock, held for a sum and no longer. `reserve_body` with `is_patient`: never on the event loop. A SpoolFile has one
          thread at a time.
Not here: handling a body without room (body.py, connections/loop/sending.py);
          which budgets a server has (connections/server_budgets.py).
"""

from __future__ import annotations

import collections
import errno
import logging
import math
import tempfile
import threading
import time
from typing import Any, BinaryIO, cast

from .errors import RequestRefused, over_limit
from .incident import Incident

logger = logging.getLogger("aserve")

UNLIMITED = 1 << 62
# Errors of a full disk or a full table of descriptors: these pass, and the client may try again.
SHORTAGES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# Descriptors of a file being sent: the app's own, alive after the worker, and a second for the loop to watch.
SENT_FILE_COUNT = 2
# A worker waits for memory while other responses released some within MOVING_SECONDS: clients read, so room will come. The wait ends after
# LONGEST_SECONDS, as other requests may need the worker. Guesses: 5 MB to a reading client take some milliseconds.
MOVING_SECONDS, LONGEST_SECONDS = 0.05, 0.25


class Budget:
    """A count for all connections of a server together; only a forced `reserve` exceeds `limit`."""

    def __init__(self, limit: int, used_up: str = "", is_over: str = "") -> None:
        self.limit = limit
        self.count = 0  # in use now
        self.refused_count = 0  # how often there was no room
        self._texts = used_up, is_over  # for the log; empty: nothing is logged
        self._lock = threading.Lock()
        self._missing = 0  # how much the last refused `reserve` asked for
        self._incident = Incident()
        # Counts released by `__del__`: the garbage collector may run while this thread has the lock.
        self._dropped: collections.deque[int] = collections.deque()

    def reserve(self, count: int, is_forced: bool = False) -> bool:
        """Add `count`, if there is room; False: no room, logged once."""
        with self._lock:
            self._count_dropped()
            if self.count + count <= self.limit or is_forced:
                self.count += count
                return True
            self.refused_count += 1
            self._missing = min(count, max(self.limit, 1))  # a larger count may never find room
            is_news = self._incident.begins()
        if is_news and self._texts[0]:
            logger.warning("%s", self._texts[0])
        return False

    def change_limit(self, limit: int, used_up: str, is_over: str) -> None:
        """Set another limit, and the texts for the log."""
        self.limit, self._texts = limit, (used_up, is_over)

    def has_room(self, count: int) -> bool:
        """Return whether `reserve` would succeed now."""
        with self._lock:
            self._count_dropped()
            return self.count + count <= self.limit

    def release(self, count: int) -> None:
        """Subtract `count`."""
        with self._lock:
            self.count -= count

    def release_later(self, count: int) -> None:
        """Subtract `count` at the next call; for `__del__`, where taking the lock is forbidden."""
        self._dropped.append(count)

    def _count_dropped(self) -> None:
        while self._dropped:
            self.count -= self._dropped.popleft()

    def on_second(self) -> None:
        """Log when there is room again; called once a second."""
        with self._lock:
            self._count_dropped()
            if self.count + self._missing > self.limit:
                return  # still used up, even if no `reserve` asks now
            is_over = self._incident.is_over_at_second()
        if is_over and self._texts[1]:
            logger.warning("%s", self._texts[1])


class MemoryBudget(Budget):
    """
    A Budget with room to wait for while clients read: a wait costs less than a temporary file.

    A body counts once as an object: an app may return the same bytes object, such as a cached page, for many responses.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._is_released = threading.Condition(self._lock)
        self._released_at = -math.inf
        # By id(): each body, and how many responses send the body. While a body is in here, no other object has the same id.
        self._bodies: dict[int, tuple[bytes, int]] = {}

    def release(self, count: int) -> None:
        with self._lock:
            self._release(count)

    def _release(self, count: int) -> None:
        self.count -= count
        self._released_at = time.monotonic()
        self._is_released.notify()  # not all: dozens may wait, and there is room for one

    def reserve_body(self, body: bytes, is_patient: bool = False, is_forced: bool = False) -> bool:
        """
        Count one more response with this body, and for the first response the body itself; False: there is no room.

        `is_patient`: wait while other responses release room; without effect for a body larger than the limit.
        """
        size = len(body)
        until = time.monotonic() + LONGEST_SECONDS if is_patient and size <= self.limit else 0.0
        with self._lock:
            while not is_forced and self.count + size > self.limit and id(body) not in self._bodies:
                seconds = min(until, self._released_at + MOVING_SECONDS) - time.monotonic()
                if seconds <= 0:
                    self.refused_count += 1
                    return False
                self._is_released.wait(seconds)
            _, response_count = self._bodies.get(id(body), (body, 0))
            if not response_count:
                self.count += size
            self._bodies[id(body)] = body, response_count + 1
            self._is_released.notify()  # there may be room for one more; a worker without room looks again in MOVING_SECONDS
        return True

    def release_body(self, body: bytes) -> None:
        """Count one response less with this body; after the last, release the body's memory."""
        with self._lock:
            _, response_count = self._bodies.pop(id(body))
            if response_count > 1:
                self._bodies[id(body)] = body, response_count - 1
            else:
                self._release(len(body))


def temporary_folder() -> str:
    """
    Return the folder of temporary files named by the environment, or /tmp, whether a file can be made there or not.

    `tempfile.gettempdir` takes another candidate, in the end the working directory, while this folder is full.
    """
    return cast(str, tempfile._candidate_tempdir_list()[0])  # type: ignore[attr-defined]


class SpoolSpace:
    """The budgets of temporary files of one kind: `octets` of the disk, and `files`, shared with the second kind."""

    def __init__(self, octets: Budget, files: Budget, prefix: str, folder: str | None = None) -> None:
        """`folder`: of the files; None: Python's."""
        self.octets = octets
        self.files = files
        self.prefix = prefix
        self.folder = folder
        self._lock = threading.Lock()
        self._faults = Incident()  # the system's: a full disk, no descriptor

    def log_fault(self, exc: OSError, text: str) -> None:
        """Log once an incident a failure to make or write a temporary file."""
        with self._lock:
            is_news = self._faults.begins()
        if is_news:
            logger.error(text, exc)

    def on_second(self) -> None:
        """Log when the budget or the system has room again; called once a second."""
        self.octets.on_second()
        with self._lock:
            is_over = self._faults.is_over_at_second()
        if is_over:
            logger.warning("no temporary file %s* has failed for some seconds", self.prefix)


class SpoolFile:
    """A temporary file without a name; the size counts from `reserve` to the close or the collection."""

    __slots__ = ("_has_descriptor", "_space", "file", "size_bytes")

    def __init__(self, space: SpoolSpace) -> None:
        self._space = space
        self._has_descriptor = False
        self.size_bytes = 0  # as counted; the file is not larger
        self.file: Any = None  # a raw file, once opened

    def reserve(self, size_bytes: int) -> bool:
        """Let the file grow to `size_bytes`; False: no room for the octets, or for one more file."""
        space, more = self._space, max(size_bytes - self.size_bytes, 0)
        if more and not space.octets.reserve(more):
            return False
        if not self._has_descriptor:
            if not space.files.reserve(1):
                space.octets.release(more)
                return False
            self._has_descriptor = True
        self.size_bytes += more
        return True

    def has_room(self, size_bytes: int) -> bool:
        """Return whether `reserve` would succeed now."""
        more = size_bytes - self.size_bytes
        return (more <= 0 or self._space.octets.has_room(more)) and (
            self._has_descriptor or self._space.files.has_room(1)
        )

    def open(self) -> BinaryIO:
        """
        Return the file, made at the first call.

        Raises:
            OSError: the system has no room for a file, or no descriptor.
        """
        if self.file is None:
            # Unlinked from the start: nothing is left behind by any end of the process.
            self.file = tempfile.TemporaryFile(prefix=self._space.prefix, dir=self._space.folder, buffering=0)
        return cast(BinaryIO, self.file)

    def close(self) -> None:
        """Close the file, and then release the budgets."""
        try:
            if self.file is not None:
                self.file.close()
        except OSError as exc:  # closed anyway (close(2)), and the content is not needed
            logger.warning("a temporary file could not be closed: %s", exc)
        size_bytes, self.size_bytes = self.size_bytes, 0
        has_descriptor, self._has_descriptor = self._has_descriptor, False
        if size_bytes:
            self._space.octets.release(size_bytes)
        if has_descriptor:
            self._space.files.release(1)

    def __del__(self) -> None:
        if self.size_bytes:
            self._space.octets.release_later(self.size_bytes)
        if self._has_descriptor:
            self._space.files.release_later(1)


class BodySpace(SpoolSpace):
    """The space of request bodies, and the refusals when there is no room."""

    is_measured = False  # the limit is a share of the changing free space

    def check(self, length: int) -> None:
        """
        Check the room for a body of this length, before the octets are received.

        Raises:
            RequestRefused: 503: no room now; 413: see `check_limit`.
        """
        self.check_limit(length)
        if not self.octets.reserve(length):  # and not `has_room` first: the answer may change in between
            raise self.no_room()
        self.octets.release(length)

    def check_limit(self, length: int) -> None:
        """
        Check a body's length against the limit of the settings.

        Raises:
            RequestRefused: 413: no room even on an empty disk.
        """
        if length > self.octets.limit and not self.is_measured:
            raise over_limit(413, "the request body", self.octets.limit, "--body-spool-total")

    def no_room(self) -> RequestRefused:
        """Return the refusal of a body without room now."""
        return RequestRefused(503, "the server has no room for the request body now; try again later")

    def refuse_fault(self, exc: OSError) -> RequestRefused:
        """Log why a body could not be kept; return the refusal."""
        self.log_fault(
            exc,
            "cannot keep a request body in a temporary file: %s; see TMPDIR, `ulimit -n`, --body-spool-total, "
            "--spool-files, --body-memory, --max-body",
        )
        if exc.errno in SHORTAGES:
            return self.no_room()
        return RequestRefused(500, "the server could not keep the request body; its log says why")


class ResponseSpace(SpoolSpace):
    """The space of responses."""

    def log_unkept(self, exc: OSError) -> None:
        """Log why a response is not kept."""
        self.log_fault(
            exc,
            "cannot keep a response in a temporary file: %s; the app waits for its client instead; "
            "see TMPDIR, --response-spool, --response-spool-total",
        )


def unlimited_bodies() -> BodySpace:
    """Return space for request bodies without a limit."""
    return BodySpace(Budget(UNLIMITED), Budget(UNLIMITED), "aserve-body-")
