"""The page of a process: its state, in memory that other processes may read.

Owns:     Field, the words of a page; State, the values of Field.STATE; the slots of processes that are no workers; new_page, for a process
          without a supervisor; Process, the facts about a process that need no question to it.
Thread:   any; each word is written by one process, and read by any.
Not here: which pages there are, and whose (processes/children/pages.py), what a process writes (../connections/monitoring/statistics.py), the counters after these words
          (features/metrics/table.py), conclusions from a page (features/metrics/, processes/monitoring/watch.py).

A process without a supervisor has one page, for itself: readers find it there as they find a worker's.
"""

from __future__ import annotations

import enum
import mmap
from collections.abc import Sequence
from typing import Callable

from .named_tuple import NamedTuple

PAGE_BYTES = 4096
WORD_BYTES = 8

# Slots of processes that are no workers.
TRIAL = 0  # the slot of new code that shows whether it can serve (processes/upgrade/upgrade.py); those of workers begin with 1
MOLD = 1 << 16  # that of a process from which workers are forked (processes/worker/mold.py)


class State(enum.IntEnum):
    """The phase of a child's life."""

    STARTING = 1  # it imports the app, or serves and its message has not been read yet
    READY = 2  # it serves
    DRAINING = 3  # it was asked to finish the running requests, and end
    KILLED = 4  # it was ordered to end at once
    ENDED = 5


class Field(enum.IntEnum):
    """The index of a word in its page; the process's counters follow (features/metrics/table.py)."""

    # Written by the supervisor.
    PID = 0  # 0: the page is free
    SLOT = 1
    GENERATION = 2
    STATE = 3  # State
    # Written by the process itself, once a second.
    TICK = 4  # how often the process has written the following words
    TICKED_AT = 5  # when: nanoseconds of the monotonic clock
    REQUESTS = 6  # answered since the process started
    CONNECTIONS = 7  # open
    IN_FLIGHT = 8  # requests that are with the app, or wait for a thread, or whose responses are sent
    WAITING = 9  # those of IN_FLIGHT that no thread has begun
    THREADS_BUSY = 10  # at that moment
    STALLED_SECONDS = 12  # for how long requests have waited, and no thread has begun any
    WAITING_MILLISECONDS = 13  # for how long the oldest request has waited
    WEBSOCKETS = 14  # of the open connections
    THREADS_STUCK = 15  # written off, and still inside the app
    THREADS_BUSY_LATELY = 16  # in thousandths: a mean of ten seconds (workers/busy.py)
    CONNECTIONS_LIMIT = 17
    SHORT_OF_DESCRIPTORS = 18  # 1: it has few left, and is to get no connections of other processes
    THREADS_LACKING = 20  # of --threads: the system has not started them
    BODIES_LACK_ROOM = 19  # 1: the disk has none for request bodies
    # Written by the process at any time.
    LOAD = 11  # its word of the load board; NOBODY: it accepts no more, or does not exist


class Process(NamedTuple):
    """A process that starts, serves or ends."""

    slot: int  # 0: none, as without a supervisor
    pid: int  # 0: not started yet
    generation: int  # how many processes its slot has had, with it
    state: str  # "starting", "ready", "draining", "killed", "mold"
    began_at: float  # by time.monotonic()
    page: Sequence[int]  # words by Field
    shows_queries: bool  # --show-queries
    requests: Callable[[], Sequence[tuple[float, str]]]  # running, the oldest first: seconds, "METHOD target"
    oldest_seconds: Callable[[], float]  # the age of the oldest running request; 0: there is none

    @property
    def key(self) -> tuple[int, int]:
        """A key that no other process of the same server has, neither now nor later."""
        return self.slot, self.generation


def new_page() -> memoryview:
    """Return a page of this process's own: words by Field, all 0."""
    return memoryview(mmap.mmap(-1, PAGE_BYTES)).cast("Q")
