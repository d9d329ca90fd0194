"""What a listener believes of what its peers tell about their clients, and what becomes of it.

Owns:     from claims to REMOTE_ADDR, scheme, host, port and SCRIPT_NAME as
          the client knows them; the gateway and the access log that see to
          that, on listeners where somebody is believed.
Thread:   a worker; TrustingLog.write_refused on the event loop.
Spec:     RFC 7239 section 5; PEP 3333 "URL Reconstruction".
Not here: who is believed (peers.py), reading the fields (forwarded.py), the
          PROXY protocol (connections/greeting.py).

A listener that believes nobody has none of this: the fields are out of the
vars already (forwarded.strip_forwarded), and its requests take no step here.
"""

from __future__ import annotations

import functools
import logging
import operator
from typing import Any, Callable

from ..access_log import AccessLog
from ..errors import BindError, RequestRefused
from ..exchange import Client, Exchange
from ..settings import Bind, Config
from ..wsgi import Gateway, Reply
from ..wsgi.response import CommonFields, Response, error_response
from .forwarded import DEFAULT_PORTS, Claims, Rules, cgi_name, field_name, read_claims, split_host
from .peers import Peers

logger = logging.getLogger("aserve")

# Claims kept in case they come again, and octets of one that is worth it. Guess: 1 MiB in all, at most.
KNOWN_MAX = 1024
KNOWN_BYTES = 256


def peers_of(config: Config) -> Peers | None:
    """
    Return who is a proxy; None: nobody.

    Raises:
        BindError: an account in --trusted-proxies does not exist.
    """
    try:
        return Peers(config.trusted_proxies) if config.trusted_proxies else None
    except LookupError as fault:
        raise BindError(f"cannot tell whom to trust: {fault.args[0]}; see --trusted-proxies") from None


def needs_identity(bind: Bind, peers: Peers) -> bool:
    """Whether a connection must find out by itself whether its peer is believed (`is_believed`)."""
    return bind.is_proxied or (bind.kind == "unix" and peers.needs_credentials)


class Trust:
    """What one listener believes."""

    def __init__(self, rules: Rules, is_believed: Callable[[Any], bool]) -> None:
        self._rules = rules
        self._is_believed = is_believed  # asked of a connection
        self._read_again = functools.lru_cache(KNOWN_MAX)(self._read)

    def apply(self, exchange: Exchange) -> bool:
        """
        Let an exchange look as a believed peer tells of its client; return whether it is believed.

        Raises:
            RequestRefused: a believed peer has sent something malformed.
        """
        assert exchange.forwarded is not None
        if not self._is_believed(exchange.connection):
            return False
        sent = tuple(exchange.forwarded.items())
        # Most clients ask more than once. Measured with CPython 3.11: 0.5 us instead of 8.
        is_short = sum([len(value) for _, value in sent]) <= KNOWN_BYTES
        _believe(exchange, self._read_again(sent) if is_short else self._read(sent))
        return True

    def _read(self, sent: tuple[tuple[str, str], ...]) -> Claims:
        return read_claims(dict(sent), self._rules)


def trust_of(config: Config, bind: Bind, peers: Peers | None) -> Trust | None:
    """Return what a listener believes; None: nothing."""
    # A front server that speaks uwsgi or SCGI is believed word for word; fields that it passes on are the app's.
    if peers is None or bind.protocol not in ("http", "https") or not config.forwarded_fields:
        return None
    names = frozenset(map(cgi_name, config.forwarded_fields))
    rules = Rules(names, config.trusted_hops, peers.has_address)
    if needs_identity(bind, peers):
        return Trust(rules, operator.attrgetter("is_believed"))
    if bind.kind == "unix":
        return Trust(rules, lambda connection: True) if peers.has_every_unix else None
    return Trust(rules, lambda connection: peers.has_peer(connection.remote_addr))


