"""The listeners of one server, and their connections.

Owns:     Listening: the listeners with their services, acceptors and lane, from the bind to the last connection's end.
Thread:   event loop only.
Not here: the limit of connections (connections/limit.py), one of them (connections/connection.py), making the services
          (commons.py), the steps of a drain (server.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Callable

from ..connections.accepting.acceptor import Acceptor, accept_queued, let_connect, protocol_factory, start_acceptors
from ..connections.drain.detaching import Detached, adopt, detach_idle, detach_waiting, refuse, submit
from ..connections.in_flight import InFlight
from ..connections.lane.availability import is_available
from ..connections.lane.lane import Lane
from ..connections.limit import ConnectionLimit
from ..connections.listeners import Listener, bind_listeners
from ..connections.load_board import LoadBoard
from ..connections.monitoring.statistics import Statistics, take_ongoing, take_statistics, take_thread_seconds
from ..connections.server_budgets import Budgets
from ..connections.service import Service
from ..core.exchange import Exchange
from ..core.forks import local_address
from ..settings import EngineSettings
from ..workers.inline import InlineExecutor
from .app_threads import AppThreads


class Listening:
    """The listeners of one server, and its connections."""

    def __init__(
        self,
        config: EngineSettings,
        shared: Sequence[Listener] | None = None,
        load_board: LoadBoard | None = None,
        in_flight: Any = None,
    ) -> None:
        """`shared`: listeners that are bound already, and must not be closed; None: bind by the settings. The others: see Server."""
        self._config, self._shared = config, shared
        self._load_board, self._memory = load_board, in_flight
        self.listeners: list[Listener] = []
        self.bound: list[bytes] = []  # addresses of listeners, for core/forks.py; also after their end
        self.services: list[Service] = []  # of each listener
        self._pairs: list[tuple[Listener, Service]] = []  # also after the listeners were closed
        self.connections = ConnectionLimit()
        self.lane: Lane | None = None
        self._acceptors: list[Acceptor] = []

    # Beginning

    def bind(self) -> None:
        """
        Bind, without accepting yet.

        Raises:
            BindError: an address could not be bound; then none is.
        """
        self.listeners = bind_listeners(self._config) if self._shared is None else [*self._shared]
        self.bound = [local_address(listener.socket.fileno()) for listener in self.listeners]
        self.services = []  # drop those of an earlier start

    def new_in_flight(self) -> InFlight | None:
        """Make the record of requests on the event loop's wires for other processes; None: none reads it."""
        is_seen = self._load_board is not None or self._memory is not None
        return InFlight(self._load_board, self._memory) if is_seen else None

    def accept(self, services: list[Service], threads: AppThreads) -> None:
        """Begin to accept, for these services, one for each listener."""
        self.services = services
        self.connections.join_board(self._load_board, self._config.threads)
        pairs = self._pairs = list(zip(self.listeners, services))
        in_lane = [pair for pair in pairs if is_available(*pair)]
        if in_lane:
            self.lane = Lane(threads.executor, in_lane, self._load_board, self._memory)
            self.connections.include_lane(self.lane)
            self.lane.start()
        others = [pair for pair in pairs if pair not in in_lane or (pair[1].wrap and not pair[1].shakes_in_lane)]
        self._acceptors = start_acceptors(asyncio.get_running_loop(), self.connections, others)

    # Serving

    @property
    def count(self) -> int:
        """Return the number of open connections."""
        return self.connections.count

    def on_second(self) -> None:
        """Check time-outs of connections, and their limit; called once a second."""
        for connection in list(self.connections):
            connection.on_second()
        if self.lane is not None:
            self.lane.on_second()
        self.connections.on_second()

    def set_unready(self, why: str) -> None:
        """See Server.set_unready."""
        for service in self.services:
            service.why_unready = why

    def detach_idle(self, count: int | None) -> list[Detached]:
        """See Server.detach_idle."""
        return detach_idle(self.lane, list(self.connections), self.services, count)

    def detach_waiting(self, threads: AppThreads, count: int | None, before: Callable[[bytes], None]) -> list[Detached]:
        """See Server.detach_waiting."""
        executor = threads.executor
        return [] if isinstance(executor, InlineExecutor) else detach_waiting(executor, self.services, count, before)

    async def adopt(
        self, detached: Detached, is_own: bool = False, when_taken: Callable[[], None] = lambda: None
    ) -> bool:
        """See Server.adopt."""

        def begin(exchange: Exchange) -> None:
            when_taken()
            submit(exchange, is_own)

        has_room = is_own or not (self._leaves_to_others(detached) or self.connections.is_full())
        if has_room and detached.request is None:
            when_taken()  # before it begins: from then on it may be given away again
        return has_room and await adopt(detached, self._pairs, self.connections, begin)

    def _leaves_to_others(self, detached: Detached) -> bool:
        """Whether this server drains; at the end of all servers a request is served even so, as it was accepted before."""
        is_last = detached.request is not None and not any(service.is_replaced for service in self.services)
        return self.is_draining and not is_last

    async def refuse(self, detached: Detached, when_taken: Callable[[], None]) -> bool:
        """See Server.refuse."""

        def begin(exchange: Exchange) -> None:
            when_taken()
            refuse(exchange)

        return detached.request is not None and await adopt(detached, self._pairs, self.connections, begin)

    def end_adopting(self) -> None:
        """Adopt no connection any more, with or without a request: the drain is over."""
        self._pairs = []

    def statistics(self, threads: AppThreads, budgets: Budgets) -> Statistics:
        """See Server.statistics."""
        limit = self.connections.max_count if threads.failing is not None else 0  # 0: before the start
        numbers = budgets, threads.busy.mean, limit
        return take_statistics(list(self.connections), self.lane, self.services, threads.executor, *numbers)

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """See Server.ongoing."""
        return take_ongoing(list(self.connections), self.lane, count)

    def thread_seconds(self, now: float) -> float:
        """See Server.thread_seconds."""
        return take_thread_seconds(list(self.connections), self.lane, now)

    # Ending

    @property
    def is_draining(self) -> bool:
        """Whether `begin_draining` was called."""
        return any(service.is_draining or service.is_replaced for service in self.services)

    def begin_draining(self, is_replaced: bool) -> None:
        """Let pings and health checks report it, and every response say that its connection closes; still accept."""
        for service in self.services:
            service.is_draining, service.is_replaced = not is_replaced, is_replaced

    def end_leave(self) -> None:
        """Let connections close that were kept so that other processes could adopt them."""
        for service in self.services:
            service.is_draining = True

    async def stop_accepting(self) -> None:
        """Stop accepting, and let accepted sockets become connections."""
        self.connections.leave_board()
        if self.lane is not None:
            self.lane.stop_accepting()
        while self._acceptors:
            self._acceptors.pop().stop()
        await let_connect()

    async def accept_queued(self) -> None:
        """Shut the listeners down, and accept the clients queued before."""
        listeners, self.listeners = self.listeners, []
        for listener, service in zip(listeners, self.services):
            await accept_queued(service.loop, listener, protocol_factory(service, listener.bind))

    def close_listeners(self) -> None:
        """Close the listeners, unless they are shared."""
        if self._shared is None:
            for listener in self.listeners:
                listener.close()
        self.listeners = []

    def drain(self) -> None:
        """Close idle connections, and let every other one close after its response."""
        for service in self.services:
            service.websockets.is_ending = True
        for connection in list(self.connections):
            connection.drain()
        self._drain_lane()

    def is_drained(self) -> bool:
        """Whether no connection is left, nor one that is being adopted; call it until it returns True."""
        self.connections.leave_board()
        self._drain_lane()
        return self.count == 0 and not self.connections.pending

    def _drain_lane(self) -> None:
        if self.lane is not None:
            self.lane.drain()

    def abort(self) -> None:
        """Cut off the connections on the event loop."""
        for connection in list(self.connections):
            connection.abort()

    async def end(self, threads: AppThreads) -> None:
        """Close the lane, with all remaining connections; log those that have not ended."""
        lane = self.lane
        if lane is not None:
            while threads.executor.is_leader_waiting:  # a leader that waits on closed descriptors would never end
                lane.wake()
                await asyncio.sleep(0.001)
            lane.close()
            self.services[0].request_count += lane.request_count  # requests that the lane has served
            self.lane = None
            self.connections.include_lane(None)
            self.abort()  # connections that have left the lane after the others were closed
        self.connections.leave_board()
        for service in self.services:
            service.log_cut()

    # --- called in a child that the app has forked ---

    @property
    def fds(self) -> list[int]:
        """Return the lane's descriptors; see forks.ForkAware."""
        return self.lane.fds if self.lane is not None else []
