"""The process that does the jobs of a folder, or of a queue.

Owns:     run_spooler: waiting for jobs, their order, handling their results, and the end.
Thread:   the main thread of a process of its own, which runs the app's function, too.
Not here: files (folder.py), queues (queues.py), starting and ending the process (processes/programs/attached.py), importing the app (../jobs.py).
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import math
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Callable

from ....core.forks import disown_handlers, end_if_forked, forked, own_handlers
from ....lifecycle.signals import kept_handlers
from ....lifecycle.termination import Termination
from .board import Page
from .folder import Job, JobFolder

if TYPE_CHECKING:
    from .queues import Queue, QueuedJob

logger = logging.getLogger("aserve")

# uWSGI's codes, which the app's function returns.
SPOOL_OK, SPOOL_RETRY, SPOOL_IGNORE = -2, -1, 0
RETRY_SECONDS = 30.0  # after SPOOL_RETRY; uWSGI's interval between looks at the folder
MAX_TOLD = 1000  # paths whose fault was logged, and is not logged again
BATCH = 100  # jobs between two listings of the folder: a new one may have a higher priority

Do = Callable[["dict[str | bytes, Any]"], object]


class Spooler:
    """The jobs of one place, one after another."""

    def __init__(
        self,
        place: JobFolder | Queue,
        function: Callable[[], Do | None],
        clock: Callable[[], float] = time.time,
        page: Page | None = None,
        max_jobs: int = 0,
    ) -> None:
        """
        `function` returns the app's function for jobs, or None; `page`: for reports to the supervisor.

        End after `max_jobs`; 0: never.
        """
        self._place = place
        self._page = page or Page()
        self._max_jobs = max_jobs
        self._count = 0  # of jobs begun
        self._function = function
        self._clock = clock
        self.termination = Termination()
        self._told: set[str] = set()

    def close(self) -> None:
        """Close the folder or queue."""
        self._place.close()
        self.termination.close()

    def run(self) -> None:
        """Do jobs until `termination` is requested; the job that runs then is finished."""
        poll = select.poll()
        self._place.register(poll)
        poll.register(self.termination, select.POLLIN)
        while not self.termination.is_requested:
            seconds = self.do_due()
            poll.poll(0 if self.termination.is_requested else seconds * 1000)
            self.termination.clear()

    def do_due(self) -> float:
        """Do the due jobs; return the seconds until the next look."""
        count, next_at = 0, math.inf
        for due in self._place.jobs(self._tell):
            if self.termination.is_requested:
                return 0.0
            if due.at > self._clock():
                next_at = min(next_at, due.at)
                continue
            job = self._take(due.path)
            if job is None:
                continue
            count += self._do_and_close(job)
            next_at = min(next_at, job.next_at)
            if count >= BATCH:
                return 0.0
        return min(max(next_at - self._clock(), 0.0), self._place.look_seconds)

    def _take(self, path: str) -> Job | QueuedJob | None:
        try:
            return self._place.take(path, self._clock())
        except (ValueError, OSError) as fault:
            self._tell(path, "is no job that can be read", fault)
            return None

    def _do_and_close(self, job: Job | QueuedJob) -> bool:
        """Do a job; return False if its file cannot be changed, so that other jobs must come first."""
        try:
            self._do(job)
        except OSError as fault:  # the file or its folder belongs to another user
            self._tell(job.path, "cannot be put off, or removed", fault)
            return False
        finally:
            job.close()
        return True

    def _tell(self, path: str, what: str, fault: Exception) -> None:
        """Log a fault, once for each path."""
        if path not in self._told:
            if len(self._told) >= MAX_TOLD:
                self._told.clear()
            self._told.add(path)
            logger.error("%s %s: %s", path, what, fault)

    def _do(self, job: Job | QueuedJob) -> None:
        name = os.path.basename(job.path)
        seconds = job.put_off(self._clock())  # first: the job may kill this process
        function = self._function()
        if function is None:
            logger.error("%s waits: the app has no function for jobs (uwsgi.spooler, or @spool)", name)
            job.put_off(self._clock(), RETRY_SECONDS)
            return
        count = len(forked)
        self._page.begin(name)
        try:
            # A context of its own: context variables that a job sets must not reach the next one.
            with kept_handlers(f"the job {name}"):
                result = contextvars.copy_context().run(function, values_of(job.path, job.values, job.body))
                end_if_forked(count)
        except BaseException as exc:
            end_if_forked(count, exc)
            if isinstance(exc, KeyboardInterrupt):  # the server's; CancelledError and gevent's Timeout are the app's
                raise
            self._note_end("failed")
            logger.exception("%s has failed; the next try is in %.0f s", name, seconds)
            job.put_off(self._clock(), seconds)
            return
        self._note_end("done" if result == SPOOL_OK else "retried")
        if result == SPOOL_OK:
            job.remove()
            return
        if result not in (SPOOL_RETRY, SPOOL_IGNORE):
            logger.error("%s stays: its function has returned %.100r, and not SPOOL_OK", name, result)
        job.put_off(self._clock(), RETRY_SECONDS)

    def _note_end(self, result: str) -> None:
        self._page.end(result)
        self._count += 1
        if self._count == self._max_jobs:
            logger.info("after %d jobs (--spooler-max-jobs) another process goes on", self._count)
            self.termination.request()


def values_of(path: str, values: dict[bytes, bytes], body: bytes) -> dict[str | bytes, Any]:
    """Return a job in the form of uWSGI: the app's names are bytes, uWSGI's own are str."""
    found: dict[str | bytes, Any] = {"spooler_task_name": os.path.basename(path)}
    for name, value in values.items():
        found[name] = value
    if body:
        found["body"] = body
    return found


def run_spooler(
    folder: str,
    function: Callable[[], Do | None],
    page: Page | None = None,
    max_jobs: int = 0,
    queue: Queue | None = None,
) -> int:
    """
    Do the jobs of a folder, or of a queue, until SIGTERM, or `max_jobs`; return the exit status.

    Raises:
        OSError: the folder cannot be used.
    """
    if queue is not None:
        queue.warn()
    with contextlib.closing(Spooler(queue or JobFolder(folder), function, page=page, max_jobs=max_jobs)) as spooler:

        def on_term(number: int, frame: object) -> None:
            spooler.termination.request()

        spooler.termination.wake_by_signals()
        own_handlers({signal.SIGTERM: signal.signal(signal.SIGTERM, on_term)})
        logger.info("doing the jobs of %s", folder)
        spooler.run()
        disown_handlers()
    logger.info("stopped")
    return 0
