"""The metrics of a process that serves by itself, and answers by itself.

Owns:     Single: the words that its Counters write, its listeners, its text and its page.
Thread:   event loop only.
Not here: many processes (processes/overview.py).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ..core.page import Field
from ..extension import Serving
from .app import AppMetrics
from .balance import Balance, Host, Reading
from .counting import read_words
from .lone import Lone
from .pages import Pages
from .picture import Picture
from .scrapes import Scrapes, open_metrics
from .statsd import Statsd
from .table import (
    DESCRIPTOR_LIMIT,
    DESCRIPTORS,
    LONGEST_WAIT,
    OLDEST,
    PROPORTIONAL,
    RESIDENT,
    UNIQUE,
)
from .text import Samples, worker

WORKER = 1  # as if it were the only one of several: the same queries do for both


class Single:
    """One process's."""

    def __init__(self, server: Serving, loop: asyncio.AbstractEventLoop) -> None:
        """
        Listen.

        Raises:
            BindError: the address of --metrics could not be bound.
        """
        self._lone = Lone(server)
        self.memory = self._lone.page
        self.listeners = open_metrics(server.config)
        self._server = server
        self._started_at = time.time()
        self._loop = loop
        self._picture = Picture(
            lambda: server.config, self._lone.statuses.describe, lambda: {0: read_words(self.memory)}
        )
        self._balance = Balance(self._look)
        pages = Pages(
            self._render, self._picture.event, self._picture.stats, lambda: server.config.status_page, self._balance
        )
        app = AppMetrics(loop, lambda text, fault: self._scrapes.on_app_metrics(text, fault))
        self._scrapes = Scrapes(self.listeners, pages, app.ask if server.config.metrics_app == "on" else lambda: False)
        self._statsd = Statsd.of(server.config)
        loop.add_reader(self._scrapes.fileno(), self._scrapes.on_ready)

    def counted(self) -> tuple[dict[str, Any], dict[int, int]]:
        """See Picture.counted."""
        return self._picture.counted()

    def on_second(self) -> None:
        """Called once a second."""
        self._lone.statuses.on_second(self._lone.processes)
        self._picture.on_second()
        self._balance.on_second()
        self._scrapes.on_second()
        if self._statsd is not None:
            self._statsd.send({WORKER: read_words(self.memory)}, workers=1)

    def close(self) -> None:
        """Answer nobody any more."""
        self._loop.remove_reader(self._scrapes.fileno())
        self._scrapes.close(is_end=True)
        if self._statsd is not None:
            self._statsd.send({WORKER: read_words(self.memory)}, workers=0)
            self._statsd.close()

    def _render(self) -> bytes:
        samples = Samples()
        samples.add_process(self._started_at)
        samples.add_listening(self._server.listening())
        samples.add_workers({WORKER: read_words(self.memory)})
        (process,) = self._lone.processes()
        samples.add(OLDEST, process.oldest_seconds(), worker(WORKER))
        samples.add(LONGEST_WAIT, process.page[Field.WAITING_MILLISECONDS] / 1000, worker(WORKER))
        footprint = self._lone.statuses.footprint_of(process.pid)
        assert footprint is not None
        memory, *descriptors = footprint
        sizes = memory or (None, None, None)
        for name, count in zip((DESCRIPTORS, DESCRIPTOR_LIMIT, RESIDENT, PROPORTIONAL, UNIQUE), (*descriptors, *sizes)):
            if count is not None:
                samples.add(name, count, worker(WORKER))
        return samples.encode()

    def _look(self) -> Host:
        now, config = self._server.statistics(), self._server.config
        reading = Reading(now.workers_busy_lately, now.requests_waiting_seconds, 0.0)
        return Host(
            [reading], 1, config.threads, config.healthcheck_max_wait_seconds, now.is_draining, now.told_unready
        )
