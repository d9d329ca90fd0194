"""The environ of an app that was on another server: --environ-as.

Owns:     MovedEnviron, the extension; as_uwsgi and as_gunicorn, its layers around the app.
Thread:   the layers: a worker (with --threads 0: the event loop).
Spec:     uWSGI 2.0.31, core/protocol.c and plugins/python/wsgi_subhandler.c; gunicorn 23, gunicorn/http/message.py and gunicorn/http/wsgi.py.
Not here: keeping the fields, or removing them (proxies/forwarded.py), which peers are trusted (proxies/peers.py).

Both servers leave X-Forwarded-* to the app, from any peer, and REMOTE_ADDR is the peer's. uWSGI takes the scheme from X-Forwarded-Proto of any
peer, or from X-Forwarded-Ssl; gunicorn from the fields of peers that `forwarded_allow_ips` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ...extension import Extension
from ...proxies.forwarded import cgi_name
from ...proxies.peers import Peers
from ...proxies.trust import peers_of
from ...wsgi import WSGIApp
from ...wsgi.environ import SCHEMES
from .settings import NO_FIELDS, MovingSettings

PROTO, SSL = "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SSL"
SCHEME_FIELDS = ("x-forwarded-protocol: ssl", "x-forwarded-proto: https", "x-forwarded-ssl: on")  # gunicorn's default
CONTRADICTION = b"400: fields of the proxy contradict one another: one says https, and another http\n"


class MovedEnviron(Extension[MovingSettings]):
    """--environ-as."""

    switches = ("environ_as",)

    def __init__(self, config: MovingSettings) -> None:
        """See Extension; where proxies are named for an app of uWSGI, which knows of none, aserve's rules decide."""
        super().__init__(config)
        self.keeps_forwarded = config.environ_as == "gunicorn" or not config.trusted_proxies

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        if self._config.environ_as == "uwsgi":
            return as_uwsgi(app)
        named = self._config.scheme_fields or SCHEME_FIELDS
        fields = [text.split(": ") for text in named if text != NO_FIELDS]
        return as_gunicorn(app, peers_of(self._config), [(cgi_name(name), value) for name, value in fields])


def as_uwsgi(app: WSGIApp) -> WSGIApp:
    """Return an app that takes the scheme from the fields of any peer."""

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        proto = environ.get(PROTO)
        if proto:
            # Stricter than uWSGI: what is no scheme of HTTP changes nothing.
            environ["wsgi.url_scheme"] = SCHEMES.get(proto.lower(), environ["wsgi.url_scheme"])
        elif environ.get(SSL, "").lower() in ("on", "1"):
            environ["wsgi.url_scheme"] = "https"
        return app(environ, start_response)

    return call


def as_gunicorn(app: WSGIApp, peers: Peers | None, fields: Sequence[tuple[str, str]]) -> WSGIApp:
    """Return an app that finds RAW_URI, and takes the scheme from these fields of trusted peers, each with its value that says https."""

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["RAW_URI"] = environ.get("REQUEST_URI", "")
        said = [environ[name].lower() == secure for name, secure in fields if name in environ]
        if said and _is_trusted(peers, environ["REMOTE_ADDR"]):
            if True in said and False in said:
                start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
                return [CONTRADICTION]
            environ["wsgi.url_scheme"] = "https" if said[0] else "http"
        return app(environ, start_response)

    return call


def _is_trusted(peers: Peers | None, address: str) -> bool:
    """Whether a peer is trusted; a peer on a unix socket has no address."""
    return peers is not None and (peers.has_peer(address) if address else peers.has_every_unix)
