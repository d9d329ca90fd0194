"""The metrics of a process without a supervisor, which answers itself.

Owns:     Single: an Exporter on an event loop.
Thread:   event loop only.
Not here: the metrics (exporter.py), many processes (several.py).
"""

from __future__ import annotations

import asyncio

from ...lifecycle.lone import Lone, Serving
from .app import AppMetrics
from .exporter import Exporter
from .scrapes import open_metrics
from .settings import settings_of


class Single:
    """The metrics of one process."""

    def __init__(self, server: Serving, loop: asyncio.AbstractEventLoop) -> None:
        """
        Listen.

        Raises:
            BindError: the address of --metrics could not be bound.
        """
        self.listeners = open_metrics(config := settings_of(server.config))
        self._lone, self._loop = Lone(server), loop
        self.memory = self._lone.page
        app = AppMetrics(loop, lambda text, fault: self.exporter.on_app_metrics(text, fault))
        ask_app = app.ask if config.metrics_app == "on" else lambda: False
        self.exporter = Exporter(self._lone, self.listeners, ask_app)
        self.counted = self.exporter.counted
        if self.exporter.scrapes is not None:
            loop.add_reader(self.exporter.scrapes.fileno(), self.exporter.scrapes.on_ready)

    def on_second(self) -> None:
        """Update the statuses and the exporter once a second."""
        self._lone.statuses.on_second(self._lone.processes)
        self.exporter.on_second()

    def close(self) -> None:
        """Stop answering."""
        if self.exporter.scrapes is not None:
            self._loop.remove_reader(self.exporter.scrapes.fileno())
        self.exporter.close(is_end=True)
