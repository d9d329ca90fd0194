"""A server without a supervisor, as others see a worker: a list of one.

Owns:     Lone: its page, written anew whenever it is read.
Thread:   event loop only.
Not here: what a status says (lifecycle/status.py), many processes (processes/status.py), who asks (exporter.py, command/alone.py).
"""

from __future__ import annotations

import os
import time
from typing import Any

from ...core.page import Process, new_page
from ...extension import Serving
from ...lifecycle.status import MAX_REQUESTS, Statuses, Whole
from ...settings import EngineSettings


class Lone:
    """One process that serves by itself; an Observed (exporter.py) with one process and without a Fleet."""

    process_count = ready_count = 1
    fleet = None

    def __init__(self, server: Serving) -> None:
        self.page = new_page()
        self.statuses = Statuses(lambda: server.config, self._look)
        self._server = server
        self._began_at = time.monotonic()
        self._now = server.statistics()  # of the last look

    @property
    def config(self) -> EngineSettings:
        """The server's settings."""
        return self._server.config

    @property
    def is_draining(self) -> bool:
        """Whether the server was about to end when `processes` was called last."""
        return self._now.is_draining

    @property
    def why_unready(self) -> str:
        """What the server had been told by then; "": nothing."""
        return self._now.told_unready

    @property
    def listening(self) -> list[dict[str, Any]]:
        """How many clients wait in the kernel; see describe_listening."""
        return self._server.listening()

    def pages(self) -> list[tuple[int, Any]]:
        """Return its page, with slot 0."""
        return [(0, self.page)]

    def silent_seconds(self, process: Process) -> float:
        """Return for how long its event loop has not turned: it turns, or nothing would be asked."""
        return 0.0

    def processes(self) -> list[Process]:
        """Return this process, as it is at this moment."""
        server, now = self._server, self._server.statistics()
        self._now = now
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
