"""The executor of `--threads 0`: the app runs on the event loop's own thread.

Owns:     InlineExecutor: the queue against nested jobs, with the running loop hidden from the app; the context of each job.
Thread:   event loop only.
Not here: workers (executor.py), with the same methods.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import functools
import time
from asyncio import events, tasks
from collections.abc import Iterator
from typing import Any, Callable

from ..core.forks import end_child
from .queue_wait import QueueWait
from .threads import WorkerCounts, WorkerThreads

_swap_current_task: Any = getattr(tasks, "_swap_current_task", None)  # since Python 3.12


@contextlib.contextmanager
def no_running_loop() -> Iterator[None]:
    """
    Let the code within find no running event loop, and so no task, as in a worker thread: the app is synchronous.

    Otherwise asyncio.run() fails there, and so does code that refuses to block a loop (Django's ORM) or calls async views (asgiref). The loop's own
    methods do not ask for the running loop. Nor is the loop of a program the thread's current one: code with that loop could stop it.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    current: Any = getattr(getattr(events, "_event_loop_policy", None), "_local", None)  # the policy's, of this thread
    is_current = getattr(current, "_loop", None) is loop
    if is_current:
        current._loop = None
    # In CPython 3.14 no task may begin while the thread has a current one, of any loop. 3.12 raises a KeyError without a current one.
    task = asyncio.current_task(loop) if _swap_current_task is not None else None
    if task is not None:
        _swap_current_task(loop, None)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if is_current:
            current._loop = loop
        if task is not None:
            _swap_current_task(loop, task)


class InlineExecutor:
    """Runs jobs at once, one after another."""

    is_inline = True
    pause_seconds = 0.0  # `on_pause` is never called
    is_quiet = False  # no thread writes past the loop
    waiting_count = 0  # no code can ask while jobs wait
    is_idle = True
    is_leader_waiting = False
    workers = WorkerCounts()  # none: the event loop runs the app

    def __init__(self) -> None:
        self.jobs: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self.queue_wait = QueueWait(self.jobs, time.monotonic, lambda: 0)  # see waiting_count
        self.threads = WorkerThreads(self.run, 0, 0)  # none
        self.submit_here = self.jobs.append  # queue a job, for `run`
        self._is_running = False
        self._context: contextvars.Context | None = None  # of the running job
        self.waking: list[None] = []
        self.on_pause: Callable[[], None] | None = None
        self.on_crowded: Callable[[], bool] | None = None  # never called: the event loop runs the app

    def submit(self, function: Callable[[Any], None], argument: Any) -> None:
        """Run function(argument) now, or after the submitting job."""
        self.jobs.append((function, argument))
        self.run()

    put_back = submit

    def run(self) -> None:
        """Run the queued jobs, each from the app's call to the close(); return at once in a call from a job."""
        if self._is_running:
            return
        self._is_running = True
        try:
            with no_running_loop():
                while self.jobs:
                    function, argument = self.jobs.popleft()
                    self._call_within(contextvars.Context(), functools.partial(function, argument))
        finally:
            self._is_running = False

    def in_its_context(self, function: Callable[[], object]) -> Callable[[], object]:
        """Return a function that calls this one later in the context of the running job, as a part of the job's work."""
        return function if self._context is None else functools.partial(self._call_within, self._context, function)

    def _call_within(self, context: contextvars.Context, function: Callable[[], object]) -> None:
        if context is self._context:
            function()
            return
        before, self._context = self._context, context
        try:
            context.run(function)
        finally:
            self._context = before

    def post(self, function: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        """Run function(first, second) now."""
        function(first, second)

    def stop(self) -> None:
        """Do nothing: there are no threads."""

    def on_forked(self) -> None:
        """Run nothing more, in a child forked by the app; see core/forks.py."""
        self.jobs.clear()
        self.jobs.append((end_child, None))
