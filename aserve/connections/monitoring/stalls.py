"""Logging a stall of the whole server: requests wait, and no thread is free to begin one.

Owns:     StallWatch: the lines at the begin of a stall, with the stacks of the threads, and at the end.
Thread:   event loop only.
Not here: measuring the wait (workers/queue_wait.py), stacks (stacks.py), single slow requests (features/slow_requests/watch.py), systemd's watchdog
          (server/running.py).

No setting is needed: without this line, a server with all threads hanging is silent.
"""

from __future__ import annotations

import logging
import time

from ...core.incident import Incident
from ...workers.queue_wait import LONG_STALL_SECONDS, QueueWait
from .stacks import ORDER, describe_busy

logger = logging.getLogger("aserve")

MAX_STACKS = 8000  # characters of a line of the log; stacks of the most threads come first

_monotonic = time.monotonic


class StallWatch:
    def __init__(self) -> None:
        self._incident = Incident()
        self._began_at = self._seen_at = 0.0

    def on_second(self, queue: QueueWait, waiting_count: int) -> None:
        """Log once the begin of a stall, and once the end; called once a second. `waiting_count`: the number of queued requests."""
        stalled = queue.stalled_seconds
        if stalled >= LONG_STALL_SECONDS or (stalled and self._seen_at):
            self._seen_at = _monotonic()
            if self._incident.begins():
                self._began_at = self._seen_at - stalled
                logger.warning(
                    "all threads busy: no queued request started for %d s (%d queued, oldest %.0f s); the threads are at "
                    "(%s):\n%s",
                    stalled, waiting_count, queue.seconds(), ORDER, describe_busy()[:MAX_STACKS].rstrip(),
                )  # fmt: skip
        elif self._incident.is_over_at_second():
            # Clients have left, or other workers have their requests: the threads may hang on.
            end = "no request waits for a thread any more" if queue.is_quiet else "queued requests start again"
            logger.warning("%s, after %.0f s", end, self._seen_at - self._began_at)
            self._seen_at = 0.0