class TrustingGateway(Gateway):
    """A gateway that asks first whose request it is."""

    __slots__ = ("_has_said", "_inner", "_trust", "_where")

    def __init__(self, inner: Gateway, common_fields: CommonFields, trust: Trust, where: str) -> None:
        self._inner = inner
        self._common_fields = common_fields
        self._trust = trust
        self._where = where  # for the log
        self._has_said = False
        self.has_sendfile = inner.has_sendfile

    def respond(self, exchange: Exchange) -> Reply:
        """See Gateway.respond."""
        if exchange.forwarded is not None:
            try:
                if not self._trust.apply(exchange) and not self._has_said:
                    self._say(exchange)
            except RequestRefused as why:
                return self._refuse(exchange, why)
        return self._inner.respond(exchange)

    def _say(self, exchange: Exchange) -> None:
        self._has_said = True
        logger.info(
            "%s: %s came from %s, which is not in --trusted-proxies, and was removed (said once)",
            self._where,
            ", ".join(map(field_name, exchange.forwarded or ()))[:200],
            exchange.connection.remote_addr or "a unix socket",
        )

    def _refuse(self, exchange: Exchange, why: RequestRefused) -> bytes:
        logger.info("%s: answered %d: %s", exchange.connection.remote_addr or "unix socket", why.status, why)
        response = exchange.response = Response(exchange, self._common_fields)
        response.code = why.status
        return error_response(why.status, str(why), exchange, self._common_fields)


class TrustingLog:
    """The access log of a listener that trusts proxies: it names the client that they tell of in refused requests, too."""

    def __init__(self, inner: AccessLog, trust: Trust) -> None:
        self._inner = inner
        self._trust = trust
        self.write = inner.write

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Note a request that the app has not seen."""
        if exchange is not None and exchange.forwarded is not None:
            exchange.connection = connection
            try:
                self._trust.apply(exchange)
            except RequestRefused:
                pass  # it is refused anyhow
        self._inner.write_refused(connection, exchange, why)


def _believe(exchange: Exchange, claims: Claims) -> None:
    """Let the exchange look as if the client were connected to us."""
    base = exchange.connection.base_environ.copy()
    scheme = claims.scheme or base["wsgi.url_scheme"]
    base["wsgi.url_scheme"] = scheme
    if scheme == "https":
        base["HTTPS"] = "on"
    elif "HTTPS" in base:
        del base["HTTPS"]
    kept = claims.fields
    if claims.host or claims.port:
        kept += _name_host(exchange, claims, scheme)
    if claims.host:
        base["SERVER_NAME"], port = split_host(claims.host)
        # A port that the client typed, before that of the proxy's own configuration.
        base["SERVER_PORT"] = port or claims.port or DEFAULT_PORTS[scheme]
    elif claims.port or claims.scheme:
        base["SERVER_PORT"] = claims.port or DEFAULT_PORTS[scheme]
    if claims.prefix:
        base["SCRIPT_NAME"] = claims.prefix
    exchange.vars = "\0".join([exchange.vars, *[part for pair in kept for part in pair]])
    exchange.nvars += len(kept)
    connected = exchange.connection
    addr, port = claims.client or (connected.remote_addr, connected.remote_port)
    exchange.client = Client(addr, port, base)


def _name_host(exchange: Exchange, claims: Claims, scheme: str) -> tuple[tuple[str, str], ...]:
    """Name the host as the client has: by the proxy's word, or by its Host with a port that it has lost."""
    parts = exchange.vars.split("\0")
    names = parts[::2]
    place = 2 * names.index("HTTP_HOST") + 1 if "HTTP_HOST" in names else 0
    host = claims.host or (parts[place] if place else "")
    if host and not split_host(host)[1] and claims.port not in ("", DEFAULT_PORTS[scheme]):
        host = f"{host}:{claims.port}"
    if not place:
        return (("HTTP_HOST", host),) if host else ()
    parts[place] = host
    exchange.vars = "\0".join(parts)
    return ()
