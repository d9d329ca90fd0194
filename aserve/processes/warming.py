"""Requests that an app answers before it serves, so that what it makes for its first ones is there.

Owns:     WarmUp: one GET after another, through parser and gateway as any other, without a client.
Thread:   the main thread of a mold.
Not here: which, and when (mold.py); parsing (protocols/http1.py), calling the app (wsgi/gateway.py).
"""

from __future__ import annotations

import logging
import time
import types
from typing import Any

from ..connections.listeners import Listener
from ..errors import ClientDisconnected, ResponseTruncated
from ..exchange import Exchange
from ..protocols.base import Limits
from ..protocols.http1 import new_factory
from ..settings import Config
from ..settings.secrecy import show_place
from ..wsgi import FileResponse, FileWrapper, Gateway, Reply, WSGIApp
from ..wsgi.environ import build_base_environ
from ..wsgi.response import CommonFields

logger = logging.getLogger("aserve")

HOST = "localhost"


class _Nobody:
    """Takes the place of a connection: it reads everything at once."""

    remote_addr, remote_port = "127.0.0.1", "0"

    def __init__(self, config: Config, base_environ: dict[str, Any]) -> None:
        self.service = types.SimpleNamespace(config=config)  # nobody listens: an exchange asks it for settings alone
        self.base_environ = base_environ

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Drop what the app has written by write(), or as early hints."""


class WarmUp:
    """An app, and what its requests have in common."""

    def __init__(self, app: WSGIApp, config: Config, listener: Listener) -> None:
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
                multiprocess=True,
                file_wrapper=FileWrapper,
            ),
        )

    def answer(self, place: str) -> None:
        """Have the app answer a GET for PATH or HOST/PATH; log what has come of it."""
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
            code = 500  # the gateway has logged why
        else:
            code = exchange.response.code
        seconds = time.monotonic() - began_at
        shown = place if self._nobody.service.config.show_queries else show_place(place)
        if code < 400:
            logger.info("--warm-up %s: status %d, after %.2f s", shown, code, seconds)
        else:
            why = (
                "its reason is above"
                if code >= 500
                else "that warms little; write HOST/PATH if the app asks for a host"
            )
            logger.warning(
                "--warm-up %s: status %d, after %.2f s: %s; workers start all the same", shown, code, seconds, why
            )


def _consume(reply: Reply) -> None:
    if isinstance(reply, FileResponse):
        reply.close()
    elif not isinstance(reply, (bytes, tuple)):
        for _ in reply:
            pass
