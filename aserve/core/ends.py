"""What is told when requests have ended, and when: in batches.

Owns:     RequestLog, what a service tells of each end; Ends, which keeps them for a moment; Reader, what is told then.
Thread:   `write` whichever thread ends an exchange; `flush` the same, and the event loop, when requests cease and once a second: one at a time.
Not here: when a request ends (connections/connection.py, connections/wire_loop.py); what its readers are (extension.py).

Up to 64 ends share what it costs to begin with each reader. They wait while there is more to do, and in the lane until no request has come for
1 to 2 ms: a timer of the kernel tells the event loop of that in any case (workers/executor.py), so it costs a request nothing. Measured
2026-11-23, CPython 3.11, `write` and the call of a reader that does nothing: 0.6 us for one alone, 0.2 us for each of 64.
"""

from __future__ import annotations

import collections
import itertools
import threading
import time
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Protocol, Union

if TYPE_CHECKING:
    from .errors import RequestRefused
    from .exchange import Exchange

# What is kept of a request: its vars; whether a front server has sent them; its client's address, "" on a unix socket or if the vars have
# it; status (0: there was none) and octets sent of its response; how it ended (core/exchange.py); when it arrived, was begun, was left to the event
# loop, and ended, by time.monotonic() (0.0: that has not come, or nothing asks); the thread that began it; whether the app has failed; the
# response's head, if a reader asks. A tuple, as a class of its own would cost 300 instructions each, and native/ends.c makes these, too.
Ended = tuple[str, bool, str, int, int, str, float, float, float, float, int, bool, bytes]
# What native/ends.c has counted already: lines, or, if Python is to make these, records.
Batch = Union[bytes, list[Ended]]

# The most that wait to be told: as many as a batch of the lane (connections/lane_memory.py).
MOST = 64
# Seconds after which the next end tells of those that wait: with --threads 0 the loop looks only when the last job is done, and 64 may
# take minutes.
_LONGEST = 1.0
# Beyond so many a thread waits until it can tell: or a disk that hangs would let them grow without end. Guess.
_TOO_MANY = 1024

_monotonic = time.monotonic


def ended_of(exchange: Exchange, ended_at: float, wants_head: bool = False) -> Ended:
    """Return what is kept of an exchange whose response is out, or lost; its response is still there."""
    response, client = exchange.response, exchange.client or exchange.connection
    if response is None:
        status, size, head = 0, 0, b""
    else:
        status, size, head = response.code, response.sent_bytes, response.head if wants_head else b""
    return (
        exchange.vars, exchange.is_from_front, client.remote_addr, status, size, exchange.end,
        exchange.arrived_at, exchange.began_at, exchange.left_at, ended_at, exchange.thread_id, exchange.has_app_failed, head,
    )  # fmt: skip


# The deque of ends (None: they are noted elsewhere); what tells of them; how many wait at most; `soon`; how long one takes that is to be told
# at once; whether the heads of responses are asked for; Counting.places, or None; Lines.program, or None. See Ends.
Parts = tuple[Any, Any, int, float, float, bool, Any, Any]


class NativeEnds(Protocol):
    """The ends of plain requests: native/ends.h."""

    ends_waiting: int  # those that are not in the deque yet

    def put_ends(self) -> None:
        """Put a Batch of them into the deque."""

    def take_counts(self) -> tuple[list[tuple[int, int]], float]:
        """Return what Counting.add takes."""


