"""Requests answered by an app before the app serves, so that caches and connections are ready for the first clients.

Owns:     warm_up, WarmUp: a GET after another, through parser and gateway, without a client; handling a 5xx.
Thread:   the main thread of a mold, or of a worker without a mold.
Not here: when (mold.py, worker.py), the consequence of a failure (fleet/decide.py); parsing (protocols/http1.py), calling the app (wsgi/gateway.py).
"""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Sequence
from typing import Any

from ...connections.listeners import Listener
from ...core.errors import FAILED, AserveError, ClientDisconnected, ResponseTruncated
from ...core.exchange import Exchange
from ...protocols.base import Limits
from ...protocols.http1 import new_factory
from ...settings import EngineSettings
from ...settings.secrecy import show_place
from ...wsgi import FileResponse, FileWrapper, Gateway, Reply, WSGIApp
from ...wsgi.environ import build_base_environ
from ...wsgi.response import CommonFields

logger = logging.getLogger("aserve")

HOST = "localhost"


class WarmUpFailed(AserveError):
    """New code has answered a request of --warm-up with an error: the app's fault."""

    exit_status = FAILED


def warm_up(app: WSGIApp, config: EngineSettings, listeners: Sequence[Listener], is_new: bool) -> None:
    """
    Have the app answer each request of --warm-up.

    `is_new`: no worker serves this code yet. Then an error of the app is like an error at import. Otherwise the cause lies elsewhere, such as
    a database out of reach, and a worker fewer would not help.

    Raises:
        WarmUpFailed: `is_new`, and the app has answered a request with 5xx.
    """
    if not config.warm_up or not listeners:
        return
    one = WarmUp(app, config, listeners[0])
    for place in config.warm_up:
        code = one.answer(place)
        if is_new and code >= 500:
            raise WarmUpFailed(f"the app has answered --warm-up {one.show(place)} with status {code}; its log says why")


class _Nobody:
    """In place of a connection: the client reads everything at once."""

    remote_addr, remote_port = "127.0.0.1", "0"

    def __init__(self, config: EngineSettings, base_environ: dict[str, Any]) -> None:
        # No listener: an exchange asks for settings, and for the loop.
        self.service = types.SimpleNamespace(config=config, loop=None)
        self.base_environ = base_environ

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Drop octets of write() and early hints."""


class WarmUp:
    """An app, and the common parts of requests."""

    def __init__(self, app: WSGIApp, config: EngineSettings, listener: Listener) -> None:
        self._gateway = Gateway(app, CommonFields(config.server_name), has_sendfile=True)
        self._new_protocol = new_factory(Limits())
        scheme = "https" if listener.bind.protocol == "https" else "http"
        self._nobody = _Nobody(
            config,
            build_base_environ(
                *listener.server_name_and_port,
                server_software=config.server_name or "aserve",
                scheme=scheme,
                multithread=config.threads > 1,
                multiprocess=not config.is_of_one,
                file_wrapper=FileWrapper,
            ),
        )

    def show(self, place: str) -> str:
        """Return PATH or HOST/PATH in the form for the log."""
        return place if self._nobody.service.config.show_queries else show_place(place)

    def answer(self, place: str) -> int:
        """Have the app answer a GET for PATH or HOST/PATH; log the result, and return the status."""
        host, slash, path = place.partition("/")
        head = (
            f"GET {slash}{path} HTTP/1.1\r\nHost: {host or HOST}\r\nUser-Agent: aserve --warm-up\r\nAccept: */*\r\n\r\n"
        )
        (exchange,) = self._new_protocol().receive(head.encode("latin-1"))
        exchange.connection = self._nobody
        began_at = time.monotonic()
        try:
            _consume(self._gateway.respond(exchange))
        except (ResponseTruncated, ClientDisconnected):
            code: int = 500  # the gateway has logged why
        else:
            code = exchange.response.code
        seconds = time.monotonic() - began_at
        shown = self.show(place)
        if code < 400:
            logger.info("--warm-up %s: status %d, after %.2f s", shown, code, seconds)
        else:
            logger.warning("--warm-up %s: status %d, after %.2f s: %s", shown, code, seconds, _advice(code, host))
        return code


def _advice(code: int, host: str) -> str:
    """Return where to look after an error status; `host`: as the setting gave the host, or empty."""
    if code >= 500:
        return "the log has its reason"
    return f"that warms little; {'does the app accept this host?' if host else 'write HOST/PATH if the app asks for a host'}"


def _consume(reply: Reply) -> None:
    if isinstance(reply, FileResponse):
        reply.close()
    elif not isinstance(reply, (bytes, tuple)):
        for _ in reply:
            pass
