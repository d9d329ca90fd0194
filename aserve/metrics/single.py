"""The metrics of a process that serves by itself, and answers by itself.

Owns:     Single: the words that its Counters write, its listeners, and its text.
Thread:   event loop only.
Not here: many processes (processes/overview.py).
"""

from __future__ import annotations

import asyncio
import mmap
import time

from ..settings import Config
from .app import AppMetrics
from .counting import read_words
from .scrapes import Scrapes, open_metrics
from .table import PAGE_WORDS
from .text import Samples

WORKER = 1  # as if it were the only one of several: the same queries do for both


class Single:
    """One process's."""

    def __init__(self, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        """
        Listen.

        Raises:
            BindError: the address of --metrics could not be bound.
        """
        self.memory = mmap.mmap(-1, PAGE_WORDS * 8)
        self.listeners = open_metrics(config)
        self._started_at = time.time()
        self._loop = loop
        app = AppMetrics(loop, lambda text, fault: self._scrapes.on_app_metrics(text, fault))
        self._scrapes = Scrapes(self.listeners, self._render, app.ask if config.metrics_app == "on" else lambda: False)
        self.on_second = self._scrapes.on_second
        loop.add_reader(self._scrapes.fileno(), self._scrapes.on_ready)

    def close(self) -> None:
        """Answer nobody any more."""
        self._loop.remove_reader(self._scrapes.fileno())
        self._scrapes.close(is_end=True)

    def _render(self) -> bytes:
        samples = Samples()
        samples.add_process(self._started_at)
        samples.add_workers({WORKER: read_words(self.memory)})
        return samples.encode()
