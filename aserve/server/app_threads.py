"""The threads that run the app of one server.

Owns:     AppThreads: the executor, the number of busy threads, --request-timeout, dropping queued requests of clients that have left,
          whether too many threads are stuck; the end of the threads.
Thread:   event loop only.
Not here: passing requests to threads (workers/), running them (connections/connection.py).
"""

from __future__ import annotations

import asyncio
import logging
import time

from ..connections.lane.disconnects import Departed
from ..connections.monitoring.stacks import ORDER, describe_stacks
from ..connections.monitoring.stalls import StallWatch
from ..lifecycle.failing import Failing
from ..settings import EngineSettings
from ..workers.busy import Busy
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from ..workers.stopping import stop_workers
from ..wsgi import WSGIApp
from ..wsgi.deadlines import Deadlines

logger = logging.getLogger("aserve")


class AppThreads:
    """The threads of one server, made anew at each start. With --threads 0 there are none: the event loop's thread runs the app."""

    def __init__(self, config: EngineSettings) -> None:
        self._config = config
        self.failing: Failing | None = None  # before the first start
        self.executor: Executor | InlineExecutor = InlineExecutor()
        self.deadlines: Deadlines | None = None  # with --request-timeout
        self.busy, self._stalls = Busy(1), StallWatch()
        self._departed: Departed | None = None  # with threads

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the executor; threads start when requests come."""
        config = self._config
        failing = self.failing = Failing()
        self.busy, self._stalls = Busy(config.threads or 1), StallWatch()  # --threads 0: the event loop runs the app
        if config.threads:
            # One thread is a promise (PEP 3333 wsgi.multithread): no other thread ever runs the app.
            self.executor = Executor(loop, config.threads, config.extra_threads if config.threads > 1 else 0)
            self._departed = Departed(self.executor, config.keep_half_closed)
            if config.request_seconds:  # then there are threads: settings/table.py
                self.deadlines = Deadlines(config.request_seconds, self.executor, config.max_stuck, failing.begin)

    def timed(self, app: WSGIApp) -> WSGIApp:
        """Return the app with --request-timeout, as threads call it."""
        return self.deadlines.timed(app) if self.deadlines is not None else app

    def on_second(self) -> None:
        """Check queued requests, and requests that take too long; called once a second."""
        self.executor.queue_wait.on_second()
        if self._departed is not None:
            self._departed.on_second()
        if self.deadlines is not None:
            self.deadlines.on_second()

    def look(self, counted_seconds: float | None) -> None:
        """Note how many threads are busy, see Busy.look, and log a stall; called once a second, after ends of requests were read."""
        workers = self.executor.workers
        self.busy.look(time.monotonic(), max(workers.at_work - workers.idle, 0), workers.compensated, counted_seconds)
        self._stalls.on_second(self.executor.queue_wait, self.executor.waiting_count)

    async def stop(self, loop: asyncio.AbstractEventLoop, deadline: float) -> bool:
        """End the threads, by the deadline (loop time) or a little later; return whether all have ended. Log the others."""
        hung = await stop_workers(self.executor, loop, deadline)
        if hung:
            told = ", ".join(hung), ORDER, describe_stacks(hung).rstrip()
            logger.warning("threads still inside the app at the end: %s; stacks (%s):\n%s", *told)
        return not hung

    def on_forked(self) -> None:
        """Drop the threads in a child that the app has forked; see forks.ForkAware."""
        self.executor.on_forked()
        if self.deadlines is not None:
            self.deadlines.on_forked()
