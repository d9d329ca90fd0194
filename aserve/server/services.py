"""Makes the objects that the connections of a listener share, from the settings.

Owns:     `new_service`: wire protocol, gateway, environ, log, trust and TLS of one listener; extensions' steps and layers.
Thread:   event loop only, before it serves.
Not here: the class Service (connections/service.py), objects shared by all listeners of a server (commons.py), the engine's steps (steps.py).
"""

from __future__ import annotations

from typing import Any, Callable

from ..connections.accepting.greeting import identify_by
from ..connections.carrier import Carriers
from ..connections.listeners import Listener
from ..connections.loop.sendfile import HAS_SENDFILE
from ..connections.service import Service, ServiceContext
from ..core.exchange import Exchange
from ..core.named_tuple import NamedTuple
from ..extension import Extensions, ListenerContext
from ..protocols import PROTOCOLS
from ..protocols.base import Limits
from ..protocols.underscores import ListedUnderscores, Underscores
from ..proxies.forwarded import StripForwarded, keep_forwarded, marking, strip_forwarded
from ..proxies.trust import Trust, TrustingLog, needs_identity, trust_of, who_is_believed
from ..settings import Bind
from ..tls.certificates import Certificates
from ..wsgi import FileWrapper, Gateway, WSGIApp
from ..wsgi.environ import build_base_environ
from ..wsgi.response import CommonFields
from .steps import steps_of


class ListenerParts(NamedTuple):
    """The parts from which the services of all listeners of a server are made."""

    context: ServiceContext
    app: WSGIApp  # with --request-timeout, wrapped by it
    certificates: Certificates
    multiprocess: bool  # PEP 3333's wsgi.multiprocess
    extensions: Extensions
    tls_fields: CommonFields  # the common fields of listeners of TLS


def new_service(listener: Listener, shared: ListenerParts) -> Service:
    """Return the service of this listener, which its connections share."""
    bind = listener.bind
    shares = shared.context._replace(common_fields=shared.tls_fields) if bind.protocol == "https" else shared.context
    config, peers, log = shares.config, shares.peers, shares.ends
    # Behind the PROXY protocol only the greeting tells the proxy's address: there the proxy's fields are read before the app.
    keeps = shared.extensions.keeps_forwarded and not bind.is_proxied
    trust = None if keeps else trust_of(config, bind, peers)
    strip_forwarded_by = _strip_by(listener, trust, keeps)
    if config.reload:
        strip_forwarded_by = marking(strip_forwarded_by)
    protocol = "http" if bind.protocol == "https" else bind.protocol
    listed = shared.extensions.underscored if protocol == "http" else ()  # other protocols have CGI names already
    underscores = ListedUnderscores(listener.url, listed) if listed else Underscores(listener.url)
    limits = Limits.of(config, strip_forwarded_by, shares.budgets.bodies, underscores)
    parser = config.http_parser if protocol == "http" else "c"
    believes = who_is_believed(bind, peers) if peers is not None else None
    context = ListenerContext(listener, shares.common_fields, believes or (lambda connection: False))
    extensions = shared.extensions
    before = [
        *steps_of(context, trust, config, shares.times_requests, shared.extensions.wants_ids),
        *extensions.before(context),
    ]
    return Service(
        shares._replace(ends=TrustingLog(log, trust)) if trust and log else shares,
        name=listener.url,
        limits=limits,
        new_protocol=PROTOCOLS[protocol, parser](limits),
        gateway=Gateway(
            extensions.wrap_calls(shared.app, context), shares.common_fields, HAS_SENDFILE, before, extensions.explain
        ),
        base_environ=build_base_environ(
            *listener.server_name_and_port,
            server_software=config.server_name or "aserve",
            scheme="https" if bind.protocol == "https" else "http",
            multithread=config.threads > 1,
            multiprocess=shared.multiprocess,
            file_wrapper=FileWrapper,
        ),
        wrap=shared.certificates.wrap_by(config.tls_settings(bind)) if bind.protocol == "https" else None,
        identify=identify_by(peers) if peers is not None and needs_identity(bind, peers) else None,
        carriers=_carriers_of(bind, extensions, believes),
    )


def _carriers_of(bind: Bind, extensions: Extensions, believes: Callable[[Any], bool] | None) -> Carriers:
    """Return what the listener's connections may speak beside HTTP/1.x: with TLS what ALPN chooses, without it what a trusted peer begins with."""
    if bind.protocol == "https":
        return Carriers(by_name=extensions.carriers)
    if bind.protocol == "http" and believes is not None:
        return Carriers(by_preface=extensions.prefaces, is_believed=believes)
    return Carriers()


def _strip_by(listener: Listener, trust: Trust | None, keeps: bool) -> Callable[[Exchange], None]:
    """Return what becomes of the fields in which proxies describe their client."""
    if keeps:
        return keep_forwarded
    return StripForwarded(listener.url) if trust is None else strip_forwarded
