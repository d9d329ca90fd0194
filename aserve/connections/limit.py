"""The connections of one server, and their limit.

Owns:     ConnectionLimit; the choice of connections to evict; the log lines at the begin and the end of a shortage of connections or descriptors.
Thread:   event loop only.
Not here: accepting (acceptor.py; cparsers/lane_accept.c, by the same numbers); the load of other processes (load_board.py).

At the limit no connection is accepted: new ones wait in the kernel's queue (--backlog). First, the connections with the longest idle time after a
request are evicted: closed to make room. A shortage of descriptors has the same effect.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
from typing import Protocol

from ..core.incident import Incident
from .load_board import LoadBoard
from .server_budgets import default_spool_files

logger = logging.getLogger("aserve")

# Accepted in one iteration of the event loop, to leave open connections their share. Guess.
ITERATION_ACCEPTS = 64
# Evicted at once: one in EVICT_SHARE of the idle connections, and at most the next number. nginx's numbers.
EVICT_SHARE = 8
EVICT_COUNT = 32
# A connection idle for less than this many seconds may be about to be used again.
EVICTABLE_SECONDS = 2.0  # of the timer: one at least

# Descriptors kept from connections: of listeners, logs, the interpreter; and of the app, maybe a file and a connection in each worker. Guess.
OWN_DESCRIPTORS = 64
WORKER_DESCRIPTORS = 4
# With fewer left, another process gets the connections. Guess.
SPARE_DESCRIPTORS = 16
# A default limit below this is logged at the start, as a limit not chosen by the operator. Guess.
LOW_COUNT = 500
# Where the system has no limit of descriptors.
UNLIMITED_COUNT = 1_000_000


def default_limit(threads: int, spool_files: int) -> int:
    """Return how many connections the limit of descriptors leaves room for, beside `spool_files` temporary files."""
    descriptors = descriptor_limit()
    if descriptors is None:
        return UNLIMITED_COUNT
    return max(descriptors - OWN_DESCRIPTORS - WORKER_DESCRIPTORS * threads - spool_files, descriptors // 2, 1)


def descriptor_limit() -> int | None:
    """Return RLIMIT_NOFILE; None: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def is_short_of_descriptors() -> bool:
    """
    Return whether few descriptors are free, by the lowest free one; to be called once a second.

    The lowest is a lower bound for the used ones: never True too early, and late where the app has closed some of many.
    """
    limit = descriptor_limit()
    if limit is None:
        return False
    try:
        lowest = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(lowest)
    return lowest >= limit - SPARE_DESCRIPTORS


class InLane(Protocol):
    """The lane, in the view of a ConnectionLimit."""

    @property
    def count(self) -> int:
        """Number of open connections in the lane."""

    def set_limit(self, max_count: int) -> None:
        """Set how many connections there may be at most."""

    def set_others_count(self, others_count: int) -> None:
        """Set the number of counted connections outside the lane."""

    def evict_idle(self) -> int:
        """Close the connections with the longest idle time; return the number."""

    @property
    def pause_counts(self) -> tuple[int, int]:
        """How often accepting was paused since the start: by the limit, by a shortage."""


class OnLoop(Protocol):
    """A connection on the event loop, in the view of a ConnectionLimit: a wire, or the Greeting before."""

    @property
    def idle_seconds(self) -> float:
        """The time of the wait for another request; 0: no such wait."""

    def drain(self) -> None:
        """Finish the running exchange, then close."""

    def abort(self) -> None:
        """Close at once."""

    def on_second(self) -> None:
        """Close the connection if quiet for too long."""


class Accepting(Protocol):
    """An acceptor, in the view of a ConnectionLimit."""

    def start(self) -> None:
        """Accept again."""

    def end_rest(self) -> None:
        """Check again whether to accept."""


