"""Serves one app on one event loop: start, drain, stop.

Owns:     Server (the embedding API): the order of start and end of its parts, and their one timer.
Thread:   event loop only.
Not here: what extensions and the command ask (inner.py); the parts: listeners and connections (listening.py), the threads (app_threads.py), objects shared by listeners (commons.py),
          extensions (extension.py); settings (settings/table.py), the loop and signals (running.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Callable

from ..connections.drain.detaching import Detached
from ..connections.drain.unstarted_requests import refuse_unbegun
from ..connections.monitoring.statistics import Statistics
from ..core import error_log, forks
from ..extension import REOPEN_LOGS, ServerContext
from ..features import Config, extensions_of
from ..lifecycle.loading import check_unpatched
from ..settings import EngineSettings
from ..wsgi import WSGIApp
from .app_threads import AppThreads
from .arguments import Processes, check_arguments, config_of
from .commons import Commons
from .inner import Inner
from .listening import Listening
from .shielding import to_the_end

logger = logging.getLogger("aserve")

# How long kept connections of a replaced server may be detached, before they close. Guess.
LEAVING_SECONDS = 2.0


class Server:
    """
    A WSGI app served inside a running asyncio program.

        async with aserve.Server(app, bind="127.0.0.1:0") as server:
            print(server.addresses)

    Bind and threads may be given by position; other settings have the keywords that `aserve docs settings` lists, and a Config in place of `bind` has
    them all. Leaving the block drains: running requests are finished. No signal handlers, no global state; several servers may share a loop.

    A program calls: start, drain, statistics, wait_failing, set_unready, reload_certificates, reopen_logs, slow_requests; and to hand
    connections over: detach_idle, detach_waiting, adopt, refuse, call_when_crowded. `processes` is the command's.

    Raises (when called):
        ConfigError: a setting's value is wrong, or only the command has that setting.
        TypeError: there is no such setting; the app cannot be called; or both a Config and settings are given.

    Raises (on entering):
        BindError: an address could not be bound, or the access log not opened.
        ConfigError: a certificate, or its key or authorities, cannot be used.
        PatchedError: gevent or eventlet have replaced threads and sockets in this process.
    """

    def __init__(
        self,
        app: WSGIApp,
        bind: str | Sequence[str] | Config | None = None,
        threads: int | None = None,
        *,
        processes: Processes | None = None,
        **settings: Any,
    ) -> None:
        self.config: EngineSettings = config_of(bind, threads, settings)
        if processes is None:
            check_arguments(app, self.config)
        self._processes = shared = processes or Processes()
        self._extensions = extensions_of(self.config)
        self._app = self._extensions.wrap_app(app)
        self._threads = AppThreads(self.config)
        self._commons = Commons(self.config, self._extensions)
        self._listening = Listening(self.config, shared.listeners, shared.load_board, shared.in_flight)
        # What extensions and the command ask of a server: programs need none of it, and help(aserve.Server) does not show it.
        self._inner = Inner(self.config, self._extensions, self._threads, self._commons, self._listening)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> list[Any]:
        """Return the addresses of the listeners: (host, port), or the path of a unix socket."""
        # Any, as for socket.getsockname(): a type checker lets no program unpack a union with str.
        return [listener.address for listener in self._listening.listeners]

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the listeners."""
        return self._inner.urls

    @property
    def failure(self) -> str:
        """Return why this process should be replaced, with --max-stuck workers stuck; "": it should not."""
        failing = self._threads.failing
        return failing.why if failing is not None else ""

    async def wait_failing(self) -> str:
        """
        Wait until there is a `failure`, and return it. The server serves on; the caller drains it.

        Raises:
            RuntimeError: the server has not been started.
        """
        failing = self._threads.failing
        if failing is None:
            raise RuntimeError("the server has not been started: call wait_failing() after start()")
        return await failing.wait()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self.drain())

    async def start(self) -> None:
        """
        Bind and accept.

        Raises:
            BindError, ConfigError, PatchedError: see Server.
            RuntimeError: it serves already; or no event loop of asyncio runs here.
        """
        if self._timer is not None:
            raise RuntimeError("the server serves already; it may start again when it has drained")
        check_unpatched()
        loop = self._loop = _running_loop()
        listening, threads, commons, config = self._listening, self._threads, self._commons, self.config
        listening.connections.find_limit(config.max_connections, config.threads, config.spool_files)
        commons.load()
        listening.bind()
        forks.watch(self._inner)
        try:
            threads.start(loop)
            self._extensions.start(self._context())
            services = commons.new_services(
                self._app, listening, threads, is_alone=self._processes.is_alone or self._processes.listeners is None
            )
            listening.accept(services, threads)
        except BaseException:
            await to_the_end(self._undo_start())
            raise
        self._timer = loop.call_later(1.0, self._tick)

    async def _undo_start(self) -> None:
        await self._listening.stop_accepting()
        self._listening.close_listeners()
        await self._stop(self._loop.time())

    async def drain(self, is_replaced: bool = False) -> bool:
        """
        Stop accepting, finish running requests, close; at most `drain_seconds` after `drain_delay_seconds`. Requests that still wait for
        a thread then get 503, for which clients have a second more.

        Clients that the kernel has queued are served, and the listeners are shut down, also for other processes that share them.
        With `is_replaced` other processes continue to serve the listeners: they and their queues stay, and there is no delay. For
        two seconds kept connections continue, and `detach_idle` may take them; then they have two more for a last request.

        Returns whether all requests were finished; True if the server has not been started.
        """
        if self._threads.failing is None:
            return True
        listening = self._listening
        listening.begin_draining(is_replaced)  # first: pings and health checks report it from now on
        if self.config.drain_delay_seconds and listening.listeners and not is_replaced:
            await asyncio.sleep(self.config.drain_delay_seconds)
        await listening.stop_accepting()
        if is_replaced:
            await self._wait_until_left()
        else:
            await listening.accept_queued()
        listening.close_listeners()
        listening.drain()  # only now: clients of idle connections, which close, cannot connect anew
        deadline = self._loop.time() + self.config.drain_seconds
        # Polled: an event would add work to the close of every connection.
        while not (listening.is_drained() and self._threads.executor.is_idle) and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        listening.end_adopting()
        if refused := await refuse_unbegun(self._threads.executor):
            logger.warning("requests answered 503, as no thread was free for them until --drain-timeout: %d", refused)
        if unfinished := self.connection_count:
            logger.warning("connections aborted, as they were unfinished after --drain-timeout: %d", unfinished)
        listening.abort()
        await asyncio.sleep(0)
        return await self._stop(deadline) and not unfinished and not refused

    async def _wait_until_left(self) -> None:
        """Serve on until every connection has been detached, at most LEAVING_SECONDS; the others then close with their next response."""
        deadline = self._loop.time() + LEAVING_SECONDS
        while self.connection_count and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        self._listening.end_leave()

    def detach_idle(self, count: int | None = None) -> list[Detached]:
        """
        Detach connections that wait for a request, `count` at most; another server may adopt them.

        The caller owns their descriptors. Connections with TLS, and busy ones, stay: `drain` closes them after their response.
        To be called on the event loop's thread.
        """
        return self._listening.detach_idle(count)

    def detach_waiting(
        self, count: int | None = None, before: Callable[[bytes], None] = lambda octets: None
    ) -> list[Detached]:
        """
        Detach connections whose requests wait for a thread, `count` at most, the oldest first; another server may adopt them, and answers.

        As for `detach_idle`. Requests that are not whole in memory stay, and so do those with others behind them. `before` is called with
        the octets of each request while it still waits here; if it raises OSError, the request stays, and so do later ones.
        """
        return self._listening.detach_waiting(self._threads, count, before)

    def call_when_crowded(self, callback: Callable[[], bool]) -> None:
        """
        Call this time and again while no thread is free for a request, on the event loop; it returns whether to do so again soon.

        To be called after `start`.
        """
        self._threads.executor.on_crowded = callback

    async def adopt(
        self, detached: Detached, is_own: bool = False, when_taken: Callable[[], None] = lambda: None
    ) -> bool:
        """
        Adopt a connection that another server with the same listeners has detached; its client notices nothing.

        `is_own`: this server has detached it, and takes it back with its request, even if it drains or is full. `when_taken` is called
        before a thread can begin the request; for a connection at rest before it can be detached again, even if it is not adopted then.
        Returns whether this server owns the connection and its descriptor now. Otherwise the
        caller still does: this server does not serve, or has no room, or has another listener at this index.
        """
        return await self._listening.adopt(detached, is_own, when_taken)

    async def refuse(self, detached: Detached, when_taken: Callable[[], None] = lambda: None) -> bool:
        """
        Answer the request of a connection that no server adopts with 503, and close it; `when_taken` is called before that.

        Returns whether this server owns the connection and its descriptor now: it does not if there is no request, or the client has left.
        """
        return await self._listening.refuse(detached, when_taken)

    def reload_certificates(self) -> bool:
        """Load the certificates of https binds anew, for new connections; on a failure log it, keep the old ones, and return False."""
        return self._commons.certificates.reload()

    def set_unready(self, why: str) -> None:
        """
        Let `ready` (--healthcheck-path) and pings answer `why` from now on; "": by the server's own state, as before.

        Requests are still served. To be called after `start`, on the event loop's thread.
        """
        self._listening.set_unready(why)

    def reopen_logs(self) -> None:
        """Open the access log's file anew: logrotate has renamed the old one."""
        self._commons.flush()
        self._extensions.obey(REOPEN_LOGS)

    def slow_requests(self) -> list[dict[str, Any]]:
        """Return the last requests that took longer than --slow-request; see SlowRequests.last."""
        found: list[dict[str, Any]] = self._inner.ask("slow") or []
        return found

    @property
    def connection_count(self) -> int:
        """Return the number of open connections."""
        return self._listening.count

    @property
    def is_draining(self) -> bool:
        """Whether `drain` has begun."""
        return self._listening.is_draining

    def statistics(self) -> Statistics:
        """Return the server's present numbers. To be called on the event loop's thread; costs a step for each connection."""
        return self._inner.statistics()

    def _context(self) -> ServerContext:
        shared, bound = self._processes, self._listening.bound
        return ServerContext(
            self._inner,
            self._loop,
            shared.slot,
            self._threads.busy,
            shared.counters,
            bound,
            self._extensions.ask,
            shared.say,
        )

    async def _stop(self, deadline: float) -> bool:
        """Undo `start`; return whether every thread has returned by the deadline (loop time)."""
        is_clean = await self._threads.stop(self._loop, deadline)
        await self._listening.end(self._threads)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._commons.flush()
        self._extensions.stop()
        forks.unwatch(self._inner)
        return is_clean

    def _tick(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)  # first: an exception below must not stop the timer
        self._on_second()

    def _on_second(self) -> None:
        """Check time-outs, refresh the Date field and call extensions, once a second; one timer for all."""
        self._commons.on_second()
        self._listening.on_second()
        self._threads.on_second()
        error_log.on_second()
        self._commons.flush()
        self._threads.look(self._commons.thread_seconds(lambda: self._inner.thread_seconds(time.monotonic())))
        self._extensions.on_second()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no event loop of asyncio runs here; start the server in a coroutine of asyncio's (trio has no such loop)"
        ) from None
