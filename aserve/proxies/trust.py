"""Applying the claims of trusted proxies about their clients.

Owns:     turning claims into REMOTE_ADDR, scheme, host, port and SCRIPT_NAME as known to the client; on listeners with trusted proxies, the users
          are the access log and the step before the app.
Thread:   a worker; TrustingLog.write_refused on the event loop.
Spec:     RFC 7239 section 5; PEP 3333 "URL Reconstruction".
Not here: the trusted peers (peers.py), reading the fields (forwarded.py), the PROXY protocol (connections/accepting/greeting.py).

A listener without trusted proxies needs none of this: `strip_forwarded` has removed the fields, and requests do not pass through here.
"""

from __future__ import annotations

import functools
import logging
import operator
from typing import Any, Callable

from ..core.ends import EndsParts, NativeEnds, RequestLog
from ..core.errors import BindError, RequestRefused
from ..core.exchange import REFUSED, Client, Exchange
from ..core.log_once import LogOnce
from ..settings import Bind, EngineSettings
from ..wsgi import Reply
from ..wsgi.environ import Environ
from ..wsgi.gateway import Before
from ..wsgi.response import CommonFields, Response, error_response
from .forwarded import DEFAULT_PORTS, Claims, Rules, cgi_name, field_name, read_claims, split_host
from .peers import Peers

logger = logging.getLogger("aserve")

# The number of cached claims, and the octets of each. Guess: 1 MiB in all, at most.
KNOWN_MAX = 1024
KNOWN_BYTES = 256


def peers_of(config: EngineSettings) -> Peers | None:
    """
    Return the peers that are proxies; None: no peer is.

    Raises:
        BindError: an account in --trusted-proxies does not exist.
    """
    try:
        return Peers(config.trusted_proxies) if config.trusted_proxies else None
    except LookupError as fault:
        raise BindError(f"cannot resolve --trusted-proxies: {fault.args[0]}") from None


def needs_identity(bind: Bind, peers: Peers) -> bool:
    """Whether each connection must find out the trust in the peer (`is_believed`)."""
    return bind.is_proxied or (bind.kind == "unix" and peers.needs_credentials)


class Trust:
    def __init__(self, rules: Rules, is_believed: Callable[[Any], bool]) -> None:
        self._rules = rules
        self.is_believed = is_believed  # asked of a connection
        self._read_again = functools.lru_cache(KNOWN_MAX)(self._read)

    def apply(self, exchange: Exchange) -> bool:
        """
        Rewrite an exchange by the claims of a trusted peer; return whether the peer is trusted.

        Raises:
            RequestRefused: a trusted peer has sent a malformed field.
        """
        assert exchange.forwarded is not None
        if not self.is_believed(exchange.connection):
            return False
        _believe(exchange, self._claims_of(exchange.forwarded))
        return True

    def changes(self, exchange: Exchange) -> Environ:
        """
        Return the entries of an environ changed by a trusted peer's claims; the exchange stays unchanged. HTTPS stays, too.

        Raises:
            RequestRefused: the claims are malformed.
        """
        assert exchange.forwarded is not None
        claims = self._claims_of(exchange.forwarded)
        changes = _changes_of_base(claims, exchange.connection.base_environ)
        if claims.host or claims.port:
            parts, place = _find_host(exchange)
            changes["HTTP_HOST"] = _host_as_sent(parts[place] if place else "", claims, changes["wsgi.url_scheme"])
            if not changes["HTTP_HOST"]:
                del changes["HTTP_HOST"]
        changes.update(claims.fields)
        if claims.client is not None:
            changes["REMOTE_ADDR"], changes["REMOTE_PORT"] = claims.client
        return changes

    def _claims_of(self, forwarded: dict[str, str]) -> Claims:
        sent = tuple(forwarded.items())
        # Most clients ask more than once. Measured with CPython 3.11: 0.5 us instead of 8.
        is_short = sum([len(value) for _, value in sent]) <= KNOWN_BYTES
        return self._read_again(sent) if is_short else self._read(sent)

    def _read(self, sent: tuple[tuple[str, str], ...]) -> Claims:
        return read_claims(dict(sent), self._rules)


def trust_of(config: EngineSettings, bind: Bind, peers: Peers | None) -> Trust | None:
    """Return the Trust of a listener; None: no peer is trusted."""
    # A front server with uwsgi or SCGI is believed in everything; the fields passed on are the app's.
    if peers is None or bind.protocol not in ("http", "https") or not config.forwarded_fields:
        return None
    is_believed = who_is_believed(bind, peers)
    if is_believed is None:
        return None
    names = frozenset(map(cgi_name, config.forwarded_fields))
    return Trust(Rules(names, config.trusted_hops, peers.has_address), is_believed)