class RequestLog(Protocol):
    """Is told of the end of each request, once."""

    @property
    def parts(self) -> Parts:
        """What native/ends.c shares with this."""

    def attach(self, native: NativeEnds) -> None:
        """Tell of the ends of plain requests, too."""

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """
        Note an exchange whose response is out, or lost. Its response is still there, and its body.

        `may_wait`: it is the lane's: when no more come, Executor.on_pause is called.
        """

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Note a request that aserve has refused; `exchange` is what is known of it."""


class Counting(Protocol):
    """A reader for which native/counts.c counts."""

    @property
    def places(self) -> Any:
        """Where it counts what: see native/counts.h."""

    @property
    def thread_seconds(self) -> float:
        """For how long threads have been with the requests that it has counted."""

    def add(self, found: Iterable[tuple[int, int]], seconds: float) -> None:
        """Count what has been counted there: by how much to raise which place; for how long threads have been with these requests."""


class Lines(Protocol):
    """A reader for which native/lines.c makes lines."""

    @property
    def program(self) -> Any:
        """What they say: see native/lines.h; None: Python makes them all."""

    def write_lines(self, octets: bytes) -> None:
        """Take some."""


class Reader(NamedTuple):
    """What is told of ends; None: not in this way."""

    ended: Callable[[Sequence[Ended]], None] | None = (
        None  # of many at once, in the order in which they have ended; one thread at a time
    )
    at_end: Callable[[Exchange], None] | None = None  # of each at once: its response is still there
    at_end_seconds: float = 0.0  # only of those that took so long
    refused: Callable[[Any, Exchange | None, RequestRefused], None] | None = None  # see RequestLog.write_refused
    wants_head: bool = False  # it reads the response's head
    counting: Counting | None = None  # what C does in place of `ended`
    lines: Lines | None = None  # the same


class Ends:
    """The ends of one server's requests; a RequestLog."""

    def __init__(self, readers: Iterable[Reader], waiting: Sized = (), *, soon: float = 0.0) -> None:
        """
        `waiting`: the jobs that no thread has begun; while there are some, ends wait, too: MOST are told together.

        `soon`: an end that may wait does so if its request came less than so many seconds ago: `flush` is then called soon.
        C counts for one reader. It makes lines if only one other is told of many at once.
        """
        # What counts comes first: it does not wait for a disk.
        found = sorted(readers, key=lambda reader: reader.counting is None)
        batched = [reader for reader in found if reader.ended is not None]
        self._counting = batched[0].counting if batched else None
        others = batched[1:] if self._counting is not None else batched
        self._lines = others[0].lines if len(others) == 1 else None
        self._all: Sequence[Callable[[Sequence[Ended]], None]] = [reader.ended for reader in batched if reader.ended]
        self._others = self._all[-len(others) :] if others else ()  # what is told of records that C has counted
        self._at_end = [(reader.at_end_seconds, reader.at_end) for reader in found if reader.at_end is not None]
        self._at_end_seconds = min((seconds for seconds, _ in self._at_end), default=float("inf"))
        self._refused = [reader.refused for reader in found if reader.refused is not None]
        self._wants_head = any(reader.wants_head for reader in found)
        self._native: NativeEnds | None = None
        self._waiting, self._soon = waiting, soon
        self._ends: collections.deque[Ended | Batch] = collections.deque()
        self._due_at = _monotonic() + _LONGEST
        self._telling = threading.Lock()  # whoever takes ends out also tells of them: they stay in order

    @property
    def parts(self) -> Parts:
        """See RequestLog.parts."""
        places = None if self._counting is None else self._counting.places
        program = None if self._lines is None else self._lines.program
        noted = self._ends if self._others else None
        flush = self.flush if self._all else None
        return noted, flush, MOST, self._soon, self._at_end_seconds, self._wants_head, places, program

    @property
    def thread_seconds(self) -> float | None:
        """For how long threads have been with requests that have ended; None: that is not counted."""
        return None if self._counting is None else self._counting.thread_seconds

    def attach(self, native: NativeEnds) -> None:
        """See RequestLog.attach."""
        self._native = native

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """See RequestLog.write."""
        ends, ended_at = self._ends, _monotonic()
        took = ended_at - exchange.arrived_at
        if took >= self._at_end_seconds:
            self._tell_at_once(exchange, took)
        if not self._all:
            return
        if self._native is not None:
            self._native.put_ends()  # those before it
        ends.append(ended_of(exchange, ended_at, self._wants_head))
        if ((may_wait and took < self._soon) or self._waiting) and len(ends) < MOST and ended_at < self._due_at:
            return
        self.flush()

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""
        self.flush()  # those before it
        for tell in self._refused:
            tell(connection, exchange, why)

    def flush(self) -> None:
        """Tell of those that wait; if another thread does so just now, that tells of these, too."""
        ends, telling, native, self._due_at = self._ends, self._telling, self._native, _monotonic() + _LONGEST
        if native is not None and self._counting is not None:
            self._counting.add(*native.take_counts())
        while ends or (native is not None and native.ends_waiting):
            # Once more after the release: who could not acquire it relies on this.
            if not telling.acquire(len(ends) + (native.ends_waiting if native is not None else 0) > _TOO_MANY):
                return
            try:
                if native is not None:
                    native.put_ends()
                take = ends.popleft
                self._tell([take() for _ in range(len(ends))])
            finally:
                telling.release()

    def _tell_at_once(self, exchange: Exchange, took: float) -> None:
        for seconds, tell in self._at_end:
            if took >= seconds:
                tell(exchange)

    def _tell(self, ended: list[Any]) -> None:
        if self._native is None:
            for tell in self._all if ended else ():
                tell(ended)
            return
        for kind, some in itertools.groupby(ended, type):
            if kind is tuple:
                batch = list(some)
                for tell in self._all:
                    tell(batch)
                continue
            for batch in some:
                self._tell_counted(batch)

    def _tell_counted(self, batch: Any) -> None:
        """Tell of what native/ends.c has counted: lines, or records."""
        if type(batch) is bytes:
            assert self._lines is not None
            self._lines.write_lines(batch)
            return
        for tell in self._others:
            tell(batch)
