"""What extensions and the command ask of a server, beside its public methods.

Owns:     Inner, which is the Serving of extensions, and what a fork of the app does to a server.
Thread:   event loop only.
Not here: starting and ending (server.py), the parts that answer (listening.py, app_threads.py, commons.py; extension.py).
"""

from __future__ import annotations

from typing import Any

from ..connections.listen_queue import describe_listening
from ..connections.monitoring.statistics import Statistics
from ..core.errors import Fault
from ..extension import Extensions
from ..settings import EngineSettings, with_reach
from .app_threads import AppThreads
from .commons import Commons
from .listening import Listening


class Inner:
    """The inner side of one Server."""

    def __init__(
        self,
        config: EngineSettings,
        extensions: Extensions,
        threads: AppThreads,
        commons: Commons,
        listening: Listening,
    ) -> None:
        self.config = config
        self._extensions, self._threads, self._commons, self._listening = extensions, threads, commons, listening

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the listeners."""
        return [listener.url for listener in self._listening.listeners]

    @property
    def shown_urls(self) -> list[str]:
        """Return the URLs as the log and a status show them: those that other machines reach say so."""
        return with_reach((listener.url, listener.address) for listener in self._listening.listeners)

    async def stop_accepting(self) -> None:
        """Stop accepting, and let accepted sockets become connections: the first step of `drain`."""
        await self._listening.stop_accepting()

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's new code cannot serve (--reload); see Extension."""
        self._extensions.show_fault(fault)

    def obey(self, order: str) -> None:
        """Pass an order of the supervisor to its extension; see Extension.answers."""
        self._extensions.obey(order)

    def ask(self, name: str) -> Any:
        """Return a fact from the extension that has it, by a name of Extension.answers; None: none has it."""
        return self._extensions.ask(name)

    def listening(self) -> list[dict[str, Any]]:
        """Return for each listener the number of clients that wait in the kernel, and their limit; see describe_listening."""
        return describe_listening(self._listening.listeners)

    def statistics(self) -> Statistics:
        """Return the server's present numbers."""
        return self._listening.statistics(self._threads, self._commons.budgets)

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return the `count` oldest running requests; see take_ongoing. Only if times are taken: --metrics, --control."""
        return self._listening.ongoing(count)

    def has(self, exchange: Any) -> bool:  # an Exchange, of which programs that embed a server need no types
        """Whether an exchange is one of this server's."""
        return exchange.connection.service in self._listening.services

    def thread_seconds(self, now: float) -> float:
        """Return how long threads have been working on the running requests, in seconds; see take_thread_seconds."""
        return self._listening.thread_seconds(now)

    # --- called in a child that the app has forked ---

    def on_forked(self) -> tuple[list[int], list[bytes]]:
        """Drop everything; see forks.ForkAware."""
        self._threads.on_forked()
        return self._listening.fds, self._listening.bound
