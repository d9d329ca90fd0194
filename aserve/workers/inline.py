"""The executor of `--threads 0`: the app runs on the event loop's own thread.

Owns:     InlineExecutor: the queue that keeps jobs from nesting.
Thread:   event loop only.
Not here: workers (executor.py), whose methods these are.
"""

from __future__ import annotations

import collections
from typing import Any, Callable

from ..forks import leave
from .threads import WorkerCounts


class InlineExecutor:
    """Runs jobs where they are submitted, one after another."""

    is_inline = True
    is_quiet = False  # nobody writes past the loop
    waiting_count = 0  # jobs run at once
    is_idle = True
    is_leader_waiting = False
    workers = WorkerCounts()  # none: what runs the app is the event loop

    def __init__(self) -> None:
        self._jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self._is_running = False
        self.waking: list[None] = []

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) now, or after the job that submits it."""
        self._jobs.append((function, argument))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._jobs:
                function, argument = self._jobs.popleft()
                function(argument)
        finally:
            self._is_running = False

    submit_here = submit

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) now."""
        function(first, second)

    def stop(self) -> None:
        """Nothing to stop."""

    def on_forked(self) -> None:
        """In a child that the app has forked: run nothing more."""
        self._jobs.clear()
        self._jobs.append((leave, None))

    def join(self, seconds: float) -> list[str]:
        """Nothing to wait for."""
        return []

    stuck: tuple[str, ...] = ()  # nobody is written off
