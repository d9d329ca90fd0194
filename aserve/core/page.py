"""The page of a process: the state, in memory readable by other processes.

Owns:     Field, the words of a page; State, the values of Field.STATE; the slots of processes other than workers; new_page, for a process without a
          supervisor; Process, the facts about a process known without a question.
Thread:   any; each word is written by one process, and read by any.
Not here: the pages of all processes (processes/children/pages.py), the writer (../connections/monitoring/statistics.py), the counters after these
          words (features/metrics/table.py), conclusions from a page (features/metrics/, processes/monitoring/watch.py).

A process without a supervisor has one page: readers find the same as for a worker.
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

    STARTING = 1  # imports the app, or serves with the message still unread
    READY = 2  # serves
    DRAINING = 3  # asked to finish the running requests, and end
    KILLED = 4  # ordered to end at once
    ENDED = 5


class Field(enum.IntEnum):
    """The index of a word in the page; the process's counters follow (features/metrics/table.py)."""

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
    IN_FLIGHT = 8  # requests in the app, or waiting for a thread, or with a response being sent
    WAITING = 9  # the requests of IN_FLIGHT not begun by a thread
    THREADS_BUSY = 10  # at the moment
    STALLED_SECONDS = 12  # for how long requests have waited, and no thread has begun any
    WAITING_MILLISECONDS = 13  # for how long the oldest request has waited
    WEBSOCKETS = 14  # of the open connections
    THREADS_STUCK = 15  # written off, and still inside the app
    THREADS_BUSY_LATELY = 16  # in thousandths: a mean of ten seconds (workers/busy.py)
    CONNECTIONS_LIMIT = 17
    SHORT_OF_DESCRIPTORS = 18  # 1: few are left; no connections of other processes are to come
    THREADS_LACKING = 20  # of --threads: not started by the system
    BODIES_LACK_ROOM = 19  # 1: the disk has none for request bodies
    # Written by the process at any time.
    LOAD = 11  # the word of the load board; NOBODY: accepts no more, or does not exist


class Process(NamedTuple):
    slot: int  # 0: none, as without a supervisor
    pid: int  # 0: not started yet
    generation: int  # the number of this process among those of the slot
    state: str  # "starting", "ready", "draining", "killed", "mold"
    began_at: float  # by time.monotonic()
    page: Sequence[int]  # words by Field
    shows_queries: bool  # --show-queries
    requests: Callable[[], Sequence[tuple[float, str]]]  # running, the oldest first: seconds, "METHOD target"
    oldest_seconds: Callable[[], float]  # the age of the oldest running request; 0: there is none
    still_seconds: int = 0  # for how long the event loop has not turned, by the seconds of the supervisor

    @property
    def key(self) -> tuple[int, int]:
        """A key unique among the processes of a server, now and later."""
        return self.slot, self.generation


def new_page() -> memoryview:
    """Return a page of this process's own: words by Field, all 0."""
    return memoryview(mmap.mmap(-1, PAGE_BYTES)).cast("Q")
