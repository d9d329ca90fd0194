"""Which listeners' requests C can serve, and the parameters that it needs.

Owns:     `new_plain`: whether a listener's requests can be plain; Plain: the steps before the app.
Thread:   workers, mostly; `rewrite` is also called by the event loop (native.py, `promote`).
Not here: the requests (native.py); the twins in Python of C's steps before the app (wsgi/, proxies/trust.py).
"""

from __future__ import annotations

from typing import Any

from ...core.errors import RequestRefused
from ...core.exchange import Client, Exchange
from ...core.log_once import LogOnce
from ...protocols.underscores import Underscores
from ...proxies.forwarded import StripForwarded, keep_forwarded
from ...proxies.trust import TrustedProxies
from ...wsgi import Gateway, WSGIApp
from ...wsgi.environ import Environ
from ...wsgi.request_id import RequestId
from ...wsgi.rpc_calls import RPCCalls
from ..service import Service


def new_plain(service: Service) -> Plain | None:
    """Return C's parameters of a listener; None: Python serves all its requests."""
    return None if wants_each(service) else _stand_in(service)


def wants_each(service: Service) -> bool:
    """Whether the log shows each exchange, or a wrapper in front of the app needs its Response."""
    return service.tells_wire or service.sees_responses


def _stand_in(service: Service) -> Plain | None:
    if not all(step.is_done_in_c for step in service.gateway.before):
        return None
    before: dict[type, Any] = {type(one): one for one in service.gateway.before}
    app: WSGIApp | None = service.gateway.app
    if service.deadlines is not None:
        app = service.deadlines.untimed(service.gateway.app)
    # With --reload the environ has a mark if a proxy's fields came: Python makes it (`marking` of proxies/forwarded.py).
    trusting = None if service.config.reload else before.get(TrustedProxies)
    return Plain(service, app, before.get(RequestId), trusting, before.get(RPCCalls)) if app is not None else None


class Plain:
    """C's parameters of one listener, and the steps before the app."""

    # The lines that are logged once about removed fields: those of proxies, unless the proxy is trusted; and those with an underscore
    # in their names. Requests with such fields are plain once the line was logged; None: they never are; False: the app sees those of proxies.
    removal_line: LogOnce | bool | None
    drop_line: LogOnce | None

    def __init__(
        self,
        service: Service,
        app: WSGIApp,
        naming: RequestId | None,
        trusting: TrustedProxies | None,
        calls: RPCCalls | None,
    ) -> None:
        gateway = service.gateway
        # The steps before it are done.
        self.gateway = Gateway(gateway.app, service.common_fields, gateway.has_sendfile, explain=gateway.explain)
        self.app = app  # the app that C calls: no wrapper around it needs an exchange
        self._naming, self._trusting = naming, trusting
        self._base = service.base_environ
        self.is_trusting = trusting is not None
        self.respond = (
            calls.functions.respond_framed if calls is not None else None
        )  # to a packet that calls a function
        # The beginning of the response's field with a request's name; empty: no such field; None: requests get no name.
        self.id_field = naming.beginning.encode("ascii") if naming is not None else None
        strip, underscores = service.limits.strip_forwarded, service.limits.underscores
        self.removal_line = strip.line if type(strip) is StripForwarded else False if strip is keep_forwarded else None
        if trusting is not None:
            self.removal_line = trusting.line
        self.drop_line = underscores.line if type(underscores) is Underscores else None

    def believes(self, addr: str) -> bool:
        """Whether a peer of this address is trusted, on a listener that trusts proxies."""
        assert self._trusting is not None
        return self._trusting.trust.is_believed(Client(addr, "", self._base))

    def changes(self, exchange: Exchange) -> Environ | None:
        """Return the entries of the environ that a trusted peer's claims change; None: Python is needed."""
        assert self._trusting is not None
        exchange.connection = Client("", "", self._base)
        try:
            changes = self._trusting.trust.changes(exchange) if exchange.forwarded is not None else None
        except RequestRefused:
            return None
        # A proxy with TLS, of a client without TLS: HTTPS has to go, and C only adds entries.
        return None if changes and "HTTPS" in self._base and changes["wsgi.url_scheme"] != "https" else changes

    def rewrite(self, exchange: Exchange, made_id: str) -> None:
        """
        Take the steps before the app for an exchange; C has checked that they succeed.

        `made_id`: the name that C has made, if the request came without one.
        """
        if self._naming is not None:
            self._naming.before(exchange, made_id)
        if self._trusting is not None and exchange.forwarded is not None:
            self._trusting.trust.apply(exchange)
