"""A server without a supervisor, in the form of a list of one worker.

Owns:     Lone: the process's page, written anew at each read; Serving, the methods of a server for this and for extensions.
Thread:   event loop only.
Not here: the content of a status (status.py), many processes (processes/monitoring/status.py), its users (features/metrics/exporter.py, command/alone.py).
"""

from __future__ import annotations

import os
import time
from typing import Any, Protocol

from ..connections.monitoring.statistics import Statistics
from ..core.exchange import Exchange
from ..core.page import Process, new_page
from ..settings import EngineSettings
from .status import MAX_REQUESTS, Statuses, Whole


class Serving(Protocol):
    """The methods of a server that an extension may call."""

    config: EngineSettings

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the listeners."""

    @property
    def shown_urls(self) -> list[str]:
        """Return the URLs as the log and a status show them; see with_reach."""

    def listening(self) -> list[dict[str, Any]]:
        """Return the number of clients that wait in the kernel; see connections/listen_queue.py."""

    def statistics(self) -> Statistics:
        """Return the server's present numbers."""

    def ask(self, name: str) -> Any:
        """Return a fact from the extension that has it; see Extensions.ask."""

    def thread_seconds(self, now: float) -> float:
        """Return how long threads have been working on the running requests, in seconds."""

    def has(self, exchange: Exchange) -> bool:
        """Whether an exchange is one of this server's: a process may have several servers."""

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return the `count` oldest running requests, the oldest first: seconds so far, and "METHOD target"."""


class Lone:
    """One process without a supervisor; an Observed (status.py) with one process and without BesideWorkers."""

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
        facts = {
            "unready": self.why_unready,
            "slow": server.ask("slow") or [],
            **({"certificates": certificates} if certificates else {}),
        }
        return Whole(text, server.listening(), facts), processes
