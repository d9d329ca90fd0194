"""Reports of ended requests to their readers (access log, metrics ...), in batches.

Owns:     RequestLog, the interface; Ends, which collects ended requests for a moment; Reader, the callbacks of one reader.
Thread:   `write`: the thread that ends the exchange; `flush`: the same, and the event loop, when requests cease and once a second: one at a time.
Not here: when a request ends (connections/connection.py, connections/loop/wire_loop.py); the readers (extension.py).

A batch of up to 64 ends shares the cost of calling each reader. Ends wait while there is more to do, and in the lane until no request has come for
1 to 2 ms: a kernel timer wakes the event loop then in any case (workers/executor.py), so the wait costs a request nothing. Measured 2026-11-23,
CPython 3.11, `write` and the call of an idle reader: 0.6 us for one end alone, 0.2 us for each of 64.
"""

from __future__ import annotations

import collections
import itertools
import threading
import time
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, Callable, Protocol, Union, runtime_checkable

from .named_tuple import NamedTuple

if TYPE_CHECKING:
    from .errors import RequestRefused
    from .exchange import Exchange


class Ended(NamedTuple):
    """An ended request; native/ends.c makes these, too. Times: by time.monotonic(), 0.0: not reached, or not asked for."""

    vars: str
    is_from_front: bool  # a front server sent the vars
    addr: str  # of the client; "" on a unix socket, or if the vars have the address
    status: int  # 0: there was no response
    size: int  # octets of the body that were sent
    end: str  # how the request ended: core/exchange.py
    arrived_at: float
    began_at: float
    left_at: float  # left to the event loop
    ended_at: float
    thread_id: int  # the thread that began the request
    has_app_failed: bool
    head: bytes  # of the response, if a reader asks


# What native/ends.c has counted already: finished log lines, or records if Python makes the lines.
Batch = Union[bytes, list[Ended]]

# The most ends in a batch: as many as a batch of the lane (connections/lane/lane_memory.py).
MOST = 64
# After so many seconds the next end reports the waiting ends: with --threads 0 the loop flushes only after the last job, and 64 requests may take
# minutes.
_LONGEST = 1.0
# With more ends a thread waits until a report is possible: else ends would grow without limit while a disk hangs. Guess.
_TOO_MANY = 1024

_monotonic = time.monotonic
_new = tuple.__new__  # 0.1 us; Ended(...) takes 0.8 us (CPython 3.11, 2026-11-29)


def ended_of(exchange: Exchange, ended_at: float, wants_head: bool = False) -> Ended:
    """Return the record of an exchange with a response that is out, or lost; call while `exchange.response` is there."""
    response, client = exchange.response, exchange.client or exchange.connection
    if response is None:
        status, size, head = 0, 0, b""
    else:
        status, size, head = response.code, response.sent_bytes, response.head if wants_head else b""
    return _new(Ended, (
        exchange.vars, exchange.is_from_front, client.remote_addr, status, size, exchange.end,
        exchange.arrived_at, exchange.began_at, exchange.left_at, ended_at, exchange.thread_id, exchange.has_app_failed, head,
    ))  # fmt: skip


class EndsParts(NamedTuple):
    """The state that native/ends.c shares with Ends: ends_log of native/engine.h."""

    noted: collections.deque[Ended | Batch] | None  # None: only C counts ends
    flush: Callable[[], None] | None
    most: int  # ends that wait
    soon: float  # see Ends
    slow_seconds: float  # the duration from which an end is reported at once
    wants_head: bool  # a reader asks for heads of responses
    places: Any  # Counting.places, or None
    program: Any  # LineReader.program, or None


class NativeEnds(Protocol):
    """The ends of plain requests: native/ends.h."""

    ends_waiting: int  # ends that are not in the deque yet

    def put_ends(self) -> None:
        """Put a Batch of new ends into the deque."""

    def take_counts(self) -> tuple[list[tuple[int, int]], float]:
        """Return the arguments of Counting.add, and count anew."""


