"""Who is let in: accepting on the general path, and how many connections there may be.

Owns:     ConnectionLimit, a server's connections and their limit; Acceptor, accepting on
          a listener that is not the lane's; what happens when connections or
          descriptors run out.
Thread:   event loop only.
Not here: accepting in the lane (cparsers/lane_accept.c), which asks by the same
          numbers; one connection (wire_loop.py).

At the limit nobody is accepted: the kernel's queue (--backlog) holds who
comes. First, connections that have idled the longest after a request are
closed to make room. Descriptors that run out are met in the same way. The
event loops' own accepting is not used: asyncio's logs a traceback a second,
and uvloop's throws out those whom it cannot take.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from typing import Any, Callable, Protocol

from ..budgets import default_spool_files
from ..episode import Episode

logger = logging.getLogger("aserve")

# accept(2): what is missing is not the client's fault, and it stays in the queue.
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Accepted in one iteration of the event loop, so that those who are connected have their share. Guess.
ITERATION_ACCEPTS = 64
# Closed at once to make room: one in so many of those that idle, and so many at most. nginx's numbers.
ROOM_SHARE = 8
ROOM_COUNT = 32
# A connection that has idled for less than this many seconds may be about to be used again.
ROOM_SECONDS = 2.0  # of the timer: one at least

# Descriptors that are not for connections: listeners, logs, the interpreter's; and those of the app,
# which in each worker may have a file and a connection of its own open. Guess.
OWN_DESCRIPTORS = 64
WORKER_DESCRIPTORS = 4
# A limit below this is told at the start, since nobody has chosen it. Guess.
LOW_COUNT = 500
# Where the system has no limit of descriptors.
UNLIMITED_COUNT = 1_000_000


def default_limit(threads: int, spool_files: int) -> int:
    """Return how many connections the limit of descriptors leaves room for, beside so many temporary files."""
    descriptors = descriptor_limit()
    if descriptors is None:
        return UNLIMITED_COUNT
    return max(descriptors - OWN_DESCRIPTORS - WORKER_DESCRIPTORS * threads - spool_files, descriptors // 2, 1)


def descriptor_limit() -> int | None:
    """Return RLIMIT_NOFILE; None: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class InLane(Protocol):
    """What a ConnectionLimit asks of the lane."""

    @property
    def count(self) -> int:
        """Its connections."""

    def limit(self, max_count: int) -> None:
        """Set how many connections there may be at most."""

    def allow_for(self, others_count: int) -> None:
        """Set how many connections count that are not in the lane."""

    def make_room(self) -> int:
        """Close some that idle; return how many."""

    @property
    def pause_counts(self) -> tuple[int, int]:
        """How often accepting was paused since the start: by the limit, by a shortage."""


class OnLoop(Protocol):
    """What a ConnectionLimit asks of a connection on the event loop: of its wire, or of what comes before that."""

    @property
    def idle_seconds(self) -> float:
        """For how long it has waited for another request; 0 when it does not."""

    def drain(self) -> None:
        """Finish the exchange that runs, then close."""

    def abort(self) -> None:
        """Close at once."""

    def on_second(self) -> None:
        """End what has been quiet for too long."""


