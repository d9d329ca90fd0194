"""Request pairs for two readers of one connection, and an app that tells what it has seen.

A file of corpus/desync is what a client sends on one connection; the JSON beside it is what
must become of it:

    seen      the requests that the app sees: method, target, body (null: the app did not read it)
    answers   the status of each answer; "cut": one that must not look whole; "100": an interim one
    then      "open": the next request is answered rightly; "closed": there is no next one
    end       "eof": the client says that it will send no more
    hosts     the Host of each request, where that is the point
    httptools what is otherwise with llhttp
    http2     what is otherwise over HTTP/2 (desync_http2.py)

The second request of most files is `/smuggled`, and in no answer.
"""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import apps

CORPUS = pathlib.Path(__file__).parents[1] / "corpus" / "desync"
# The limits that some files exceed.
SETTINGS = {"max_body_bytes": 10_000, "max_head_bytes": 16_384}


class Pair(NamedTuple):
    """One file of the corpus, for one parser."""

    name: str
    raw: bytes
    expected: dict[str, Any]

    def by(self, http_parser: str) -> dict[str, Any]:
        """Return the expected end by this parser."""
        return {**self.expected, **self.expected.get(http_parser, {})}


def load() -> list[Pair]:
    return [
        Pair(path.stem, path.read_bytes(), json.loads(path.with_suffix(".json").read_text()))
        for path in sorted(CORPUS.glob("*.raw"))
    ]


class Seen(NamedTuple):
    """A request, in the app's view."""

    method: str
    target: str
    body: str | None
    host: str
    tag: str  # the front server's name for it


class Witness:
    """An app that notes each whole request, and answers by its path."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._lock = threading.Lock()

    def take(self) -> list[Seen]:
        """Return the requests since the last call."""
        with self._lock:
            seen, self._seen = self._seen, []
        return seen

    def note(self, seen: Seen) -> None:
        with self._lock:
            self._seen.append(seen)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        target, tag = environ["REQUEST_URI"], environ.get("HTTP_X_FRONT_ID", "")
        body = None if target == "/unread" else environ["wsgi.input"].read().decode("latin-1")
        self.note(Seen(environ["REQUEST_METHOD"], target, body, environ.get("HTTP_HOST", ""), tag))
        return ANSWERS.get(target, _tell)(environ, start_response)


def _tell(environ: Any, start_response: Any) -> list[bytes]:
    headers = [("X-Target", environ["REQUEST_URI"]), ("X-Tag", environ.get("HTTP_X_FRONT_ID", ""))]
    start_response("200 OK", [*apps.PLAIN, *headers])
    return [b"seen"]


def _pieces(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", apps.PLAIN)
    yield b"one "
    yield b"two"


def _status(status: str, *headers: tuple[str, str]) -> Any:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response(status, list(headers))
        return [b"HTTP/1.1 200 Smuggled\r\nContent-Length: 0\r\n\r\n"]

    return app


ANSWERS = {
    "/long": apps.too_long,
    "/long-pieces": apps.too_long_lazily,
    "/short": apps.too_short,
    "/short-pieces": apps.too_short_lazily,
    "/cut": apps.raises_mid_stream,
    "/fail": apps.raises,
    "/pieces": _pieces,
    "/hints": apps.early_hints,
    "/100": _status("100 Continue"),
    "/101": _status("101 Switching Protocols"),
    "/204": _status("204 No Content"),
    "/304": _status("304 Not Modified"),
    "/304-length": _status("304 Not Modified", ("Content-Length", "100")),
    "/inject": _status("200 OK", ("X", "a\r\n\r\nHTTP/1.1 200 Smuggled\r\nContent-Length: 0\r\n\r\n")),
    "/two-lengths": _status("200 OK", ("Content-Length", "1"), ("Content-Length", "47")),
    "/own-encoding": _status("200 OK", ("Transfer-Encoding", "chunked")),
}
