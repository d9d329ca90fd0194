"""Answers to the challenges of an authority, from files that any process may have written.

Owns:     HTTPAnswers, the step of HTTP-01; the names of both kinds of challenges, and of their files.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 8555 section 8.3.
Not here: writing the files (challenges.py).
"""

from __future__ import annotations

from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...wsgi.environ import build_bodyless_environ
from ...wsgi.gateway import Before, Reply
from ...wsgi.response import CommonFields, plain_response
from .folder import MAX_BYTES, Folder

HTTP_01, TLS_ALPN_01 = "http-01", "tls-alpn-01"
PREFIX = "/.well-known/acme-challenge/"
# RFC 8555 8.1: base64url. So it is no path, and has no dot, as the names of all other files have.
TOKEN = lazy_pattern(r"[A-Za-z0-9_-]{1,200}")


def pem_name(name: str) -> str:
    """Return the file's name of the answer to TLS-ALPN-01 for a name."""
    return f"{name}.pem"


class HTTPAnswers(Before):
    """Answers what the authority asks; requests for other tokens reach the app, which may have answers of its own."""

    __slots__ = ("_common_fields", "_folder")

    def __init__(self, folder: Folder, common_fields: CommonFields) -> None:
        self._folder = folder
        self._common_fields = common_fields

    def before(self, exchange: Exchange) -> Reply | None:
        """Return the answer to a challenge; None: this request is none."""
        if PREFIX not in exchange.vars or exchange.rpc is not None:
            return None
        path: str = build_bodyless_environ(exchange)["PATH_INFO"]
        token = path[len(PREFIX) :]
        if not path.startswith(PREFIX) or not TOKEN.fullmatch(token):
            return None
        try:
            with open(self._folder.challenge(token), "rb") as file:
                text = file.read(MAX_BYTES).decode("ascii")
        except OSError:
            return None
        return plain_response(200, text, exchange, self._common_fields)
