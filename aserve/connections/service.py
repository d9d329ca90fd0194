"""What all connections of one listener share.

Owns:     Service; it only holds things together.
Thread:   built on the event loop; read on both sides.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable

from ..core.budgets import Budgets
from ..core.ends import RequestLog
from ..core.exchange import ANSWERED, CUT, Exchange
from ..protocols.base import Limits, WireProtocol
from ..proxies.peers import Peers
from ..settings import EngineSettings
from ..tls.certificates import Wrap
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from ..wsgi import Gateway
from ..wsgi.deadlines import Deadlines
from ..wsgi.environ import Environ
from ..wsgi.response import CommonFields
from . import wire_log
from .health import HealthPaths
from .in_flight import InFlight


class Service:
    """What all connections of one listener share."""

    def __init__(
        self,
        config: EngineSettings,
        *,
        name: str,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        new_protocol: Callable[[], WireProtocol],
        executor: Executor | InlineExecutor,
        gateway: Gateway,
        common_fields: CommonFields,
        base_environ: Environ,
        connections: set[Any],
        budgets: Budgets,
        websockets: Any,
        access_log: RequestLog | None,
        peers: Peers | None = None,
        wrap: Wrap | None = None,
        identify: Callable[[Any, asyncio.BaseTransport], None] | None = None,
        in_flight: InFlight | None = None,
        times_requests: bool = False,
        sees_responses: bool = False,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.config = config
        self.name = name  # of the listener, for the log
        self.loop = loop
        self.limits = limits
        self.new_protocol = new_protocol
        self.executor = executor
        self.gateway = gateway
        self.common_fields = common_fields
        self.base_environ = base_environ
        self.connections = connections
        self.budgets = budgets  # of large bodies, for all listeners
        self.websockets = websockets  # the server's; see websockets.py
        self.access_log = access_log  # is told of the end of each request; None: nobody is
        self.times_requests = times_requests  # it wants to know when they came and began: Exchange.arrived_at
        self.deadlines = deadlines  # of the server's requests; None: there are none
        self.sees_responses = sees_responses  # what stands in front of the app has the Response of each exchange
        self.keeps_terms = any(step.keeps_term for step in gateway.before)  # of connections
        self.peers = peers  # who is a proxy; None: nobody
        self.wrap = wrap  # a client's octets in TLS; None: they come as they are
        self.identify = identify  # finds out whether a connection's peer is believed; None: that is not asked of each
        self.take_back: Callable[[Any, int], bool] | None = (
            None  # a connection that idles, into the lane; see Lane._adopt
        )
        path = config.healthcheck_path
        self.health_paths = HealthPaths(path) if path is not None else None  # None: all requests are the app's
        self.in_flight = in_flight  # shows other processes the requests on the event loop's wires; None: nobody looks
        self.request_count = 0  # of those, since the start; the event loop's
        # With a worker, though their connections are lost. Who ends one takes it out.
        self.lost: set[Exchange] = set()
        self.tells_wire = wire_log.is_told()  # what happens on connections
        self.is_draining = False
        # While it drains: another process serves the same listeners. Who is connected has time to ask once more.
        self.is_replaced = False
        self.why_unready = ""  # see Server.set_unready

    def begin(self, exchange: Exchange) -> None:
        """Count a request of the event loop's that a worker is to run; whoever wants to know of it, does from now on."""
        self.request_count += 1
        if self.in_flight is not None:
            self.in_flight.begin(exchange)
        if self.times_requests:
            exchange.arrived_at = time.monotonic()

    def end_lost(self, exchange: Exchange) -> None:
        """Log an exchange whose connection is lost and that its worker will not end; nothing if it is not of those, or not any more."""
        try:
            self.lost.remove(exchange)
        except KeyError:
            return
        if self.in_flight is not None:
            self.in_flight.end(exchange)
        if self.access_log is not None and not exchange.is_probe:
            self.access_log.write(exchange)

    def log_cut(self) -> None:
        """Log what has not ended by now, though the server does: workers are left behind with it."""
        for exchange in self.lost.copy():
            if exchange.end == ANSWERED:
                exchange.end = CUT
            self.end_lost(exchange)

    def warning(self) -> str:
        """Return why a balancer should send its requests to another server; empty when all is well."""
        if self.is_draining and not self.is_replaced:
            return "draining"
        if self.why_unready:
            return self.why_unready
        waited, limit = self.executor.wait_seconds, self.config.healthcheck_max_wait_seconds
        if not limit or waited <= limit:
            return ""
        return f"requests wait for {waited:.1f} s, more than --healthcheck-max-wait ({limit:g} s)"
