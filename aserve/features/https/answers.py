"""Answers to the challenges of an authority, from files written by any process.

Owns:     HTTPAnswers, the step of HTTP-01; new_context, the context of TLS-ALPN-01; the names of the files.
Thread:   HTTPAnswers a worker (with --threads 0: the event loop); new_context the event loop.
Spec:     RFC 8555 section 8.3; RFC 8737 section 3.
Not here: writing the files (challenges.py).
"""

from __future__ import annotations

import ssl
from collections.abc import Container
from typing import Callable

from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...tls.errors import guard
from ...wsgi.environ import build_bodyless_environ
from ...wsgi.gateway import Before, Reply
from ...wsgi.response import CommonFields, plain_response
from .folder import MAX_BYTES, Folder

ALPN_NAME = "acme-tls/1"  # RFC 8737 6.2
PREFIX = "/.well-known/acme-challenge/"
# RFC 8555 8.1: base64url. So a token is no path, and has no dot, unlike the names of all other files.
TOKEN = lazy_pattern(r"[A-Za-z0-9_-]{1,200}")


def pem_name(name: str) -> str:
    """Return the file's name of the answer to TLS-ALPN-01 for a name."""
    return f"{name}.pem"


class HTTPAnswers(Before):
    """Answers the authority's questions; requests for other tokens reach the app, maybe with answers of the app's own."""

    __slots__ = ("_common_fields", "_folder", "_others")

    def __init__(self, folder: Folder, common_fields: CommonFields, others: Callable[[str], bytes | None]) -> None:
        """`others`: returns the answer to a token of another host's order; None: no answer."""
        self._folder, self._others = folder, others
        self._common_fields = common_fields

    def before(self, exchange: Exchange) -> Reply | None:
        """Return the answer to a challenge; None: this request is none."""
        if PREFIX not in exchange.vars or exchange.rpc is not None:
            return None
        path: str = build_bodyless_environ(exchange)["PATH_INFO"]
        token = path[len(PREFIX) :]
        if not path.startswith(PREFIX) or not TOKEN.fullmatch(token):
            return None
        octets = self._read(token) or self._others(token)
        return plain_response(200, octets.decode("latin-1"), exchange, self._common_fields) if octets else None

    def _read(self, token: str) -> bytes:
        try:
            with open(self._folder.challenge(token), "rb") as file:
                return file.read(MAX_BYTES)
        except OSError:
            return b""


def new_context(folder: Folder, names: Container[str], name: str) -> ssl.SSLContext | None:
    """Return the context of a handshake that answers a challenge; None: none is under way for this name, which the client sends."""
    name = name.lower()
    if name not in names:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 8737 3
    context.set_alpn_protocols([ALPN_NAME])
    try:
        guard(context.load_cert_chain)(folder.challenge(pem_name(name)))
    except OSError:  # an SSLError is one
        return None
    return context
