"""The executor of `--threads 0`: the app runs on the event loop's own thread.

Owns:     InlineExecutor: the queue that keeps jobs from nesting.
Thread:   event loop only.
Not here: workers (executor.py), whose methods these are.
"""

from __future__ import annotations

import collections
from typing import Any, Callable

from ..forks import end_child
from .threads import WorkerCounts


class InlineExecutor:
    """Runs jobs where they are submitted, one after another."""

    is_inline = True
    pause_seconds = 0.0  # nobody calls `on_pause`
    is_quiet = False  # nobody writes past the loop
    waiting_count = stalled_seconds = 0  # nobody can ask while they wait
    wait_seconds = 0.0
    is_idle = True
    is_leader_waiting = False
    workers = WorkerCounts()  # none: what runs the app is the event loop

    def __init__(self) -> None:
        self.jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self.submit_here = self.jobs.append  # queue a job, for `run`
        self._is_running = False
        self.waking: list[None] = []
        self.on_pause: Callable[[], None] | None = None

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) now, or after the job that submits it."""
        self.jobs.append((function, argument))
        self.run()

    def run(self) -> None:
        """Run what is queued; nothing, if a job calls this."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self.jobs:
                function, argument = self.jobs.popleft()
                function(argument)
        finally:
            self._is_running = False

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) now."""
        function(first, second)

    def on_second(self) -> None:
        """Do nothing: nothing waits."""

    def stop(self) -> None:
        """Do nothing: there are no threads."""

    def on_forked(self) -> None:
        """Run nothing more, in a child that the app has forked; see forks.py."""
        self.jobs.clear()
        self.jobs.append((end_child, None))

    def join(self, seconds: float) -> list[str]:
        """Return no names: there are no threads."""
        return []

    stuck: tuple[str, ...] = ()  # nobody is written off
