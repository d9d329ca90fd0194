"""Who is told when requests have ended, and when: in batches.

Owns:     RequestLog, what a service tells of each end; Ends, which keeps them for a moment; Reader, who is told then.
Thread:   `write` whichever thread ends an exchange; `flush` the same, and the event loop, when requests cease and once a second: one at a time.
Not here: when a request ends (connections/connection.py, connections/wire_loop.py); the lines (access_log.py), the numbers
          (metrics/counting.py), what is slow (slow_requests.py).

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
from typing import TYPE_CHECKING, Any, Callable, Protocol, Union

if TYPE_CHECKING:
    from .core.errors import RequestRefused
    from .core.exchange import Exchange

# What is kept of a request: its vars; whether a front server has sent them; its client's address, "" on a unix socket or if the vars have
# it; status (0: there was none) and octets sent of its response; how it ended (core/exchange.py); when it arrived, was begun, was left to the event
# loop, and ended, by time.monotonic() (0.0: that has not come, or nothing asks); the thread that began it; whether the app has failed; the
# response's head, if a reader asks. A tuple, as a class of its own would cost 300 instructions each, and native/ends.c makes these, too.
Ended = tuple[str, bool, str, int, int, str, float, float, float, float, int, bool, bytes]
# What native/ends.c has counted already: lines of the access log, or, if Python is to make these, records.
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
# at once; whether the heads of responses are asked for; Counters.places, or None; AccessLog.program, or None. See Ends.
Parts = tuple[Any, Any, int, float, float, bool, Any, Any]


class NativeEnds(Protocol):
    """The ends of plain requests: native/ends.h."""

    ends_waiting: int  # those that are not in the deque yet

    def put_ends(self) -> None:
        """Put a Batch of them into the deque."""

    def take_counts(self) -> tuple[list[tuple[int, int]], float]:
        """Return what Counters.add takes."""


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


class Reader(Protocol):
    """Is told of many ends at once; one thread at a time."""

    def write(self, ended: Sequence[Ended]) -> None:
        """Note these, in the order in which they have ended."""

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""


class Ends:
    """The ends of one server's requests; a RequestLog."""

    def __init__(
        self,
        readers: Iterable[Reader],
        waiting: Sized = (),
        *,
        soon: float = 0.0,
        wants_head: bool = False,
        slow: RequestLog | None = None,
        slow_seconds: float = 0.0,
        wire_log: Any = None,
        counters: Any = None,
        access_log: Any = None,
    ) -> None:
        """
        `waiting`: the jobs that no thread has begun; while there are some, ends wait, too: MOST are told together.

        `soon`: an end that may wait does so if its request came less than so many seconds ago: `flush` is then called soon.
        `slow` is told at once of those that took `slow_seconds`, `wire_log` (a WireLog) of each; None: nobody is.
        `counters` is the reader for which native/counts.c counts, if there is one, `access_log` the one for which native/lines.c makes lines.
        """
        self._readers, self._counters, self._access_log = tuple(readers), counters, access_log
        self._native: NativeEnds | None = None
        self._writes: Sequence[Callable[[Sequence[Ended]], None]] = [reader.write for reader in self._readers]
        self._waiting, self._soon, self._wants_head, self._wire_log = waiting, soon, wants_head, wire_log
        self._slow, self._slow_seconds = slow, slow_seconds if slow is not None else float("inf")
        self._ends: collections.deque[Ended | Batch] = collections.deque()
        self._due_at = _monotonic() + _LONGEST
        self._telling = threading.Lock()  # whoever takes ends out also tells of them: they stay in order

    @property
    def parts(self) -> Parts:
        """See RequestLog.parts."""
        places = None if self._counters is None else self._counters.places
        log = self._access_log
        noted, program = (None, None) if log is None else (self._ends, log.program)
        flush = None if noted is None and places is None else self.flush
        return noted, flush, MOST, self._soon, self._slow_seconds, self._wants_head, places, program

    def attach(self, native: NativeEnds) -> None:
        """See RequestLog.attach."""
        self._native = native

    def write(self, exchange: Exchange, may_wait: bool = False) -> None:
        """See RequestLog.write."""
        ends, ended_at = self._ends, _monotonic()
        if self._native is not None:
            self._native.put_ends()  # those before it
        ends.append(ended_of(exchange, ended_at, self._wants_head))
        took = ended_at - exchange.arrived_at
        if self._wire_log is not None:
            self._wire_log.write(exchange)
        if took >= self._slow_seconds:
            self._slow.write(exchange)  # type: ignore[union-attr]
        if ((may_wait and took < self._soon) or self._waiting) and len(ends) < MOST and ended_at < self._due_at:
            return
        self.flush()

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """See RequestLog.write_refused."""
        self.flush()  # those before it
        for reader in self._readers:
            reader.write_refused(connection, exchange, why)
        for log in (self._wire_log, self._slow):
            if log is not None:
                log.write_refused(connection, exchange, why)

    def flush(self) -> None:
        """Tell of those that wait; if another thread does so just now, that tells of these, too."""
        ends, telling, native, self._due_at = self._ends, self._telling, self._native, _monotonic() + _LONGEST
        if native is not None and self._counters is not None:
            self._counters.add(*native.take_counts())
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

    def _tell(self, ended: list[Any]) -> None:
        if self._native is None:
            self._tell_readers(ended)
            return
        for kind, some in itertools.groupby(ended, type):
            if kind is tuple:
                self._tell_readers(list(some))
                continue
            write = self._access_log.write_lines if kind is bytes else self._access_log.write
            for batch in some:
                write(batch)

    def _tell_readers(self, ended: list[Ended]) -> None:
        for write in self._writes if ended else ():
            write(ended)
