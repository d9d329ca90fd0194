"""Which listeners' requests C can serve, and what it has to know of them.

Owns:     `new_plain`: whether a listener's requests can be plain; Plain: what is done with one before the app has it.
Thread:   workers, mostly; `rewrite` is also called by the event loop (native.py, `promote`).
Not here: the requests (native.py); the twins of what C does before the app has a request (wsgi/, proxies/trust.py).
"""

from __future__ import annotations

from typing import Any

from ..core.errors import RequestRefused
from ..core.exchange import Client, Exchange
from ..core.log_once import LogOnce
from ..protocols.underscores import Underscores
from ..proxies.forwarded import StripForwarded
from ..proxies.trust import TrustedProxies
from ..wsgi import Gateway, WSGIApp
from ..wsgi.environ import Environ
from ..wsgi.request_id import RequestId
from ..wsgi.rpc_calls import RPCCalls
from .service import Service

MAX_ID_FIELD_BYTES = 1024  # of the name of the field that tells a request's id: native/request.h has room for it


def new_plain(service: Service) -> Plain | None:
    """Return what C has to know of a listener; None: Python serves all its requests."""
    return None if wants_each(service) else _stand_in(service)


def wants_each(service: Service) -> bool:
    """Whether the log shows each exchange, or what stands in front of the app needs its Response."""
    return service.tells_wire or service.sees_responses


def _stand_in(service: Service) -> Plain | None:
    if not all(step.is_done_in_c for step in service.gateway.before):
        return None
    before: dict[type, Any] = {type(one): one for one in service.gateway.before}
    naming: RequestId | None = before.get(RequestId)
    if naming is not None and len(naming.beginning) > MAX_ID_FIELD_BYTES:
        return None
    app: WSGIApp | None = service.gateway.app
    if service.deadlines is not None:
        app = service.deadlines.untimed(service.gateway.app)
    # With --reload a mark in the environ tells what a proxy describes: Python makes it (`marking` of proxies/forwarded.py).
    trusting = None if service.config.reload else before.get(TrustedProxies)
    return Plain(service, app, naming, trusting, before.get(RPCCalls)) if app is not None else None


class Plain:
    """That of one listener."""

    # What is said once of fields that no app sees: of those that proxies send, unless the proxy is believed; and of those whose names
    # have an underscore. Such requests are plain when the line is out; None: they never are.
    removal_line: LogOnce | None
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
        self.gateway = Gateway(gateway.app, service.common_fields, gateway.has_sendfile)  # what stands before is done
        self.app = app  # what C calls: nothing in front of it needs an exchange
        self._naming, self._trusting = naming, trusting
        self._base = service.base_environ
        self.is_trusting = trusting is not None
        self.respond = (
            calls.functions.respond_framed if calls is not None else None
        )  # to a packet that calls a function
        # How the field begins that tells a request's name; empty: no field does; None: none is named.
        self.id_field = naming.beginning.encode("ascii") if naming is not None else None
        strip, underscores = service.limits.strip_forwarded, service.limits.underscores
        self.removal_line = strip.line if type(strip) is StripForwarded else None
        if trusting is not None:
            self.removal_line = trusting.line
        self.drop_line = underscores.line if type(underscores) is Underscores else None

    def believes(self, addr: str) -> bool:
        """Whether a peer of this address is believed, on a listener that trusts proxies."""
        assert self._trusting is not None
        return self._trusting.trust.is_believed(Client(addr, "", self._base))

    def changes(self, exchange: Exchange) -> Environ | None:
        """Return what a believed peer's words change in the environ; None: they are malformed, or there are none."""
        assert self._trusting is not None
        exchange.connection = Client("", "", self._base)
        try:
            return self._trusting.trust.changes(exchange) if exchange.forwarded is not None else None
        except RequestRefused:
            return None

    def rewrite(self, exchange: Exchange, made_id: str) -> None:
        """
        Do with an exchange what is done before the app has it; C has understood all that it brings.

        `made_id`: the name that C has made for it, if it came without one.
        """
        if self._naming is not None:
            self._naming.before(exchange, made_id)
        if self._trusting is not None and exchange.forwarded is not None:
            self._trusting.trust.apply(exchange)
