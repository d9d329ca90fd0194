"""The request body: kept in memory, then spooled to a file; or live.

Owns:     BufferedBody (complete before a worker is taken) and LiveBody (`--body stream`: read while the client still sends).
Thread:   fed where octets are parsed, on the event loop or in the worker that leads the lane; read in a worker. A BufferedBody is only read when
          complete; a LiveBody locks.
Spec:     PEP 3333 "Input and Error Streams".
Not here: de-framing (protocols/), the limit and its 413 (protocols/base.py, cparsers/chunked.c).
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, Callable, Union, cast

from .budgets import BodySpace, SpoolFile, unlimited_bodies
from .errors import ClientDisconnected, RequestRefused
from .forks import forked

_UNLIMITED = unlimited_bodies()


class BufferedBody:
    """A body collected whole; over `memory_bytes` the octets go to a temporary file."""

    __slots__ = ("_file", "_memory_bytes", "_space", "_spool", "is_chunked", "length")
    is_live = False
    refusal: RequestRefused | None = None  # always None: a refused body never reaches the app

    def __init__(self, memory_bytes: int, is_chunked: bool, space: BodySpace = _UNLIMITED) -> None:
        self.length = 0  # octets collected
        self.is_chunked = is_chunked
        self._memory_bytes = memory_bytes
        self._space = space
        self._spool: SpoolFile | None = None  # over memory_bytes
        self._file: Any = io.BytesIO()  # the file behind wsgi.input

    @classmethod
    def of(cls, data: bytes) -> BufferedBody:
        """Return a complete body of these octets, without a copy."""
        body = cls(len(data), is_chunked=False)
        body.length = len(data)
        body._file = io.BytesIO(data)
        return body

    def feed(self, data: bytes) -> None:
        """
        Append octets of the body.

        Raises:
            RequestRefused: the disk has no room; the body is lost, and must be closed.
        """
        self.length += len(data)
        if self.length > self._memory_bytes:
            self._feed_spool(data)
        else:
            self._file.write(data)

    def _feed_spool(self, data: bytes) -> None:
        spool, kept = self._spool, b""
        if spool is None:
            spool, kept = SpoolFile(self._space), self._file.getvalue()
            self._spool = spool
        self._space.check_limit(self.length)
        if not spool.reserve(self.length):
            raise self._space.no_room()
        try:
            file = spool.open()
            for octets in (kept, data):
                rest = memoryview(octets)
                while rest:  # not buffered: a full disk shows now, and not when the app reads
                    rest = rest[file.write(rest) :]
        except OSError as exc:
            raise self._space.refuse_fault(exc) from exc
        if not isinstance(self._file, io.BufferedReader):
            self._file = io.BufferedReader(cast(io.FileIO, file))

    @property
    def is_spooled(self) -> bool:
        """Whether the body is in a file, and no longer in memory."""
        return self._spool is not None

    @property
    def memory_bytes(self) -> int:
        """Octets of the body in memory."""
        return 0 if self.is_spooled else self.length

    @property
    def octets(self) -> bytes:
        """All octets of a body in memory; the position of the file object behind wsgi.input, maybe in use by a worker, stays."""
        return cast(bytes, self._file.getvalue())

    def open(self) -> BinaryIO:
        """Return the file object behind wsgi.input, at the start."""
        self._file.seek(0)
        return cast(BinaryIO, self._file)

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()


class LiveBody:
    """
    A body that the app reads while the client still sends it.

    The object is wsgi.input itself. A read waits for a full answer, or for the end of the body.
    """

    __slots__ = (
        "_buffer", "_complete", "_error", "_forked_count", "_high_bytes", "_is_reading", "_ready", "before_wait", "is_chunked", "length", "on_low",
        "on_wanted", "refusal",
    )  # fmt: skip
    is_live = True
    is_spooled = False

    def __init__(self, high_bytes: int, is_chunked: bool) -> None:
        self.length = 0  # octets received
        self.is_chunked = is_chunked
        self.on_wanted: Callable[[], None] | None = None  # called once, at the app's first read
        self.on_low: Callable[[], None] | None = None  # called when a full body has room again
        # Gets the globals of this module; may raise, where a reader must not wait.
        self.before_wait: Callable[[dict[str, Any]], object] = bool
        self._high_bytes = high_bytes
        self._buffer = bytearray()
        self._complete = False
        self._error: str | None = None
        self.refusal: RequestRefused | None = None  # set: the error for the client, unless the app answers
        self._is_reading = True
        self._forked_count = len(forked)
        self._ready = threading.Condition()

    # --- called on the event loop ---

    def feed(self, data: bytes) -> None:
        """Append octets of the body."""
        with self._ready:
            self.length += len(data)
            if self._is_reading:
                self._buffer += data
                self._ready.notify_all()  # an app may read in several threads

    def feed_end(self) -> None:
        """Mark the body as complete, and wake its readers."""
        with self._ready:
            self._complete = True
            self._ready.notify_all()

    def feed_error(self, text: str) -> None:
        """Mark the rest of the body as lost; readers raise ClientDisconnected."""
        with self._ready:
            if not self._complete:
                self._error = text
            self._ready.notify_all()

    def refuse(self, why: RequestRefused) -> None:
        """End the body as refused: readers find an error; the client, still there, gets the reason."""
        with self._ready:
            if not self._complete:
                self._error, self.refusal = str(why), why
            self._ready.notify_all()

    @property
    def is_complete(self) -> bool:
        """Whether the whole body has been received."""
        return self._complete

    @property
    def memory_bytes(self) -> int:
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        """Whether reading from the client should pause."""
        return self._is_reading and len(self._buffer) >= self._high_bytes

    # --- called from a worker ---

    def open(self) -> LiveBody:
        return self

    def close(self) -> None:
        """Drop octets, buffered and still to come: the app will read no more."""
        with self._ready:
            was_full = self.is_full
            self._is_reading = False
            self._buffer.clear()
        on_low = self.on_low
        self.on_low = self.on_wanted = None  # the callbacks hold the exchange, and the exchange holds this body
        if was_full and on_low is not None:
            on_low()

    def read(self, size: int | None = -1) -> bytes:
        """
        Return `size` octets, fewer only at the end of the body; without a size the whole rest.

        Raises:
            ClientDisconnected: the client left, or broke the framing, before the end.
        """
        wanted = None if size is None or size < 0 else size
        return self._read_until(lambda buffer: wanted if wanted is not None and len(buffer) >= wanted else None, wanted)

    def readline(self, size: int | None = -1) -> bytes:
        """Return up to and with the next LF, at most `size` octets. Raises like `read`."""
        limit = None if size is None or size < 0 else size
        searched = 0  # octets without an LF: a line in many pieces costs no more than a line in one piece

        def line_end(buffer: bytearray) -> int | None:
            nonlocal searched
            end = buffer.find(b"\n", searched, limit) + 1
            if end:
                return end
            searched = len(buffer)
            return limit if limit is not None and searched >= limit else None

        return self._read_until(line_end, limit)

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """Return the lines up to the end, or until `hint` octets are exceeded. Raises like `read`."""
        lines, total = [], 0
        for line in self:
            lines.append(line)
            total += len(line)
            if hint is not None and 0 < hint <= total:
                break
        return lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _read_until(self, find_end: Callable[[bytearray], int | None], limit: int | None) -> bytes:
        """Wait until `find_end` returns where to cut, or the body has ended; return the octets up to there."""
        if limit == 0:
            return b""
        on_wanted, self.on_wanted = self.on_wanted, None  # a second thread of the app may read, too
        if on_wanted is not None:
            on_wanted()
        with self._ready:
            while True:
                end = find_end(self._buffer)
                if end is not None or self._complete:
                    break
                if self._error is not None:
                    raise ClientDisconnected(self._error)
                if len(forked) != self._forked_count:
                    raise ClientDisconnected("the rest of the body comes to the server's own process")
                self.before_wait(globals())
                self._raise_limit()
                self._ready.wait()
            data = bytes(self._buffer[:end])
            was_full = self.is_full
            del self._buffer[:end]
        on_low = self.on_low
        if was_full and not self.is_full and on_low is not None:
            on_low()
        return data

    def _raise_limit(self) -> None:
        """Let the body hold twice as much: a reader waiting for more octets must not wait for a paused client."""
        if self.is_full:
            self._high_bytes = 2 * len(self._buffer)
            if self.on_low is not None:
                self.on_low()


RequestBody = Union[BufferedBody, LiveBody]
