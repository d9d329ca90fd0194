"""The page of a process: what it is doing, in memory that others may read.

Owns:     Field, the words of a page; State, of one of them; the slots of processes that are no workers; new_page, for a process without a
          supervisor; Process, what is known of a process without asking it.
Thread:   any; each word is written by one process, and read by any.
Not here: which pages there are, and whose (processes/slots.py), what a process writes (../connections/statistics.py), what is counted behind these words
          (features/metrics/table.py), what is concluded from a page (features/metrics/, processes/watch.py).

A process without a supervisor has one page, for itself: what is told of it is read there, as of a worker.
"""

from __future__ import annotations

import enum
import mmap
from collections.abc import Sequence
from typing import Callable, NamedTuple

PAGE_BYTES = 4096
WORD_BYTES = 8

# Slots of processes that are no workers.
TRIAL = 0  # the slot of new code that shows whether it can serve (processes/upgrade.py); those of workers begin with 1
MOLD = 1 << 16  # that of a process from which workers are forked (processes/molds.py)


class State(enum.IntEnum):
    """Where a child stands."""

    STARTING = 1  # it imports the app, or serves and has not been heard yet
    READY = 2  # it serves
    DRAINING = 3  # it was told to finish what runs, and end
    KILLED = 4  # it was told to end at once
    ENDED = 5


class Field(enum.IntEnum):
    """Where a word is in its page; behind them stands what its process counts (features/metrics/table.py)."""

    # Written by the supervisor.
    PID = 0  # 0: nobody has the page
    SLOT = 1
    GENERATION = 2
    STATE = 3  # State
    # Written by the process itself, once a second.
    TICK = 4  # how often it has written the following
    TICKED_AT = 5  # when: nanoseconds of the monotonic clock
    REQUESTS = 6  # answered since its start
    CONNECTIONS = 7  # open
    IN_FLIGHT = 8  # requests that are with the app, or wait for a thread, or whose responses are sent
    WAITING = 9  # of these: no thread has begun them
    THREADS_BUSY = 10  # at that moment
    STALLED_SECONDS = 12  # for so long no thread has begun a request that waits
    WAITING_MILLISECONDS = 13  # for so long the first of these has waited
    WEBSOCKETS = 14  # of the open connections
    THREADS_STUCK = 15  # written off, and still inside the app
    THREADS_BUSY_LATELY = 16  # in thousandths: a mean of ten seconds (workers/busy.py)
    CONNECTIONS_LIMIT = 17
    # Written by the process at any time.
    LOAD = 11  # its word of the load board; NOBODY: it accepts no more, or is not there


class Process(NamedTuple):
    """A process that serves, is to serve, or is to end."""

    slot: int  # 0: it has none, as without a supervisor
    pid: int  # 0: it is not there yet
    generation: int  # how many processes its slot has had, with it
    state: str  # "starting", "ready", "draining", "killed", "mold"
    began_at: float  # by time.monotonic()
    page: Sequence[int]  # words by Field
    shows_queries: bool  # --show-queries
    requests: Callable[[], Sequence[tuple[float, str]]]  # that it is at, the oldest first: seconds, "METHOD target"
    oldest_seconds: Callable[[], float]  # for how long it has been at the oldest; 0: it is at none

    @property
    def key(self) -> tuple[int, int]:
        """What no other process of the same server has, neither now nor later."""
        return self.slot, self.generation


def new_page() -> memoryview:
    """Return a page of this process's own: words by Field, all 0."""
    return memoryview(mmap.mmap(-1, PAGE_BYTES)).cast("Q")
