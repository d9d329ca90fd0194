"""What the connections of each listener share, made from the settings.

Owns:     `new_service`: wire protocol, gateway, environ, log, trust and TLS of one listener; what extensions put there.
Thread:   event loop only, before it serves.
Not here: what a service is (connections/service.py), what all listeners of a server share (server.py).
"""

from __future__ import annotations

import asyncio
from typing import Callable, NamedTuple

from ..connections.greeting import identify_by
from ..connections.in_flight import InFlight
from ..connections.limit import ConnectionLimit
from ..connections.listeners import Listener
from ..connections.sendfile import HAS_SENDFILE
from ..connections.service import Service
from ..connections.websockets import WebSockets
from ..core.budgets import Budgets
from ..core.ends import RequestLog
from ..core.exchange import Exchange
from ..extension import Extensions, ListenerContext
from ..protocols import PROTOCOLS
from ..protocols.base import Limits
from ..protocols.underscores import ListedUnderscores, Underscores
from ..proxies.forwarded import StripForwarded, marking, strip_forwarded
from ..proxies.peers import Peers
from ..proxies.trust import Trust, TrustedProxies, TrustingLog, needs_identity, trust_of, who_is_believed
from ..settings import EngineSettings
from ..tls.certificates import Certificates
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from ..wsgi import FileWrapper, Gateway, WSGIApp
from ..wsgi.deadlines import Deadlines
from ..wsgi.environ import build_base_environ
from ..wsgi.gateway import Before
from ..wsgi.request_id import RequestId
from ..wsgi.response import CommonFields
from ..wsgi.rpc_calls import RPCCalls
from ..wsgi.timing import Timing


class Shared(NamedTuple):
    """What all listeners of a server share."""

    config: EngineSettings
    loop: asyncio.AbstractEventLoop
    app: WSGIApp
    executor: Executor | InlineExecutor
    common_fields: CommonFields
    connections: ConnectionLimit
    budgets: Budgets
    websockets: WebSockets
    access_log: RequestLog | None
    certificates: Certificates
    peers: Peers | None
    multiprocess: bool  # PEP 3333's wsgi.multiprocess
    in_flight: InFlight | None = None
    times_requests: bool = False  # the times of each are noted: something reads them, such as the access log
    names_requests: bool = False  # each gets a name, by which logs show it
    deadlines: Deadlines | None = None  # with --request-timeout; `app` is then what they time
    extensions: Extensions = Extensions()


def new_service(listener: Listener, shared: Shared) -> Service:
    """Return what the connections of this listener share."""
    config, bind, peers, log = shared.config, listener.bind, shared.peers, shared.access_log
    trust = trust_of(config, bind, peers)
    strip_forwarded_by: Callable[[Exchange], None]
    strip_forwarded_by = StripForwarded(listener.url) if trust is None else strip_forwarded
    if config.reload:
        strip_forwarded_by = marking(strip_forwarded_by)
    protocol = "http" if bind.protocol == "https" else bind.protocol
    listed = shared.extensions.underscored if protocol == "http" else ()  # others have names of CGI
    underscores = ListedUnderscores(listener.url, listed) if listed else Underscores(listener.url)
    limits = Limits.of(config, strip_forwarded_by, shared.budgets.bodies, underscores)
    parser = config.http_parser if protocol == "http" else "c"
    believes = who_is_believed(bind, peers) if peers is not None else None
    context = ListenerContext(listener, shared.common_fields, believes or (lambda connection: False))
    extensions = shared.extensions
    before = [*_steps_of_the_engine(context, shared, trust), *extensions.before(context)]
    return Service(
        config,
        name=listener.url,
        loop=shared.loop,
        limits=limits,
        new_protocol=PROTOCOLS[protocol, parser](limits),
        executor=shared.executor,
        gateway=Gateway(extensions.wrap_calls(shared.app, context), shared.common_fields, HAS_SENDFILE, before),
        common_fields=shared.common_fields,
        base_environ=build_base_environ(
            *listener.server_name_and_port,
            server_software=config.server_name or "aserve",
            scheme="https" if bind.protocol == "https" else "http",
            multithread=config.threads > 1,
            multiprocess=shared.multiprocess,
            file_wrapper=FileWrapper,
        ),
        connections=shared.connections,
        budgets=shared.budgets,
        websockets=shared.websockets,
        access_log=TrustingLog(log, trust) if trust and log else log,
        peers=peers,
        wrap=shared.certificates.wrap_by(config.tls_settings(bind)) if bind.protocol == "https" else None,
        identify=identify_by(peers) if peers is not None and needs_identity(bind, peers) else None,
        in_flight=shared.in_flight,
        times_requests=shared.times_requests,
        sees_responses=extensions.sees_responses,
        deadlines=shared.deadlines,
    )


def _steps_of_the_engine(context: ListenerContext, shared: Shared, trust: Trust | None) -> list[Before]:
    """Return what sees each exchange first: C does the same for plain requests."""
    steps: list[Before] = []
    if shared.times_requests:
        steps.append(Timing())
    id_field = shared.config.request_id_header
    if shared.names_requests or id_field is not None:
        steps.append(RequestId(id_field))
    if trust is not None:
        steps.append(TrustedProxies(context.common_fields, trust, context.listener.url))
    if context.listener.bind.protocol == "uwsgi":
        steps.append(RPCCalls(context.common_fields))
    return steps
