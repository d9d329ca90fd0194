"""Serve one app on one event loop: start, drain, stop.

Owns:     Server (the embedding API): a loop's listeners, executor, connections
          and the one timer that ticks for them all.
Thread:   event loop only.
Not here: one connection (connections/connection.py), settings (settings/table.py), the loop
          and signals (running.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from types import TracebackType
from typing import Any, Callable

import anyio
import anyio.abc

from . import forks
from .access_log import AccessLog
from .budgets import Budgets
from .connections.acceptor import Acceptor, ConnectionLimit
from .connections.greeting import identify_by, protocol_factory
from .connections.lane import Lane
from .connections.lane import is_available as is_lane_available
from .connections.listeners import Address, Listener, UnixRights, open_listeners
from .connections.sendfile import HAS_SENDFILE
from .connections.service import Service
from .connections.tls_transport import TLSTransport
from .loading import check_unpatched
from .protocols import PROTOCOLS
from .protocols.base import Limits
from .proxies.forwarded import StripForwarded, strip_forwarded
from .proxies.peers import Peers
from .proxies.trust import TrustingGateway, TrustingLog, needs_identity, peers_of, trust_of
from .settings import Bind, Config, parse_bind
from .statistics import Statistics, take_statistics
from .tls.certificates import Certificates, load_certificates
from .workers.executor import Executor
from .workers.inline import InlineExecutor
from .wsgi import FileWrapper, Gateway, WSGIApp
from .wsgi.deadlines import Deadlines
from .wsgi.environ import build_base_environ
from .wsgi.response import CommonFields
from .wsgi.routes import RoutingGateway, compile_routes

logger = logging.getLogger("aserve")

# An accepted connection's transport is made in a task (connections/acceptor.py). Turns of the loop
# after which it is ours: three are needed, five make sure.
ACCEPT_ITERATIONS = 5

# How long workers that wait may take to end when no time is left. Guess; it is a few milliseconds.
WAKING_SECONDS = 0.1


class Server:
    """
    A WSGI app served inside a running asyncio program.

        async with aserve.Server(app, bind="127.0.0.1:0") as server:
            print(server.addresses)

    Keyword arguments are the settings of Config. Leaving the block drains:
    what runs is finished. No signal handlers, no global state; several
    servers may share a loop.

    Raises (on entering):
        BindError: an address could not be bound, or the access log not opened.
        ConfigError: a certificate, or what belongs to it, cannot be used.
        PatchedError: gevent or eventlet have replaced threads and sockets in this process.
    """

    def __init__(self, app: WSGIApp, config: Config | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise TypeError("give either a Config or settings, not both")
        self.config = config if config is not None else Config(**settings)
        self._app = app
        self._listeners: list[Listener] = []
        self._bound: list[bytes] = []  # their addresses, for forks.py; also after their end
        self._acceptors: list[Acceptor] = []
        self._lane: Lane | None = None
        self._connections = ConnectionLimit()
        self._services: list[Service] = []
        self._common_fields = CommonFields(self.config.server_name)
        self._access_log: AccessLog | None = None
        self._certificates = Certificates(())
        self._peers: Peers | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadlines: Deadlines | None = None  # with --request-timeout
        self._failure = ""  # why the process should be replaced
        self._is_failing: asyncio.Event | None = None  # before the first start
        self._executor: Executor | InlineExecutor = InlineExecutor()
        self._budgets = Budgets(self.config)

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
        return self._failure

    async def wait_failing(self) -> str:
        """
        Wait until there is a `failure`, and return it. The server goes on serving: draining is the caller's.

        Raises:
            RuntimeError: it has not been started.
        """
        if self._is_failing is None:
            raise RuntimeError("the server has not been started: call wait_failing() after start()")
        await self._is_failing.wait()
        return self._failure

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.drain()

    async def start(self) -> None:
        """
        Bind and accept.

        Raises:
            BindError, ConfigError, PatchedError: see Server.
        """
        check_unpatched()
        loop = self._loop = asyncio.get_running_loop()
        self._is_failing, self._failure = asyncio.Event(), ""
        config = self.config
        self._peers = peers_of(config)
        self._connections.open(config.max_connections, config.threads, config.spool_files)
        self._budgets = Budgets(config)  # of what is free now
        rights = UnixRights(config.unix_mode, config.unix_owner, config.unix_group)
        self._certificates = load_certificates(config)
        self._certificates.log_warnings()
        self._common_fields.refresh()
        self._listeners = open_listeners([parse_bind(bind) for bind in config.bind], rights)
        self._bound = [forks.local_address(listener.socket.fileno()) for listener in self._listeners]
        forks.watch(self)
        self._services = []  # those of an earlier start are over
        try:
            if config.access_log is not None:
                self._access_log = AccessLog(config.access_log)
            if config.threads:
                # One thread is a promise (PEP 3333 wsgi.multithread): no other ever runs the app.
                self._executor = Executor(loop, config.threads, config.extra_threads if config.threads > 1 else 0)
            if config.request_seconds:  # then there are threads: settings/table.py
                self._deadlines = Deadlines(config.request_seconds, self._executor, config.max_stuck, self._on_failing)  # type: ignore[arg-type]
            self._services = [self._new_service(listener) for listener in self._listeners]
            self._accept()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._abandon_start()
            raise
        self._timer = loop.call_later(1.0, self._tick)

    async def _abandon_start(self) -> None:
        if self._lane is not None:
            self._lane.stop_accepting()
        self._close_listeners()
        await self._stop(self._loop.time())

    async def drain(self) -> bool:
        """
        Stop accepting, finish what runs, close; at most `drain_seconds` after `drain_delay_seconds`.

        Returns whether everything was finished; True if it has not been started.
        """
        if self._is_failing is None:
            return True
        for service in self._services:
            service.is_draining = True  # first: a ping from now on is told
        if self.config.drain_delay_seconds and self._listeners:
            await asyncio.sleep(self.config.drain_delay_seconds)
        if self._lane is not None:
            self._lane.stop_accepting()
        await self._pause_accepting()
        queues = self._keep_queues()
        self._close_listeners()
        for connection in list(self._connections):
            connection.drain()
        await self._accept_queued(queues)
        deadline = self._loop.time() + self.config.drain_seconds
        # Looked at instead of signalled: the end of a server is not worth a step in every connection's.
        while self._is_busy() and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        unfinished = self.connection_count
        if unfinished:
            logger.warning("%d connections unfinished after --drain-timeout; aborting them", unfinished)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)
        return await self._stop(deadline) and not unfinished

    def reload_certificates(self) -> bool:
        """
        Load the certificates of https binds anew, for connections from now on.

        Returns False, with a line in the log, when anything cannot be used: then all stays as it is.
        """
        return self._certificates.reload()

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return self._connections.count

    @property
    def is_draining(self) -> bool:
        """Whether `drain` has begun."""
        return any(service.is_draining for service in self._services)

    def statistics(self) -> Statistics:
        """
        Return what it is doing at this moment; see Statistics for the names.

        To be called on the event loop's thread. It costs a step for each connection, and requests nothing.
        """
        return take_statistics(
            list(self._connections), self._lane, self._executor, self._budgets.response_memory_bytes, self.is_draining
        )

    def _is_busy(self) -> bool:
        """Whether there is anything to wait for at the end."""
        if self._lane is not None:
            self._lane.drain()
        return self.connection_count > 0 or not self._executor.is_idle

    async def _pause_accepting(self) -> None:
        """Accept no more, and let what was accepted become connections."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors.clear()
        for _ in range(ACCEPT_ITERATIONS):
            await asyncio.sleep(0)

    # --- called in a child that the app has forked ---

    def on_forked(self) -> tuple[list[int], list[bytes]]:
        """Give up; see forks.Watched."""
        self._executor.on_forked()
        if self._deadlines is not None:
            self._deadlines.on_forked()
        return self._lane.fds if self._lane is not None else [], self._bound

    async def _stop(self, deadline: float) -> bool:
        self._executor.stop()
        deadline = max(deadline, self._loop.time() + WAKING_SECONDS)
        # What runs may outlive its client, and is finished all the same.
        while (hung := self._executor.join(0.0)) and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        # One more turn for what the last workers posted.
        await asyncio.sleep(0)
        hung += self._executor.stuck  # for these nobody need wait
        if hung:
            logger.warning("left behind, still inside the app: %s", ", ".join(hung))
        if self._lane is not None:
            while self._executor.is_leader_waiting:  # nobody may wait on what is closed: it would never end
                self._lane.wake()
                await asyncio.sleep(0.001)
            self._lane.close()
            self._lane = None
            self._connections.join(None)
            for connection in list(self._connections):
                connection.abort()  # has left the lane since the others were told
        if self._timer is not None:
            self._timer.cancel()
        if self._access_log is not None:
            self._access_log.close()
        forks.unwatch(self)
        return not hung

    def _new_service(self, listener: Listener) -> Service:
        config = self.config
        trust = trust_of(config, listener.bind, self._peers)
        strip_forwarded_by = StripForwarded(listener.url) if trust is None else strip_forwarded
        limits = Limits.of(config, strip_forwarded_by, self._budgets.bodies)
        bind = listener.bind
        protocol = "http" if bind.protocol == "https" else bind.protocol
        parser = config.http_parser if protocol == "http" else "c"
        gateway, access_log = self._new_gateway(protocol), self._access_log
        return Service(
            config,
            name=listener.url,
            loop=self._loop,
            limits=limits,
            new_protocol=PROTOCOLS[protocol, parser](limits),
            executor=self._executor,
            gateway=TrustingGateway(gateway, self._common_fields, trust, listener.url) if trust else gateway,
            common_fields=self._common_fields,
            base_environ=build_base_environ(
                *listener.server_name_and_port,
                server_software=config.server_name or "aserve",
                scheme="https" if bind.protocol == "https" else "http",
                multithread=config.threads > 1,
                file_wrapper=FileWrapper,
            ),
            connections=self._connections,
            budgets=self._budgets,
            access_log=TrustingLog(access_log, trust) if trust and access_log else access_log,
            peers=self._peers,
            wrap=self._certificates.wrap_by(config.tls_settings(bind)) if bind.protocol == "https" else None,
            identify=identify_by(self._peers)
            if self._peers is not None and needs_identity(bind, self._peers)
            else None,
        )

    def _new_gateway(self, protocol: str) -> Gateway:
        routes = compile_routes(self.config.route)
        app = self._deadlines.timed(self._app) if self._deadlines is not None else self._app
        if routes or protocol == "uwsgi":  # others have neither routes nor RPC to ask for
            return RoutingGateway(app, self._common_fields, HAS_SENDFILE, routes)
        return Gateway(app, self._common_fields, HAS_SENDFILE)

    def _accept(self) -> None:
        pairs = list(zip(self._listeners, self._services))
        in_lane = [pair for pair in pairs if is_lane_available(*pair)]
        if in_lane:
            self._lane = Lane(self._executor, in_lane)
            self._connections.join(self._lane)
            self._lane.start()
        for listener, service in pairs:
            if (listener, service) in in_lane:
                continue
            listener.socket.listen(self.config.backlog)
            make = _protocol_factory(service, listener.bind)
            self._acceptors.append(Acceptor(self._loop, self._connections, listener.socket, make))
            self._acceptors[-1].start()

    def _keep_queues(self) -> list[tuple[Listener, Service]]:
        """Return copies of the listeners: with them, what the kernel has queued outlasts the event loop's sockets."""
        queues = []
        for listener, service in zip(self._listeners, self._services):
            try:
                queues.append((listener._replace(socket=listener.socket.dup()), service))
            except OSError:
                pass  # no descriptor left: there will be none for a connection either
        return queues

    async def _accept_queued(self, queues: list[tuple[Listener, Service]]) -> None:
        """Accept what was queued before the listeners closed: a front server has sent its request already."""
        for listener, service in queues:
            for sock in listener.take_queued():
                sock.setblocking(False)
                try:
                    await self._loop.connect_accepted_socket(_protocol_factory(service, listener.bind), sock)
                except OSError:
                    sock.close()  # gone again

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.remove_file()
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors.clear()
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    def _tick(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)  # first: a fault below must not end it
        self.on_second()

    def on_second(self) -> None:
        """Called once a second: time-outs, the Date field and the access log; one timer for all."""
        self._common_fields.refresh()
        for connection in list(self._connections):
            connection.on_second()
        self._certificates.on_second()
        if self._lane is not None:
            self._lane.on_second()
        self._connections.on_second()
        self._budgets.on_second()
        if self._deadlines is not None:
            self._deadlines.on_second()
        if self._access_log is not None:
            self._access_log.flush()

    def _on_failing(self, why: str) -> None:
        if not self._failure:
            logger.error("this process should be replaced: %s", why)
            self._failure = why
            if self._is_failing is not None:
                self._is_failing.set()


def _protocol_factory(service: Service, bind: Bind) -> Callable[[], asyncio.Protocol]:
    return protocol_factory(service, bind) if service.wrap is None else functools.partial(TLSTransport, service)
