"""The common objects of all connections of one listener.

Owns:     Service; ServiceContext, common to the services of a server; both hold references and little else.
Thread:   built on the event loop; read on both sides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Callable

from ..core.ends import RequestLog
from ..core.exchange import ANSWERED, CUT, Exchange
from ..core.named_tuple import NamedTuple
from ..protocols.base import Limits, WireProtocol
from ..proxies.peers import Peers
from ..settings import EngineSettings
from ..tls.certificates import NO_CONTEXTS, NewContext, Wrap, describe_client
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from ..wsgi import Gateway
from ..wsgi.deadlines import Deadlines
from ..wsgi.environ import Environ, extend_base
from ..wsgi.response import CommonFields
from . import wire_log
from .carrier import NO_CARRIERS, Carriers
from .health import HealthPaths
from .in_flight import InFlight
from .server_budgets import Budgets


class ServiceContext(NamedTuple):
    """The common objects of the connections of all listeners of a server."""

    config: EngineSettings
    loop: asyncio.AbstractEventLoop
    executor: Executor | InlineExecutor
    common_fields: CommonFields
    connections: Any  # a ConnectionLimit
    budgets: Budgets  # of large bodies
    websockets: Any  # see websockets.py
    ends: RequestLog | None = None  # takes the end of each request; None: there is no reader
    peers: Peers | None = None  # the peers that are proxies; None: no peer is
    in_flight: InFlight | None = None  # shows other processes the running requests of the event loop's wires
    times_requests: bool = False  # requests get the times of their arrival and beginning: Exchange.arrived_at
    sees_responses: bool = False  # a wrapper in front of the app needs the Response of each exchange
    deadlines: Deadlines | None = None  # with --request-timeout
    contexts: Mapping[str, NewContext] = NO_CONTEXTS  # of TLS, for clients with one of these ALPN names alone


class Service:
    """The common objects of all connections of one listener."""

    def __init__(
        self,
        context: ServiceContext,
        *,
        name: str,
        limits: Limits,
        new_protocol: Callable[[], WireProtocol],
        gateway: Gateway,
        base_environ: Environ,
        wrap: Wrap | None = None,
        identify: Callable[[Any, asyncio.BaseTransport], None] | None = None,
        carriers: Carriers = NO_CARRIERS,
    ) -> None:
        self.name = name  # of the listener, for the log
        self.limits = limits
        self.new_protocol = new_protocol
        self.gateway = gateway
        self.base_environ = base_environ
        self._tls_bases: dict[tuple[str, ...], Environ] = {}  # by version and cipher suite: few
        self.keeps_terms = any(step.keeps_term for step in gateway.before)  # of connections
        self.wrap = wrap  # wraps a connection in TLS; None: there is no TLS
        self.carriers = carriers  # without an entry: HTTP/1.x
        self.identify = identify  # finds out whether a connection's peer is trusted; None: not asked for each
        # Copies of the context's attributes, for quick access.
        self.config, self.loop, self.executor = context.config, context.loop, context.executor
        self.common_fields, self.connections, self.budgets = context.common_fields, context.connections, context.budgets
        self.websockets, self.peers, self.in_flight = context.websockets, context.peers, context.in_flight
        self.times_requests, self.sees_responses = context.times_requests, context.sees_responses
        self.deadlines, self.ends, self.contexts = context.deadlines, context.ends, context.contexts
        self.take_back: Callable[..., bool] | None = None  # moves an idle connection into the lane; see Lane._adopt
        self.take_carrier: Callable[..., bool] | None = None  # the same with a carrier, and its state
        path = context.config.healthcheck_path
        self.health_paths = HealthPaths(path) if path is not None else None  # None: all requests are for the app
        self.request_count = 0  # requests for the app on the event loop, since the start
        # Exchanges of lost connections, still with a worker. The code at the end of each takes it out.
        self.lost: set[Exchange] = set()
        self.tells_wire = wire_log.is_told()  # --log-level debug: log events of connections
        self.is_draining = False
        # While draining: another process serves the same listeners. Connected clients have time for one more request.
        self.is_replaced = False
        self.why_unready = ""  # see Server.set_unready

    @property
    def shakes_in_lane(self) -> bool:
        """Whether the lane shakes hands with clients of TLS, if it has the listener."""
        return self.wrap is not None and self.wrap.only is not None

    def base_of_session(self, session: Any) -> Environ:
        """
        Return the base environ of a client of TLS.

        Raises:
            ValueError: a name in the client's certificate is not text.
        """
        return self.base_of(describe_client(session))

    def base_of(self, client: dict[str, str]) -> Environ:
        """Return the base environ of a client of TLS, by its entries (describe_client)."""
        if client["SSL_CLIENT_VERIFY"] != "NONE":
            return {**self.base_environ, **client}
        key = tuple(client.values())
        base = self._tls_bases.get(key)
        if base is None:
            base = self._tls_bases[key] = extend_base(self.base_environ, client)
        return base

    def begin(self, exchange: Exchange) -> None:
        """Count a request on the event loop for a worker; from now on the table of running requests has an entry."""
        self.request_count += 1
        if self.in_flight is not None:
            self.in_flight.begin(exchange)
        if self.times_requests:
            exchange.arrived_at = time.monotonic()

    def end_lost(self, exchange: Exchange) -> None:
        """Log an exchange of `lost` that no worker will end; do nothing if `lost` has no such exchange any more."""
        try:
            self.lost.remove(exchange)
        except KeyError:
            return
        if self.in_flight is not None:
            self.in_flight.end(exchange)
        if self.ends is not None and not exchange.is_probe:
            self.ends.write(exchange)

    def log_cut(self) -> None:
        """Log exchanges without an end after the server's end, of workers left behind."""
        for exchange in self.lost.copy():
            if exchange.end == ANSWERED:
                exchange.end = CUT
            self.end_lost(exchange)

    def warning(self) -> str:
        """Return why a balancer should send requests to another server; empty: no reason."""
        if self.is_draining and not self.is_replaced:
            return "draining"
        if self.why_unready:
            return self.why_unready
        queue, limit = self.executor.queue_wait, self.config.healthcheck_max_wait_seconds
        waited = max(queue.seconds(), queue.stalled_seconds)  # clients that give up may all have waited less
        if not limit or waited <= limit:
            return ""
        return f"requests wait for {waited:.1f} s, more than --healthcheck-max-wait ({limit:g} s)"
