"""A stall of everything, told in the log: requests wait, and no thread is free to begin one.

Owns:     StallWatch: when it is said, with what holds the threads, and when it is over.
Thread:   event loop only.
Not here: for how long none was begun (workers/queue_wait.py), stacks (stacks.py), single requests that are slow (features/slow_requests/watch.py),
          systemd's watchdog (server/running.py).

Nobody need have asked for it: without this line, a server whose threads all hang is silent.
"""

from __future__ import annotations

import logging
import time
from typing import Protocol

from ..core.episode import Episode
from ..workers.queue_wait import LONG_STALL_SECONDS
from .stacks import ORDER, describe_busy

logger = logging.getLogger("aserve")

MAX_STACKS = 8000  # characters of a line of the log; what is in most threads comes first

_monotonic = time.monotonic


class Queue(Protocol):
    """What is asked of an executor."""

    @property
    def waiting_count(self) -> int:
        """Jobs that no worker has begun."""

    @property
    def wait_seconds(self) -> float:
        """For how long the first of these has waited."""

    @property
    def stalled_seconds(self) -> int:
        """For how many seconds it has been the first."""


class StallWatch:
    """One server's."""

    def __init__(self) -> None:
        self._episode = Episode()
        self._began_at = self._seen_at = 0.0

    def on_second(self, queue: Queue) -> None:
        """Called once a second: say that a stall has begun, once, and that it is over."""
        stalled = queue.stalled_seconds
        if stalled >= LONG_STALL_SECONDS or (stalled and self._seen_at):
            self._seen_at = _monotonic()
            if self._episode.begins():
                self._began_at = self._seen_at - stalled
                logger.warning(
                    "no thread is free, and for %d s none has begun a request that waits: %d wait, the first for %.0f s; the "
                    "threads are at (%s):\n%s",
                    stalled, queue.waiting_count, queue.wait_seconds, ORDER, describe_busy()[:MAX_STACKS].rstrip(),
                )  # fmt: skip
        elif self._episode.is_over_at_second():
            logger.warning("requests that wait are begun again, after %.0f s", self._seen_at - self._began_at)
            self._seen_at = 0.0