def who_is_believed(bind: Bind, peers: Peers) -> Callable[[Any], bool] | None:
    """Return a function that says whether a connection's peer is trusted; None: no peer can be."""
    if needs_identity(bind, peers):
        return operator.attrgetter("is_believed")
    if bind.kind == "unix":
        return (lambda connection: True) if peers.has_every_unix else None
    return lambda connection: peers.has_peer(connection.remote_addr)


class TrustedProxies(Before):
    """Rewrites each exchange as trusted proxies describe the client."""

    __slots__ = ("_common_fields", "_where", "line", "trust")
    is_done_in_c = True

    def __init__(self, common_fields: CommonFields, trust: Trust, where: str) -> None:
        self._common_fields = common_fields
        self.trust = trust
        self._where = where  # for the log
        self.line = LogOnce(logger, logging.INFO)

    def before(self, exchange: Exchange) -> Reply | None:
        """Rewrite the exchange of a trusted peer; refuse malformed fields of the peer."""
        if exchange.forwarded is not None:
            try:
                if not self.trust.apply(exchange) and not self.line.is_said:
                    self._log_removal(exchange)
            except RequestRefused as why:
                return self._refuse(exchange, why)
        return None

    def _log_removal(self, exchange: Exchange) -> None:
        self.line.log(
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
    """The access log of a listener with trusted proxies: also a refused request shows the client named by the proxy."""

    def __init__(self, inner: RequestLog, trust: Trust) -> None:
        self._inner = inner
        self._trust = trust
        self.write = inner.write

    @property
    def parts(self) -> EndsParts:
        """See RequestLog.parts."""
        return self._inner.parts

    def attach(self, native: NativeEnds) -> None:
        """See RequestLog.attach."""
        self._inner.attach(native)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Add the line of a request unseen by the app."""
        if exchange is not None and exchange.forwarded is not None:
            exchange.connection = connection
            try:
                self._trust.apply(exchange)
            except RequestRefused:
                pass  # refused anyhow
        self._inner.write_refused(connection, exchange, why)


def _believe(exchange: Exchange, claims: Claims) -> None:
    """Rewrite the exchange as if the client were connected to us."""
    base = (exchange.client or exchange.connection).base_environ.copy()
    base.update(_changes_of_base(claims, base))
    scheme = base["wsgi.url_scheme"]
    if scheme != "https" and "HTTPS" in base:
        del base["HTTPS"]
    kept = claims.fields
    if claims.host or claims.port:
        kept += _name_host(exchange, claims, scheme)
    exchange.vars = "\0".join([exchange.vars, *[part for pair in kept for part in pair]])
    connected = exchange.connection
    addr, port = claims.client or (connected.remote_addr, connected.remote_port)
    exchange.client = Client(addr, port, base)


def _changes_of_base(claims: Claims, base: Environ) -> Environ:
    """Return the entries that differ in the client's base environ; if the scheme is not https, the caller removes HTTPS."""
    scheme = claims.scheme or base["wsgi.url_scheme"]
    changes: Environ = {"wsgi.url_scheme": scheme}
    if scheme == "https":
        changes["HTTPS"] = "on"
    if claims.host:
        changes["SERVER_NAME"], port = split_host(claims.host)
        # A port typed by the client, before the port of the proxy's own configuration.
        changes["SERVER_PORT"] = port or claims.port or DEFAULT_PORTS[scheme]
    elif claims.port or claims.scheme:
        changes["SERVER_PORT"] = claims.port or DEFAULT_PORTS[scheme]
    if claims.prefix:
        changes["SCRIPT_NAME"] = claims.prefix
    return changes


def _find_host(exchange: Exchange) -> tuple[list[str], int]:
    """Return the parts of the vars, and the place of Host's value; 0: there is none."""
    parts = exchange.vars.split("\0")
    names = parts[::2]
    return parts, 2 * names.index("HTTP_HOST") + 1 if "HTTP_HOST" in names else 0


def _host_as_sent(host: str, claims: Claims, scheme: str) -> str:
    """Return Host as sent by the client: as claimed, or with the port dropped by a proxy."""
    host = claims.host or host
    is_bare = host and not split_host(host)[1] and claims.port not in ("", DEFAULT_PORTS[scheme])
    return f"{host}:{claims.port}" if is_bare else host


def _name_host(exchange: Exchange, claims: Claims, scheme: str) -> tuple[tuple[str, str], ...]:
    """Set Host as sent by the client; return Host if there was none."""
    parts, place = _find_host(exchange)
    host = _host_as_sent(parts[place] if place else "", claims, scheme)
    if not place:
        return (("HTTP_HOST", host),) if host else ()
    parts[place] = host
    exchange.vars = "\0".join(parts)
    return ()
