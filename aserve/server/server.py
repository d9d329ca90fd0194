"""Serve one app on one event loop: start, drain, stop.

Owns:     Server (the embedding API): the order in which its parts begin and end, and the one timer that ticks for them all.
Thread:   event loop only.
Not here: the parts: listeners and connections (listening.py), the threads (app_threads.py), what listeners have in common (commons.py),
          extensions (extension.py); settings (settings/table.py), the loop and signals (running.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from ..connections.detaching import Detached
from ..connections.listen_queue import describe_listening
from ..connections.listeners import Address, Listener
from ..connections.load_board import LoadBoard
from ..connections.statistics import Statistics
from ..core import error_log, forks
from ..core.errors import Fault
from ..extension import Say, ServerContext
from ..features import Config, extensions_of
from ..lifecycle.loading import check_unpatched
from ..settings import EngineSettings
from ..wsgi import WSGIApp
from .app_threads import AppThreads
from .commons import Commons
from .listening import Listening
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
    `counters`, features.metrics.table.PAGE_WORDS words for others to read, it does not answer at the address of `metrics` itself;
    `say` brings what extensions say to the supervisor.

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
        say: Say | None = None,
        **settings: Any,
    ) -> None:
        if config is not None and settings:
            raise TypeError("give either a Config or settings, not both")
        self.config: EngineSettings = config if config is not None else Config(**settings)
        self._extensions = extensions_of(self.config)
        self._app = self._extensions.wrap_app(app)
        self._is_alone, self._slot, self._counters = is_alone or listeners is None, slot, counters
        self._say = say
        self._threads = AppThreads(self.config)
        self._commons = Commons(self.config, self._extensions)
        self._listening = Listening(self.config, listeners, load_board, in_flight)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> list[Address]:
        """Where it listens: (host, port) each, or the path of a unix socket."""
        return [listener.address for listener in self._listening.listeners]

    @property
    def urls(self) -> list[str]:
        """Where it listens, as a person would type it."""
        return [listener.url for listener in self._listening.listeners]

    @property
    def failure(self) -> str:
        """Why this process should be replaced, workers being stuck beyond --max-stuck; empty when all is well."""
        failing = self._threads.failing
        return failing.why if failing is not None else ""

    async def wait_failing(self) -> str:
        """
        Wait until there is a `failure`, and return it. The server goes on serving: draining is the caller's.

        Raises:
            RuntimeError: it has not been started.
        """
        failing = self._threads.failing
        if failing is None:
            raise RuntimeError("the server has not been started: call wait_failing() after start()")
        return await failing.wait()

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
        listening, threads, commons, config = self._listening, self._threads, self._commons, self.config
        listening.connections.find_limit(config.max_connections, config.threads, config.spool_files)
        commons.load()
        listening.bind()
        forks.watch(self)
        try:
            threads.start(loop)
            self._extensions.start(self._context())
            services = commons.new_services(
                self._app, listening, threads, times_requests=self._shows_oldest, is_alone=self._is_alone
            )
            listening.accept(services, threads)
        except BaseException:
            with shielded():
                await listening.stop_accepting()
                listening.close_listeners()
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
        if self._threads.failing is None:
            return True
        listening = self._listening
        listening.begin_draining(is_replaced)  # first: a ping from now on is told
        if self.config.drain_delay_seconds and listening.listeners and not is_replaced:
            await asyncio.sleep(self.config.drain_delay_seconds)
        await listening.stop_accepting()
        if is_replaced:
            await self._wait_until_left()
        else:
            await listening.accept_queued()
        listening.close_listeners()
        listening.drain()  # now: nobody whose connection idles, and closes, can connect anew
        deadline = self._loop.time() + self.config.drain_seconds
        # Polled: an event would add a step to the close of every connection.
        while not (listening.is_drained() and self._threads.executor.is_idle) and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        if unfinished := self.connection_count:
            logger.warning("%d connections unfinished after --drain-timeout; aborting them", unfinished)
        listening.abort()
        await asyncio.sleep(0)
        return await self._stop(deadline) and not unfinished

    async def _wait_until_left(self) -> None:
        """Serve on for a while, until every connection has been detached; those that are left are told that they close."""
        deadline = self._loop.time() + LEAVING_SECONDS
        while self.connection_count and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        self._listening.end_leave()

    async def stop_accepting(self) -> None:
        """Accept no more, and let what was accepted become connections: the first step of `drain`."""
        await self._listening.stop_accepting()

    def detach_idle(self, count: int | None = None) -> list[Detached]:
        """
        Let go of connections that wait for a request, `count` at most; another server may go on with them.

        Their descriptors are the caller's. Those in TLS stay, and those that are busy: what `drain` closes after their
        response. To be called on the event loop's thread.
        """
        return self._listening.detach_idle(count)

    async def adopt(self, detached: Detached) -> bool:
        """
        Go on with a connection that another server with the same listeners has let go of; its client notices nothing.

        Returns whether it is ours now, the descriptor included. Otherwise it is the caller's, as before: this server
        does not serve, or has no room, or listens for something else at this index.
        """
        return await self._listening.adopt(detached)

    def reload_certificates(self) -> bool:
        """Load the certificates of https binds anew, for connections from now on; False, and a line in the log: all stays as it is."""
        return self._commons.certificates.reload()

    def set_unready(self, why: str) -> None:
        """
        Let `ready` (--healthcheck-path) and pings answer `why` from now on; "": by what is known here, as before.

        Requests are served all the same. To be called after `start`, on the event loop's thread.
        """
        self._listening.set_unready(why)

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's code as it is now cannot serve, if something is there for that (--reload); see Extension."""
        self._extensions.show_fault(fault)

    def reopen_logs(self) -> None:
        """Go on with the access log in the file that has its name now: the one of before was moved away."""
        self._commons.flush()
        self._extensions.reopen_logs()

    def obey(self, order: str) -> None:
        """Let an extension do what the supervisor says; see Extension.orders."""
        self._extensions.obey(order)

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
        return describe_listening(self._listening.listeners)

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return self._listening.count

    @property
    def is_draining(self) -> bool:
        """Whether `drain` has begun."""
        return self._listening.is_draining

    def statistics(self) -> Statistics:
        """Return what it is doing at this moment. To be called on the event loop's thread; it costs a step for each connection."""
        return self._listening.statistics(self._threads, self._commons.budgets.response_memory_bytes)

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return so many of the oldest requests that it is at; see take_ongoing. Only if times are taken: --metrics, --control."""
        return self._listening.ongoing(count)

    def thread_seconds(self, now: float) -> float:
        """Return for how long threads have been with the requests that have not ended; see take_thread_seconds."""
        return self._listening.thread_seconds(now)

    @property
    def _shows_oldest(self) -> bool:
        """Whether the times of requests are noted, as `aserve status` has the oldest; with workers, their supervisor knows."""
        return self.config.control is not None and self._slot is None

    def _context(self) -> ServerContext:
        threads, bound = self._threads, self._listening.bound
        return ServerContext(
            self, self._loop, self._slot, threads.busy, self._counters, bound, self._extensions.ask, self._say
        )

    async def _stop(self, deadline: float) -> bool:
        """End all that `start` has begun; return whether every thread has come back by the deadline (loop time)."""
        is_clean = await self._threads.stop(self._loop, deadline)
        await self._listening.end(self._threads)
        if self._timer is not None:
            self._timer.cancel()
        self._commons.flush()
        self._extensions.stop()
        forks.unwatch(self)
        return is_clean

    def _tick(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)  # first: a fault below must not end it
        self.on_second()

    def on_second(self) -> None:
        """Called once a second: time-outs, the Date field and what extensions do; one timer for all."""
        self._commons.on_second()
        self._listening.on_second()
        self._threads.on_second()
        error_log.on_second()
        self._commons.flush()
        self._threads.look(self._commons.thread_seconds(lambda: self.thread_seconds(time.monotonic())))
        self._extensions.on_second()

    # --- called in a child that the app has forked ---

    def on_forked(self) -> tuple[list[int], list[bytes]]:
        """Give up; see forks.Watched."""
        self._threads.on_forked()
        return self._listening.fds, self._listening.bound
