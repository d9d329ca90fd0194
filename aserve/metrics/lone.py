"""A server without a supervisor, as others see a worker: a list of one.

Owns:     Lone: its page, written anew whenever it is read; its status.
Thread:   event loop only.
Not here: what a status says (status.py), many processes (processes/status.py), who asks (single.py, ../alone.py).
"""

from __future__ import annotations

import os
import time

from ..core.page import Process, new_page
from ..extension import Serving
from .status import MAX_REQUESTS, Statuses, Whole


class Lone:
    """One process that serves by itself."""

    def __init__(self, server: Serving) -> None:
        self.page = new_page()
        self.statuses = Statuses(lambda: server.config, self._look)
        self._server = server
        self._began_at = time.monotonic()

    def processes(self) -> list[Process]:
        """Return this process, as it is at this moment."""
        server, now = self._server, self._server.statistics()
        now.write_to(self.page)
        return [
            Process(
                slot=0, pid=os.getpid(), generation=1, state="draining" if now.is_draining else "ready", began_at=self._began_at,
                page=self.page, shows_queries=server.config.show_queries, requests=lambda: server.ongoing(MAX_REQUESTS),
                oldest_seconds=self._oldest_seconds,
            )
        ]  # fmt: skip

    def _oldest_seconds(self) -> float:
        oldest = self._server.ongoing(1)
        return oldest[0][0] if oldest else 0.0

    def _look(self) -> tuple[Whole, list[Process]]:
        server, processes = self._server, self.processes()
        text = f"{'draining' if processes[0].state == 'draining' else 'serving'} on {', '.join(server.urls)}"
        return Whole(text, server.listening(), server.slow_requests()), processes