class ConnectionLimit(set[OnLoop]):
    """The connections of one server, and their limit: the set of those on the general path, and the number of those in the lane."""

    def __init__(self) -> None:
        super().__init__()
        self.max_count = UNLIMITED_COUNT
        self.pending: set[asyncio.Protocol] = set()  # accepted, but without a transport yet
        self._board: LoadBoard | None = None  # of the processes with our listeners; None: no other process has
        self._lane: InLane | None = None
        self._paused: list[Accepting] = []  # stopped at the limit, or by a shortage
        self._resting: list[Accepting] = []  # stopped since other processes have less to do
        self._reset_counts()

    def _reset_counts(self) -> None:
        self._asked = UNLIMITED_COUNT, 0, 0
        self._full, self._short = Incident(), Incident()
        self._lane_counts = (0, 0)

    def find_limit(self, max_connections: int, threads: int, spool_files: int = 0) -> None:
        """Find the limit, and log if descriptors do not suffice; `spool_files` 0: the default number of temporary files."""
        self._reset_counts()
        self._asked = max_connections, threads, spool_files
        descriptors = descriptor_limit()
        self.max_count = max_connections or default_limit(threads, spool_files or default_spool_files())
        if not max_connections and self.max_count < LOW_COUNT:
            logger.warning(
                "at most %d connections at once, since `ulimit -n` is %s; raise it for more",
                self.max_count,
                descriptors,
            )
        elif descriptors is not None and self.max_count >= descriptors:
            logger.warning(
                "--max-connections %d needs more file descriptors than `ulimit -n` allows (%d); raise that",
                max_connections, descriptors,
            )  # fmt: skip
        elif descriptors is not None and spool_files and self.max_count + spool_files >= descriptors:
            logger.warning(
                "%d connections (--max-connections) and %d temporary files (--spool-files) need more file descriptors "
                "than `ulimit -n` allows (%d); raise that",
                self.max_count, spool_files, descriptors,
            )  # fmt: skip

    def include_lane(self, lane: InLane | None) -> None:
        """Count the connections of this lane, too; None: of no lane any more."""
        self._lane, self._lane_counts = lane, (0, 0)
        if lane is not None:
            lane.set_limit(self.max_count)
            lane.set_others_count(len(self))

    def join_board(self, board: LoadBoard | None, threads: int) -> None:
        """From now on show the load of this process to those with the same listeners; None: no other process has."""
        self._board = board
        if board is not None:
            board.open(max(threads, 1))

    def leave_board(self) -> None:
        """Take this process off the board: no more accepts. Repeat until all is over; see load_board.h."""
        if self._board is not None:
            self._board.leave()

    @property
    def count(self) -> int:
        return len(self) + (self._lane.count if self._lane is not None else 0)

    # Called by a wire when it begins and ends

    def add(self, connection: OnLoop) -> None:
        super().add(connection)
        self.pending.discard(connection)
        self._show_count()

    def discard(self, connection: object) -> None:
        """Stop counting a lost connection, and accept another in the free place."""
        super().discard(connection)
        self._show_count()
        if self._paused:
            self._resume_accepting()
        if self._resting and self._board is not None and self._board.is_due():
            for acceptor in self._resting[:]:
                acceptor.end_rest()

    def _show_count(self) -> None:
        if self._lane is not None:
            self._lane.set_others_count(len(self))
        if self._board is not None:
            self._board.set_connections(len(self) + len(self.pending))

    # Called by an Acceptor

    def quota(self) -> int:
        """Return the number of connections to accept now, unless the limit is lower; 0: other processes have less to do."""
        return ITERATION_ACCEPTS if self._board is None else min(self._board.quota(), ITERATION_ACCEPTS)

    def add_accepted(self, connection: asyncio.Protocol) -> None:
        """Count a connection just accepted, without a transport yet."""
        if self._board is not None:
            self._board.count_turn()
        self.add_pending(connection)

    def add_pending(self, connection: asyncio.Protocol) -> None:
        """Count a connection without a transport yet."""
        self.pending.add(connection)
        self._show_count()

    def discard_pending(self, connection: asyncio.Protocol) -> None:
        """Stop counting a connection as pending: in this set by now, with a transport; or lost before."""
        self.pending.discard(connection)
        self._show_count()

    def rest_acceptor(self, acceptor: Accepting) -> None:
        """Record an acceptor stopped in favour of processes with less to do; start it again after a change."""
        self._resting.append(acceptor)

    def is_full(self) -> bool:
        """Return whether the limit is reached."""
        return self.count + len(self.pending) >= self.max_count

    def pause_at_limit(self, acceptor: Accepting) -> None:
        """Record an acceptor stopped at the limit; evict idle connections; start it again after an end of one."""
        self._paused.append(acceptor)
        if self._lane is not None and self._lane.evict_idle():
            self._resume_accepting()
        elif not self._evict_idle():
            self._log_full()

    def pause_for_descriptors(self, acceptor: Accepting, error: OSError) -> None:
        """Record an acceptor stopped for lack of descriptors or memory; start it again when there may be some."""
        self._paused.append(acceptor)
        self._log_shortage(str(error.strerror))

    def forget_acceptor(self, acceptor: Accepting) -> None:
        """Do not start this acceptor again: stopped for good."""
        for acceptors in (self._paused, self._resting):
            if acceptor in acceptors:
                acceptors.remove(acceptor)

    def _resume_accepting(self) -> None:
        paused, self._paused = self._paused, []
        for acceptor in paused:
            acceptor.start()

    def _evict_idle(self) -> bool:
        """Close the connections with the longest idle time; return whether there were any."""
        idle = [connection for connection in self if connection.idle_seconds >= EVICTABLE_SECONDS]
        idle.sort(key=lambda connection: connection.idle_seconds, reverse=True)
        for connection in idle[: max(min(EVICT_COUNT, len(idle) // EVICT_SHARE), 1)]:
            connection.drain()  # after the close, `discard` accepts another
        return bool(idle)

    def on_second(self) -> None:
        """Accept again, and log begun and ended shortages; called once a second."""
        self._show_count()  # once more: see load_board_add
        self._follow_descriptors()
        if self._lane is not None:
            counts, before = self._lane.pause_counts, self._lane_counts
            self._lane_counts = counts
            if counts[0] != before[0] and not self._evict_idle():
                self._log_full()
            if counts[1] != before[1]:
                self._log_shortage(os.strerror(errno.EMFILE))
        if self._full.is_over_at_second():
            logger.warning("fewer than %d connections again (--max-connections): accepting goes on", self.max_count)
        if self._short.is_over_at_second():
            logger.warning("file descriptors are free again: accepting goes on")
        if self._paused:
            self._resume_accepting()

    def _follow_descriptors(self) -> None:
        """Follow `ulimit -n`, changed maybe by the app or prlimit(1), unless the limit is set."""
        chosen, threads, spool_files = self._asked
        count = chosen or default_limit(threads, spool_files or default_spool_files())
        if count != self.max_count and not chosen:
            logger.warning(
                "at most %d connections at once from now on, before: %d (`ulimit -n`)", count, self.max_count
            )
            self.max_count = count
            if self._lane is not None:
                self._lane.set_limit(count)

    def _log_full(self) -> None:
        if self._full.begins():
            logger.warning(
                "%d connections, the limit (--max-connections): new ones wait in the kernel's queue until others end",
                self.max_count,
            )

    def _log_shortage(self, why: str) -> None:
        if self._short.begins():
            logger.error(
                "cannot accept connections: %s, with %d of %d open; those go on, and others wait; raise `ulimit -n`, or lower "
                "--max-connections; where few are open, the app keeps the descriptors: `ls -l /proc/%d/fd`",
                why, self.count, self.max_count, os.getpid(),
            )  # fmt: skip
