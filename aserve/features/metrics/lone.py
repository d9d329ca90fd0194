"""A server without a supervisor, in the form of a list of one worker.

Owns:     Lone: the process's page, written anew at each read.
Thread:   event loop only.
Not here: the content of a status (lifecycle/status.py), many processes (processes/monitoring/status.py), its users (exporter.py, command/alone.py).
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
    """One process without a supervisor; an Observed (lifecycle/status.py) with one process and without BesideWorkers."""

    process_count = ready_count = 1
    fleet = None

    def __init__(self, server: Serving) -> None:
        self.page = new_page()
        self.statuses = Statuses(lambda: server.config, self._look)
        self._server = server
        self._began_at = time.monotonic()
        self._now = server.statistics()  # at the last call of `processes`

    @property
    def config(self) -> EngineSettings:
        """Return the server's settings."""
        return self._server.config

    @property
    def is_draining(self) -> bool:
        """Whether the server was about to end when `processes` was called last."""
        return self._now.is_draining

    @property
    def why_unready(self) -> str:
        """Return the reason that the program had set by then; "": none."""
        return self._now.told_unready

    @property
    def listening(self) -> list[dict[str, Any]]:
        """Return how many clients wait in the kernel; see describe_listening."""
        return self._server.listening()

    def pages(self) -> list[tuple[int, Any]]:
        """Return the process's page, with slot 0."""
        return [(0, self.page)]

    def processes(self) -> list[Process]:
        """Return this process, with its present numbers."""
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
        text = f"{'draining' if processes[0].state == 'draining' else 'serving'} on {', '.join(server.shown_urls)}"
        certificates = server.ask("certificates")
        facts = {"slow": server.ask("slow") or [], **({"certificates": certificates} if certificates else {})}
        return Whole(text, server.listening(), facts), processes
