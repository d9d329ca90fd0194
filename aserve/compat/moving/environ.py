"""The environ of an app that was on another server: --environ-as.

Owns:     MovedEnviron, the extension; as_uwsgi and as_gunicorn, its layers around the app.
Thread:   the layers: a worker (with --threads 0: the event loop).
Spec:     uWSGI 2.0.31, core/protocol.c, proto/http.c and plugins/python/wsgi_subhandler.c; gunicorn 23, gunicorn/http/message.py and gunicorn/http/wsgi.py.
Not here: keeping the fields, or removing them (proxies/forwarded.py), which peers are trusted (proxies/peers.py).

uWSGI names itself and its machine, and an HTTP server's SERVER_NAME is the machine's; gunicorn's is the address that is bound, or for a unix
socket the Host field.

Both servers leave X-Forwarded-* to the app, from any peer, and REMOTE_ADDR is the peer's. uWSGI takes the scheme from X-Forwarded-Proto of any
peer, or from X-Forwarded-Ssl; gunicorn from the fields of peers that `forwarded_allow_ips` names.

uWSGI takes segments of dots out of the path of an HTTP request. With routes, which must see the same path as the app, they do that.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable
from urllib.parse import unquote

from ...core.escaping import decode_path, path_of
from ...extension import FORWARDED, Extension
from ...proxies.forwarded import DEFAULT_PORTS, cgi_name
from ...proxies.peers import Peers
from ...proxies.trust import peers_of
from ...settings import parse_bind
from ...wsgi import WSGIApp
from ...wsgi.environ import SCHEMES
from .settings import NO_FIELDS, UWSGI_VERSION, MovingSettings

PROTO, SSL = "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SSL"
SCHEME_FIELDS = ("x-forwarded-protocol: ssl", "x-forwarded-proto: https", "x-forwarded-ssl: on")  # gunicorn's default
EVERY = ("", "0.0.0.0", "::")  # binds of all addresses, whose SERVER_NAME is the machine's name in aserve
CONTRADICTION = b"400: fields of the proxy contradict one another: one says https, and another http\n"


class MovedEnviron(Extension[MovingSettings]):
    """--environ-as."""

    switches = ("environ_as",)

    def __init__(self, config: MovingSettings) -> None:
        """See Extension; where proxies are named for an app of uWSGI, which knows of none, aserve's rules decide."""
        super().__init__(config)
        self.keeps = (FORWARDED,) if config.environ_as == "gunicorn" or not config.trusted_proxies else ()

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        if self._config.environ_as == "uwsgi":
            hosts = _hosts_by_port(self._config.bind, is_http=True)
            return as_uwsgi(app, hosts, has_dots=not getattr(self._config, "route", ()))
        named = self._config.scheme_fields or SCHEME_FIELDS
        fields = [text.split(": ") for text in named if text != NO_FIELDS]
        hosts = _hosts_by_port(self._config.bind, is_http=False)
        return as_gunicorn(app, peers_of(self._config), [(cgi_name(name), value) for name, value in fields], hosts)


def _hosts_by_port(binds: Iterable[str], is_http: bool) -> dict[str, str]:
    """Return the host of each port that is bound; `is_http`: for HTTP alone."""
    return {
        str(bind.port): bind.host or EVERY[1]
        for bind in map(parse_bind, binds)
        if bind.kind == "tcp" and (not is_http or bind.protocol in DEFAULT_PORTS)
    }


def as_uwsgi(app: WSGIApp, hosts: Mapping[str, str], has_dots: bool) -> WSGIApp:
    """
    Return an app that takes the scheme from the fields of any peer, and finds uWSGI's own variables.

    `hosts`: of HTTP, by port; `has_dots`: whether a path may still have segments of dots.
    """
    node = socket.gethostname()
    own = {"uwsgi.version": UWSGI_VERSION.encode(), "uwsgi.node": node.encode()}

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        proto = environ.get(PROTO)
        if proto:
            # Stricter than uWSGI: what is no scheme of HTTP changes nothing.
            environ["wsgi.url_scheme"] = SCHEMES.get(proto.lower(), environ["wsgi.url_scheme"])
        elif environ.get(SSL, "").lower() in ("on", "1"):
            environ["wsgi.url_scheme"] = "https"
        environ.update(own)
        target = environ.get("REQUEST_URI", "")
        # A front server's PATH_INFO stays: it is without dots, or is not what the target says.
        if has_dots and "/." in target and environ["PATH_INFO"] == unquote(path_of(target), "latin-1"):
            environ["PATH_INFO"] = decode_path(path_of(target))
        if environ["SERVER_NAME"] == hosts.get(environ["SERVER_PORT"]):
            environ["SERVER_NAME"] = node
        return app(environ, start_response)

    return call


def as_gunicorn(
    app: WSGIApp, peers: Peers | None, fields: Sequence[tuple[str, str]], hosts: Mapping[str, str]
) -> WSGIApp:
    """
    Return an app that finds RAW_URI and gunicorn's SERVER_NAME.

    It takes the scheme from `fields` of trusted peers, each with its value that says https; `hosts`: by port.
    """

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["RAW_URI"] = environ.get("REQUEST_URI", "")
        said = [environ[name].lower() == secure for name, secure in fields if name in environ]
        if said and _is_trusted(peers, environ["REMOTE_ADDR"]):
            if True in said and False in said:
                start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
                return [CONTRADICTION]
            environ["wsgi.url_scheme"] = "https" if said[0] else "http"
        _name_server(environ, hosts)
        return app(environ, start_response)

    return call


def _name_server(environ: dict[str, Any], hosts: Mapping[str, str]) -> None:
    """Put the bound address in place of the machine's name; on a unix socket what the Host field says."""
    if environ["REMOTE_ADDR"]:
        host = hosts.get(environ["SERVER_PORT"], "")
        if host in EVERY[1:]:
            environ["SERVER_NAME"] = host
        return
    host, colon, port = environ.get("HTTP_HOST", "").rpartition(":")
    if "]" in port or not colon:  # an address of IPv6, or no port
        host, port = f"{host}{colon}{port}", ""
    if host:
        environ["SERVER_NAME"], environ["SERVER_PORT"] = host, port or DEFAULT_PORTS[environ["wsgi.url_scheme"]]


def _is_trusted(peers: Peers | None, address: str) -> bool:
    """Whether a peer is trusted; a peer on a unix socket has no address."""
    return peers is not None and (peers.has_peer(address) if address else peers.has_every_unix)