class RequestLog(Protocol):
    """Takes the end of each request, once."""

    @property
    def parts(self) -> EndsParts:
        """The state shared with native/ends.c."""

    def attach(self, native: NativeEnds) -> None:
        """Report the ends of plain requests, too."""

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """
        Record an exchange with a response that is out, or lost, before the response and the body are dropped.

        `may_wait`: an exchange of the lane: Executor.on_pause is called when no more requests come.
        """

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Record a refused request; `exchange` holds the known part of the request."""


class Batched(Protocol):
    """A reader of batches."""

    def write(self, ended: Sequence[Ended]) -> None:
        """Take a batch, in the order in which the requests ended; one thread at a time."""


@runtime_checkable
class Counting(Batched, Protocol):
    """A reader with counters kept by native/counts.c, in place of `write`."""

    @property
    def places(self) -> Any:
        """The memory to count in: see native/counts.h."""

    @property
    def thread_seconds(self) -> float:
        """Seconds of threads in the counted requests."""

    def add(self, found: Iterable[tuple[int, int]], seconds: float) -> None:
        """Add the counts of C: (place, increment) pairs, and the seconds of threads in these requests."""


@runtime_checkable
class LineReader(Batched, Protocol):
    """A reader with lines made by native/lines.c, in place of `write`."""

    @property
    def program(self) -> Any:
        """The format of the lines: see native/lines.h; None: Python makes all lines."""

    def write_lines(self, octets: bytes) -> None:
        """Take finished lines."""


class Reader(NamedTuple):
    """The callbacks of one reader; None: no such calls."""

    ended: Batched | None = None  # takes batches
    # Called at once for each request that took at least so many seconds, while the response is there; costs more than `ended`.
    at_end: tuple[float, Callable[[Exchange], None]] | None = None
    refused: Callable[[Any, Exchange | None, RequestRefused], None] | None = None  # see RequestLog.write_refused
    upgraded: Callable[[Exchange], None] | None = None  # called for a request that becomes a WebSocket


class Ends:
    """The ends of one server's requests; a RequestLog."""

    def __init__(
        self, readers: Iterable[Reader], waiting: Sized = (), *, soon: float = 0.0, wants_head: bool = False
    ) -> None:
        """
        `waiting`: the jobs not begun by a thread; beside such jobs ends wait, too, until there are MOST.

        `soon`: an end with `may_wait` waits if the request came less than this many seconds ago: `flush` is then called soon.
        C counts for one reader. C makes lines if only one more reader takes batches.
        """
        # The counting reader comes first: no disk delays the counts.
        found = sorted(readers, key=lambda reader: not isinstance(reader.ended, Counting))
        batched = [reader.ended for reader in found if reader.ended is not None]
        self._counting = batched[0] if batched and isinstance(batched[0], Counting) else None
        others = batched[1:] if self._counting is not None else batched
        self._lines = others[0] if len(others) == 1 and isinstance(others[0], LineReader) else None
        self._all = [one.write for one in batched]
        self._others = [one.write for one in others]  # the readers of records counted in C
        self._at_end = [reader.at_end for reader in found if reader.at_end is not None]
        self._at_end_seconds = min((seconds for seconds, _ in self._at_end), default=float("inf"))
        self._refused = [reader.refused for reader in found if reader.refused is not None]
        self._upgraded = [reader.upgraded for reader in found if reader.upgraded is not None]
        self._wants_head = wants_head  # a reader asks for heads of responses
        self._native: NativeEnds | None = None
        self._waiting, self._soon = waiting, soon
        self._ends: collections.deque[Ended | Batch] = collections.deque()
        self._due_at = _monotonic() + _LONGEST
        self._telling = threading.Lock()  # the thread taking ends out also reports them, in order

    @property
    def parts(self) -> EndsParts:
        """See RequestLog.parts."""
        places = None if self._counting is None else self._counting.places
        program = None if self._lines is None else self._lines.program
        noted = self._ends if self._others else None
        flush = self.flush if self._all else None
        return EndsParts(noted, flush, MOST, self._soon, self._at_end_seconds, self._wants_head, places, program)

    @property
    def thread_seconds(self) -> float | None:
        """Seconds of threads in ended requests; None: not counted."""
        return None if self._counting is None else self._counting.thread_seconds

    def attach(self, native: NativeEnds) -> None:
        """See RequestLog.attach."""
        self._native = native

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """See RequestLog.write."""
        ends, ended_at = self._ends, _monotonic()
        took = ended_at - exchange.arrived_at
        if took >= self._at_end_seconds:
            for seconds, tell in self._at_end:
                if took >= seconds:
                    tell(exchange)
        if not self._all:
            return
        if self._native is not None:
            self._native.put_ends()  # earlier ends first
        ends.append(ended_of(exchange, ended_at, self._wants_head))
        if ((may_wait and took < self._soon) or self._waiting) and len(ends) < MOST and ended_at < self._due_at:
            return
        self.flush()

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""
        self.flush()  # earlier ends first
        for tell in self._refused:
            tell(connection, exchange, why)

    def write_upgraded(self, exchange: Exchange) -> None:
        """Report a request that becomes a WebSocket."""
        for tell in self._upgraded:
            tell(exchange)

    def flush(self) -> None:
        """Report the waiting ends; a thread in the middle of a report reports these, too."""
        ends, telling, native, self._due_at = self._ends, self._telling, self._native, _monotonic() + _LONGEST
        if native is not None and self._counting is not None:
            self._counting.add(*native.take_counts())
        while ends or (native is not None and native.ends_waiting):
            # Look once more after the release: a thread without the lock relies on this.
            if not telling.acquire(len(ends) + (native.ends_waiting if native is not None else 0) > _TOO_MANY):
                return
            try:
                if native is not None:
                    native.put_ends()
                take = ends.popleft
                self._tell([take() for _ in range(len(ends))])
            finally:
                telling.release()

    def _tell(self, ended: list[Any]) -> None:
        if self._native is None:
            for tell in self._all if ended else ():
                tell(ended)
            return
        for kind, some in itertools.groupby(ended, type):
            if kind is Ended:
                batch = list(some)
                for tell in self._all:
                    tell(batch)
                continue
            for batch in some:
                self._tell_counted(batch)

    def _tell_counted(self, batch: Any) -> None:
        """Report a Batch of native/ends.c: lines, or records."""
        if type(batch) is bytes:
            assert self._lines is not None
            self._lines.write_lines(batch)
            return
        for tell in self._others:
            tell(batch)