class ConnectionLimit(set[OnLoop]):
    """The connections of one server, and their limit: those on the general path itself, those in the lane by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.max_count = UNLIMITED_COUNT
        self.pending: set[asyncio.Protocol] = set()  # accepted, but without a transport yet
        self._lane: InLane | None = None
        self._paused: list[Acceptor] = []  # they accept nobody for now
        self._begin()

    def _begin(self) -> None:
        self._full, self._short = Episode(), Episode()
        self._lane_counts = (0, 0)

    def open(self, max_connections: int, threads: int, spool_files: int = 0) -> None:
        """Find the limit, and tell what is wrong with it; of temporary files, 0 is the default number."""
        self._begin()
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

    def join(self, lane: InLane | None) -> None:
        """Count the connections of this lane, too; None: no more."""
        self._lane, self._lane_counts = lane, (0, 0)
        if lane is not None:
            lane.limit(self.max_count)
            lane.allow_for(len(self))

    @property
    def count(self) -> int:
        """Connections that are open."""
        return len(self) + (self._lane.count if self._lane is not None else 0)

    # What a wire does when it begins and ends

    def add(self, connection: OnLoop) -> None:
        """It is open."""
        super().add(connection)
        self.pending.discard(connection)
        if self._lane is not None:
            self._lane.allow_for(len(self))

    def discard(self, connection: object) -> None:
        """It is lost."""
        super().discard(connection)
        if self._lane is not None:
            self._lane.allow_for(len(self))
        if self._paused:
            self._resume_accepting()

    # What an Acceptor asks

    def is_full(self) -> bool:
        """Whether nobody else may come."""
        return self.count + len(self.pending) >= self.max_count

    def wait_for_room(self, acceptor: Acceptor) -> None:
        """There are enough connections: start this again when one has ended."""
        self._paused.append(acceptor)
        if self._lane is not None and self._lane.make_room():
            self._resume_accepting()
        elif not self._close_idle():
            self._tell_full()

    def wait_for_descriptors(self, acceptor: Acceptor, error: OSError) -> None:
        """There is nothing left to take connections with: start this again when there may be."""
        self._paused.append(acceptor)
        self._tell_short(str(error.strerror))

    def forget(self, acceptor: Acceptor) -> None:
        """It will accept no more."""
        if acceptor in self._paused:
            self._paused.remove(acceptor)

    def _resume_accepting(self) -> None:
        paused, self._paused = self._paused, []
        for acceptor in paused:
            acceptor.start()

    def _close_idle(self) -> bool:
        """Close connections that idle, the oldest first; return whether there are any."""
        idle = [connection for connection in self if connection.idle_seconds >= ROOM_SECONDS]
        idle.sort(key=lambda connection: connection.idle_seconds, reverse=True)
        for connection in idle[: max(min(ROOM_COUNT, len(idle) // ROOM_SHARE), 1)]:
            connection.drain()  # when it is lost, `discard` lets somebody in
        return bool(idle)

    def on_second(self) -> None:
        """Called once a second: try again, and tell what has begun or ended."""
        if self._lane is not None:
            counts, before = self._lane.pause_counts, self._lane_counts
            self._lane_counts = counts
            if counts[0] != before[0] and not self._close_idle():
                self._tell_full()
            if counts[1] != before[1]:
                self._tell_short(os.strerror(errno.EMFILE))
        if self._full.is_over_at_second():
            logger.warning("fewer than %d connections again (--max-connections): accepting goes on", self.max_count)
        if self._short.is_over_at_second():
            logger.warning("file descriptors are free again: accepting goes on")
        if self._paused:
            self._resume_accepting()

    def _tell_full(self) -> None:
        if self._full.begins():
            logger.warning(
                "%d connections, the limit (--max-connections): more are accepted as others end, and wait until then",
                self.max_count,
            )

    def _tell_short(self, why: str) -> None:
        if self._short.begins():
            logger.error(
                "cannot accept connections: %s, with %d open; those go on, and others wait; "
                "raise `ulimit -n`, or lower --max-connections (%d)",
                why, self.count, self.max_count,
            )  # fmt: skip


class Acceptor:
    """Accepts on one listening socket, and makes its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: ConnectionLimit,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._socket = listening  # non-blocking
        self._make = make
        self._is_reading = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Accept from now on."""
        self._loop.add_reader(self._socket.fileno(), self._on_ready)
        self._is_reading = True

    def stop(self) -> None:
        """Accept no more; after this the socket may be closed."""
        self._limit.forget(self)
        self._pause()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _on_ready(self) -> None:
        """Somebody waits."""
        if self._limit.is_full():
            self._pause()
            self._limit.wait_for_room(self)
            return
        for _ in range(ITERATION_ACCEPTS):
            try:
                sock, _ = self._socket.accept()
            except OSError as exc:
                if exc.errno in SHORTAGES:
                    self._pause()
                    self._limit.wait_for_descriptors(self, exc)
                return  # nobody else waits; or accept(2) tells what became of one who did
            sock.setblocking(False)
            connection = self._make()
            self._limit.pending.add(connection)
            task = self._loop.create_task(self._connect(sock, connection))
            self._tasks.add(task)  # a loop holds its tasks only weakly
            task.add_done_callback(self._tasks.discard)
            if self._limit.is_full():
                return  # whether somebody waits is told at the next iteration

    async def _connect(self, sock: socket.socket, connection: asyncio.Protocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock)
        except OSError:
            sock.close()  # gone again
        finally:
            self._limit.pending.discard(connection)
