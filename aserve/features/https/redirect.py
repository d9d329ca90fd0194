"""Sends clients from HTTP to HTTPS, and has browsers stay there: --https-redirect, --hsts.

Owns:     HTTPSOnly, the extension; HTTPSRedirect, a step.
Thread:   the step: a worker (with --threads 0: the event loop).
Spec:     RFC 9110 section 15.4.9 (308), RFC 6797 (HSTS).
Not here: health checks, answered before any step (connections/health.py); our own answers to authorities, in an earlier step (answers.py).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Container, Sequence

from ...core.escaping import escape_url
from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...extension import Extension, ListenerContext, ServerContext
from ...proxies.forwarded import split_host
from ...wsgi.environ import build_bodyless_environ
from ...wsgi.gateway import Before, Reply
from ...wsgi.response import CommonFields, plain_response
from .answers import PREFIX
from .folder import Folder
from .notes import Notes
from .settings import HTTPSSettings, folder_of

HTTPS_PORT = 443
# RFC 9112 3.2.2: the absolute form, whose authority is the Host already.
_AUTHORITY = lazy_pattern(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")


class HTTPSRedirect(Before):
    """Redirects each request without TLS to the same place over https."""

    __slots__ = ("_common_fields", "_names", "_port", "_waiting")

    def __init__(
        self, names: Sequence[str], port: int, common_fields: CommonFields, waiting: Container[str] = ()
    ) -> None:
        """
        Make the step of a listener.

        `names`: of the site; a request for another host is sent to the first. Empty: the request's own host is kept. `waiting`: names without a
        certificate yet.
        """
        self._names, self._waiting = names, waiting
        self._port = "" if port == HTTPS_PORT else f":{port}"
        self._common_fields = common_fields

    def before(self, exchange: Exchange) -> Reply | None:
        """
        Return the redirect; None: the app answers.

        The app answers if a trusted proxy reports a client with TLS; if an authority asks, maybe for certbot's answer; and as long as there is no
        certificate for the name: browsers would show a warning in place of the site, and remember the way there.
        """
        environ = build_bodyless_environ(exchange)
        if environ["wsgi.url_scheme"] == "https" or environ["PATH_INFO"].startswith(PREFIX):
            return None
        host = split_host(environ.get("HTTP_HOST", ""))[0].lower().rstrip(".")
        if self._names and host not in self._names:
            host = self._names[0]
        if host in self._waiting:
            return None
        if not host:  # HTTP/1.0
            return plain_response(
                400, "400 Bad Request: this site is served at https:// only", exchange, self._common_fields
            )
        place = f"https://{host}{self._port}{_path_of(environ['REQUEST_URI'])}"
        fields = f"Location: {place}\r\n".encode("ascii")
        return plain_response(308, f"308 Permanent Redirect: {place}", exchange, self._common_fields, fields)


def _path_of(target: str) -> str:
    """Return path and query of a request target (RFC 9112 section 3.2), without octets forbidden in a field."""
    path = _AUTHORITY.sub("", target, count=1)
    path = path if path.startswith("/") else f"/{path.lstrip('*')}"
    return escape_url(path)


class HTTPSOnly(Extension[HTTPSSettings]):
    """--https-redirect, --hsts."""

    switches = ("https_redirect",)
    _port = HTTPS_PORT  # from `start` on

    def __init__(self, config: HTTPSSettings) -> None:
        """See Extension."""
        super().__init__(config)
        self._folder = Folder(folder_of(config))
        self._waiting = set(config.https)

    @classmethod
    def is_on(cls, config: HTTPSSettings) -> bool:
        """See Extension."""
        return config.hsts is not None or config.redirects

    def start(self, context: ServerContext) -> None:
        """Learn the port of the first listener of TLS, unless given in the settings."""
        port = self._config.https_redirect
        urls = map(urllib.parse.urlsplit, context.server.urls)
        found = next((url.port for url in urls if url.scheme == "https" and url.port), HTTPS_PORT)
        self._port = port if isinstance(port, int) else found
        self.on_second()

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension; a front server with uwsgi or SCGI has redirects of its own."""
        if not self._config.redirects or context.listener.bind.protocol != "http":
            return None
        return HTTPSRedirect(self._config.https, self._port, context.common_fields, self._waiting)

    def fields(self, is_tls: bool) -> Sequence[tuple[str, str]]:
        """See Extension; RFC 6797 section 7.2."""
        return [("Strict-Transport-Security", self._config.hsts)] if is_tls and self._config.hsts is not None else []

    def on_second(self) -> None:
        """Look for new certificates; once all are there, there is nothing to look at."""
        for name in [*self._waiting]:
            if Notes.of(self._folder, name).has_certificate:
                self._waiting.discard(name)
