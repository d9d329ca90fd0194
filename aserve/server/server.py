"""Serve one app on one event loop: start, drain, stop.

Owns:     Server (the embedding API): a loop's listeners, executor, connections and the one timer that ticks for them all.
Thread:   event loop only.
Not here: one connection (connections/connection.py), what a listener's connections share (services.py), settings (settings/table.py), the loop and signals (running.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from ..connections.acceptor import Acceptor, accept_queued, let_connect, protocol_factory, start_acceptors
from ..connections.departed import Departed
from ..connections.detaching import Detached, adopt, detach_idle
from ..connections.in_flight import InFlight
from ..connections.lane import Lane, is_available
from ..connections.limit import ConnectionLimit
from ..connections.listen_queue import describe_listening
from ..connections.listeners import Address, Listener, bind_listeners
from ..connections.load_board import LoadBoard
from ..connections.server_budgets import Budgets
from ..connections.service import Service, ServiceContext
from ..connections.stacks import ORDER, describe_stacks
from ..connections.stalls import StallWatch
from ..connections.statistics import Statistics, take_ongoing, take_statistics, take_thread_seconds
from ..connections.websockets import WebSockets
from ..core import error_log, forks
from ..core.ends import Ends
from ..core.errors import Fault
from ..extension import ServerContext
from ..features import Config, extensions_of
from ..lifecycle.failing import Failing
from ..lifecycle.loading import check_unpatched
from ..proxies.peers import Peers
from ..proxies.trust import peers_of
from ..settings import EngineSettings
from ..tls.certificates import Certificates, load_certificates
from ..workers.busy import Busy
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from ..workers.stopping import stop_workers
from ..wsgi import WSGIApp
from ..wsgi.deadlines import Deadlines
from ..wsgi.response import CommonFields
from .services import Shared, new_service
from .shielding import shielded

logger = logging.getLogger("aserve")

# For kept connections of a server that is replaced to be detached, before they are to close. Guess.
LEAVING_SECONDS = 2.0


class Server:
    """
    A WSGI app served inside a running asyncio program.

        async with aserve.Server(app, bind="127.0.0.1:0") as server:
            print(server.addresses)

    Keyword arguments are the settings of Config. Leaving the block drains: what runs is finished. No signal handlers,
    no global state; several servers may share a loop.

    `listeners` are bound already and shared with other processes, in place of `bind`: they are neither closed nor
    removed here, but at an end that is everybody's (`drain`). With `is_alone` there are no other processes, and the app
    is told so. `load_board` decides which of the processes accepts; `in_flight`, memory of
    connections.in_flight.TABLE_BYTES, shows others what this one is at; `slot` is its number among them. With
    `counters`, features.metrics.table.PAGE_WORDS words for others to read, it does not answer at the address of `metrics` itself.

    Raises (on entering):
        BindError: an address could not be bound, or the access log not opened.
        ConfigError: a certificate, or what belongs to it, cannot be used.
        PatchedError: gevent or eventlet have replaced threads and sockets in this process.
    """

    def __init__(
        self,
        app: WSGIApp,
        config: EngineSettings | None = None,
        *,
        listeners: Sequence[Listener] | None = None,
        is_alone: bool = False,
        load_board: LoadBoard | None = None,
        in_flight: Any = None,
        slot: int | None = None,
        counters: Any = None,
        **settings: Any,
    ) -> None:
        if config is not None and settings:
            raise TypeError("give either a Config or settings, not both")
        self.config: EngineSettings = config if config is not None else Config(**settings)
        self._extensions = extensions_of(self.config)
        self._app = self._extensions.wrap_app(app)
        self._shared_listeners, self._is_alone = listeners, is_alone or listeners is None
        self._load_board, self._in_flight, self._slot, self._counters = load_board, in_flight, slot, counters
        self._listeners: list[Listener] = []
        self._bound: list[bytes] = []  # their addresses, for core/forks.py; also after their end
        self._acceptors: list[Acceptor] = []
        self._lane: Lane | None = None
        self._connections = ConnectionLimit()
        self._services: list[Service] = []
        self._common_fields = CommonFields(self.config.server_name, self.config.proxy_status, self._extensions.fields)
        self._ends: Ends | None = None  # from start on; None, too: nothing reads them
        self._certificates = Certificates(())
        self._peers: Peers | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadlines: Deadlines | None = None  # with --request-timeout
        self._departed: Departed | None = None  # with threads
        self._failing: Failing | None = None  # before the first start
        self._executor: Executor | InlineExecutor = InlineExecutor()
        self._budgets = Budgets(self.config)
        self._busy, self._stalls = Busy(1), StallWatch()

    @property
    def addresses(self) -> list[Address]:
        """Where it listens: (host, port) each, or the path of a unix socket."""
        return [listener.address for listener in self._listeners]

    @property
    def urls(self) -> list[str]:
        """Where it listens, as a person would type it."""
        return [listener.url for listener in self._listeners]

    @property
    def failure(self) -> str:
        """Why this process should be replaced, workers being stuck beyond --max-stuck; empty when all is well."""
        return self._failing.why if self._failing is not None else ""

    async def wait_failing(self) -> str:
        """
        Wait until there is a `failure`, and return it. The server goes on serving: draining is the caller's.

        Raises:
            RuntimeError: it has not been started.
        """
        if self._failing is None:
            raise RuntimeError("the server has not been started: call wait_failing() after start()")
        return await self._failing.wait()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with shielded():
            await self.drain()

    async def start(self) -> None:
        """
        Bind and accept.

        Raises:
            BindError, ConfigError, PatchedError: see Server.
        """
        check_unpatched()
        loop = self._loop = asyncio.get_running_loop()
        failing = self._failing = Failing()
        config = self.config
        self._peers = peers_of(config)
        self._connections.find_limit(config.max_connections, config.threads, config.spool_files)
        self._budgets = Budgets(config)  # of what is free now
        self._certificates = load_certificates(config)
        self._certificates.log_warnings()
        self._common_fields.refresh()
        self._listeners = bind_listeners(config) if self._shared_listeners is None else [*self._shared_listeners]
        self._bound = [forks.local_address(listener.socket.fileno()) for listener in self._listeners]
        forks.watch(self)
        self._services, self._ends = [], None  # those of an earlier start are over
        try:
            self._busy, self._stalls = Busy(config.threads or 1), StallWatch()  # --threads 0: the event loop's own
            self._extensions.start(self._context())
            if config.threads:
                # One thread is a promise (PEP 3333 wsgi.multithread): no other ever runs the app.
                self._executor = Executor(loop, config.threads, config.extra_threads if config.threads > 1 else 0)
                self._departed = Departed(self._executor, config.keep_half_closed)
            if config.request_seconds:  # then there are threads: settings/table.py
                self._deadlines = Deadlines(config.request_seconds, self._executor, config.max_stuck, failing.begin)  # type: ignore[arg-type]
            self._ends = self._extensions.new_ends(self._executor)
            shared = self._shared()
            self._services = [new_service(listener, shared) for listener in self._listeners]
            self._accept()
        except BaseException:
            with shielded():
                await self.stop_accepting()
                self._close_listeners()
                await self._stop(loop.time())
            raise
        self._timer = loop.call_later(1.0, self._tick)

    async def drain(self, is_replaced: bool = False) -> bool:
        """
        Stop accepting, finish what runs, close; at most `drain_seconds` after `drain_delay_seconds`.

        What the kernel has queued on the listeners is served, and they end, for whoever shares them.
        With `is_replaced` other processes go on to serve them: they stay, with what is queued, and there is no delay. For two
        seconds kept connections go on as before, and `detach_idle` may take them; then they have two more for a last request.

        Returns whether everything was finished; True if it has not been started.
        """
        if self._failing is None:
            return True
        for service in self._services:
            service.is_draining, service.is_replaced = not is_replaced, is_replaced  # first: a ping from now on is told
        if self.config.drain_delay_seconds and self._listeners and not is_replaced:
            await asyncio.sleep(self.config.drain_delay_seconds)
        await self.stop_accepting()
        if is_replaced:
            await self._wait_until_left()
        else:
            await self._accept_queued()
        self._close_listeners()
        self._drain_connections()  # now: nobody whose connection idles, and closes, can connect anew
        deadline = self._loop.time() + self.config.drain_seconds
        # Polled: an event would add a step to the close of every connection.
        while self._is_busy() and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        if unfinished := self.connection_count:
            logger.warning("%d connections unfinished after --drain-timeout; aborting them", unfinished)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)
        return await self._stop(deadline) and not unfinished

    async def stop_accepting(self) -> None:
        """Accept no more, and let what was accepted become connections: the first step of `drain`."""
        self._connections.leave_board()
        if self._lane is not None:
            self._lane.stop_accepting()
        while self._acceptors:
            self._acceptors.pop().stop()
        await let_connect()

    def detach_idle(self, count: int | None = None) -> list[Detached]:
        """
        Let go of connections that wait for a request, `count` at most; another server may go on with them.

        Their descriptors are the caller's. Those in TLS stay, and those that are busy: what `drain` closes after their
        response. To be called on the event loop's thread.
        """
        return detach_idle(self._lane, list(self._connections), self._services, count)

    async def adopt(self, detached: Detached) -> bool:
        """
        Go on with a connection that another server with the same listeners has let go of; its client notices nothing.

        Returns whether it is ours now, the descriptor included. Otherwise it is the caller's, as before: this server
        does not serve, or has no room, or listens for something else at this index.
        """
        pairs = list(zip(self._listeners, self._services))
        return not self.is_draining and await adopt(detached, pairs, self._connections)

    async def _wait_until_left(self) -> None:
        """Serve on for a while, until every connection has been detached; those that are left are told that they close."""
        deadline = self._loop.time() + LEAVING_SECONDS
        while self.connection_count and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for service in self._services:
            service.is_draining = True

    def reload_certificates(self) -> bool:
        """Load the certificates of https binds anew, for connections from now on; False, and a line in the log: all stays as it is."""
        return self._certificates.reload()

    def set_unready(self, why: str) -> None:
        """
        Let `ready` (--healthcheck-path) and pings answer `why` from now on; "": by what is known here, as before.

        Requests are served all the same. To be called after `start`, on the event loop's thread.
        """
        for service in self._services:
            service.why_unready = why

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's code as it is now cannot serve, if something is there for that (--reload); see Extension."""
        self._extensions.show_fault(fault)

    def reopen_logs(self) -> None:
        """Go on with the access log in the file that has its name now: the one of before was moved away."""
        if self._ends is not None:
            self._ends.flush()
        self._extensions.reopen_logs()

    def slow_requests(self) -> list[dict[str, Any]]:
        """Return the last requests that took longer than --slow-request; see SlowRequests.last."""
        found: list[dict[str, Any]] = self._extensions.ask("slow") or []
        return found

    def counted(self) -> tuple[dict[str, Any], dict[int, int]]:
        """Return what is counted, as warnings need it; see Picture.counted. Nothing: there is no --metrics."""
        found: tuple[dict[str, Any], dict[int, int]] = self._extensions.ask("counted") or ({}, {})
        return found

    def listening(self) -> list[dict[str, Any]]:
        """Return for each listener how many clients wait in the kernel, and their limit; see describe_listening."""
        return describe_listening(self._listeners)

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return self._connections.count

    @property
    def is_draining(self) -> bool:
        """Whether `drain` has begun."""
        return any(service.is_draining or service.is_replaced for service in self._services)

    def statistics(self) -> Statistics:
        """Return what it is doing at this moment. To be called on the event loop's thread; it costs a step for each connection."""
        limit = self._connections.max_count if self._failing is not None else 0  # 0: before the start
        numbers = self._budgets.response_memory_bytes, self._busy.mean, limit
        return take_statistics(list(self._connections), self._lane, self._services, self._executor, *numbers)

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return so many of the oldest requests that it is at; see take_ongoing. Only if times are taken: --metrics, --control."""
        return take_ongoing(list(self._connections), self._lane, count)

    def thread_seconds(self, now: float) -> float:
        """Return for how long threads have been with the requests that have not ended; see take_thread_seconds."""
        return take_thread_seconds(list(self._connections), self._lane, now)

    def _drain_connections(self) -> None:
        """Close what idles, and let every other connection close after its response."""
        for service in self._services:
            service.websockets.is_ending = True
        for connection in list(self._connections):
            connection.drain()
        self._drain_lane()

    def _drain_lane(self) -> None:
        if self._lane is not None:
            self._lane.drain()

    def _is_busy(self) -> bool:
        """Whether there is anything to wait for at the end."""
        self._connections.leave_board()
        self._drain_lane()
        return self.connection_count > 0 or not self._executor.is_idle

    # --- called in a child that the app has forked ---

    def on_forked(self) -> tuple[list[int], list[bytes]]:
        """Give up; see forks.Watched."""
        self._executor.on_forked()
        if self._deadlines is not None:
            self._deadlines.on_forked()
        return self._lane.fds if self._lane is not None else [], self._bound

    async def _stop(self, deadline: float) -> bool:
        hung = await stop_workers(self._executor, self._loop, deadline)
        if hung:
            told = ", ".join(hung), ORDER, describe_stacks(hung).rstrip()
            logger.warning("left behind, still inside the app: %s; they are at (%s):\n%s", *told)
        if self._lane is not None:
            while self._executor.is_leader_waiting:  # nobody may wait on what is closed: it would never end
                self._lane.wake()
                await asyncio.sleep(0.001)
            self._lane.close()
            self._services[0].request_count += self._lane.request_count  # they were served all the same
            self._lane = None
            self._connections.include_lane(None)
            for connection in list(self._connections):
                connection.abort()  # has left the lane since the others were told
        self._connections.leave_board()
        if self._timer is not None:
            self._timer.cancel()
        for service in self._services:
            service.log_cut()
        if self._ends is not None:
            self._ends.flush()
        self._extensions.stop()
        forks.unwatch(self)
        return not hung

    def _context(self) -> ServerContext:
        return ServerContext(
            self, self._loop, self._slot, self._busy, self._counters, self._bound, self._extensions.ask
        )

    @property
    def _times_requests(self) -> bool:
        """Whether the times of requests are noted: `aserve status` has the oldest."""
        return self._extensions.wants_times or (self.config.control is not None and self._slot is None)

    def _shared(self) -> Shared:
        extensions, deadlines = self._extensions, self._deadlines
        is_seen = self._load_board is not None or self._in_flight is not None
        context = ServiceContext(
            self.config, self._loop, self._executor, self._common_fields, self._connections, self._budgets,
            WebSockets(self.config, self._loop, deadlines, extensions.upgraded), self._ends, self._peers,
            InFlight(self._load_board, self._in_flight) if is_seen else None, self._times_requests, extensions.sees_responses, deadlines,
        )  # fmt: skip
        app = deadlines.timed(self._app) if deadlines is not None else self._app
        return Shared(context, app, self._certificates, not self._is_alone, extensions.wants_ids, extensions)

    def _accept(self) -> None:
        self._connections.join_board(self._load_board, self.config.threads)
        pairs = list(zip(self._listeners, self._services))
        in_lane = [pair for pair in pairs if is_available(*pair)]
        if in_lane:
            self._lane = Lane(self._executor, in_lane, self._load_board, self._in_flight)
            self._connections.include_lane(self._lane)
            self._lane.start()
        others = [pair for pair in pairs if pair not in in_lane]
        self._acceptors = start_acceptors(self._loop, self._connections, others)

    async def _accept_queued(self) -> None:
        """End the listeners, and accept what was queued before."""
        listeners, self._listeners = self._listeners, []
        for listener, service in zip(listeners, self._services):
            await accept_queued(self._loop, listener, protocol_factory(service, listener.bind))

    def _close_listeners(self) -> None:
        if self._shared_listeners is None:
            for listener in self._listeners:
                listener.close()
        self._listeners = []

    def _tick(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)  # first: a fault below must not end it
        self.on_second()

    def on_second(self) -> None:
        """Called once a second: time-outs, the Date field and what extensions do; one timer for all."""
        self._common_fields.refresh()
        for connection in list(self._connections):
            connection.on_second()
        self._executor.on_second()
        if self._departed is not None:
            self._departed.on_second()
        self._certificates.on_second()
        if self._lane is not None:
            self._lane.on_second()
        self._connections.on_second()
        self._budgets.on_second()
        if self._deadlines is not None:
            self._deadlines.on_second()
        error_log.on_second()
        if self._ends is not None:
            self._ends.flush()
        self._look_at_threads()
        self._stalls.on_second(self._executor)
        self._extensions.on_second()

    def _look_at_threads(self) -> None:
        now, workers, counted = time.monotonic(), self._executor.workers, None
        if self._ends is not None and self._ends.thread_seconds is not None:
            under_way = self.thread_seconds(now)
            counted = self._ends.thread_seconds + under_way  # in this order: none that ends now is missing
        self._busy.look(now, max(workers.at_work - workers.idle, 0), workers.compensated, counted)
