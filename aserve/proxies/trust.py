"""What a listener believes of its peers' words about their clients, and what follows from it.

Owns:     turning claims into REMOTE_ADDR, scheme, host, port and SCRIPT_NAME as
          the client knows them; the gateway and the access log that do so, on
          listeners that trust somebody.
Thread:   a worker; TrustingLog.write_refused on the event loop.
Spec:     RFC 7239 section 5; PEP 3333 "URL Reconstruction".
Not here: who is believed (peers.py), reading the fields (forwarded.py), the
          PROXY protocol (connections/greeting.py).

A listener that trusts nobody has none of this: `strip_forwarded` has removed the
fields, and its requests do not pass through here.
"""

from __future__ import annotations

import functools
import logging
import operator
from typing import Any, Callable

from ..errors import BindError, RequestRefused
from ..exchange import REFUSED, Client, Exchange
from ..log_once import LogOnce
from ..request_log import RequestLog
from ..settings import Bind, Config
from ..wsgi import Gateway, Reply
from ..wsgi.response import CommonFields, Response, error_response
from .forwarded import DEFAULT_PORTS, Claims, Rules, cgi_name, field_name, read_claims, split_host
from .peers import Peers

logger = logging.getLogger("aserve")

# How many claims are cached, and how many octets one of them may have. Guess: 1 MiB in all, at most.
KNOWN_MAX = 1024
KNOWN_BYTES = 256


def peers_of(config: Config) -> Peers | None:
    """
    Return the peers that are proxies; None: there are none.

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
        self.is_believed = is_believed  # asked of a connection
        self._read_again = functools.lru_cache(KNOWN_MAX)(self._read)

    def apply(self, exchange: Exchange) -> bool:
        """
        Rewrite an exchange as its peer describes the client, if the peer is believed; return whether it is.

        Raises:
            RequestRefused: a believed peer has sent something malformed.
        """
        assert exchange.forwarded is not None
        if not self.is_believed(exchange.connection):
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
    # A front server that speaks uwsgi or SCGI is believed in everything; the fields that it passes on are the app's.
    if peers is None or bind.protocol not in ("http", "https") or not config.forwarded_fields:
        return None
    is_believed = who_is_believed(bind, peers)
    if is_believed is None:
        return None
    names = frozenset(map(cgi_name, config.forwarded_fields))
    return Trust(Rules(names, config.trusted_hops, peers.has_address), is_believed)


def who_is_believed(bind: Bind, peers: Peers) -> Callable[[Any], bool] | None:
    """Return what says of a connection whether its peer is believed; None: no peer can be."""
    if needs_identity(bind, peers):
        return operator.attrgetter("is_believed")
    if bind.kind == "unix":
        return (lambda connection: True) if peers.has_every_unix else None
    return lambda connection: peers.has_peer(connection.remote_addr)


class TrustingGateway(Gateway):
    """A gateway that first rewrites each exchange as trusted proxies describe the client."""

    __slots__ = ("_inner", "_line", "_trust", "_where")

    def __init__(self, inner: Gateway, common_fields: CommonFields, trust: Trust, where: str) -> None:
        self._inner = inner
        self._common_fields = common_fields
        self._trust = trust
        self._where = where  # for the log
        self._line = LogOnce(logger, logging.INFO)
        self.has_sendfile = inner.has_sendfile

    def respond(self, exchange: Exchange) -> Reply:
        """Rewrite the exchange if its peer is trusted, then let the inner gateway respond; see Gateway.respond."""
        if exchange.forwarded is not None:
            try:
                if not self._trust.apply(exchange) and not self._line.is_said:
                    self._log_removal(exchange)
            except RequestRefused as why:
                return self._refuse(exchange, why)
        return self._inner.respond(exchange)

    def _log_removal(self, exchange: Exchange) -> None:
        self._line.log(
            "%s: %s came from %s, which is not in --trusted-proxies, and was removed (said once)",
            self._where,
            ", ".join(map(field_name, exchange.forwarded or ()))[:200],
            exchange.connection.remote_addr or "a unix socket",
        )

    def _refuse(self, exchange: Exchange, why: RequestRefused) -> bytes:
        logger.info("%s: answered %d: %s", exchange.connection.remote_addr or "unix socket", why.status, why)
        response = exchange.response = Response(exchange, self._common_fields)
        response.code, exchange.end = why.status, REFUSED
        return error_response(why.status, str(why), exchange, self._common_fields)


class TrustingLog:
    """The access log of a listener that trusts proxies: refused requests show the client that they name, too."""

    def __init__(self, inner: RequestLog, trust: Trust) -> None:
        self._inner = inner
        self._trust = trust
        self.write = inner.write

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Add the line of a request that the app has not seen."""
        if exchange is not None and exchange.forwarded is not None:
            exchange.connection = connection
            try:
                self._trust.apply(exchange)
            except RequestRefused:
                pass  # it is refused anyhow
        self._inner.write_refused(connection, exchange, why)


def _believe(exchange: Exchange, claims: Claims) -> None:
    """Rewrite the exchange as if the client were connected to us."""
    base = (exchange.client or exchange.connection).base_environ.copy()
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
    connected = exchange.connection
    addr, port = claims.client or (connected.remote_addr, connected.remote_port)
    exchange.client = Client(addr, port, base)


def _name_host(exchange: Exchange, claims: Claims, scheme: str) -> tuple[tuple[str, str], ...]:
    """Set Host as the client has sent it: as claimed, or with a port that it has lost; return it if there was none."""
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
