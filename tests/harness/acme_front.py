"""What stands between an ACME client and Pebble: it passes requests on, and gives some answers in Pebble's place."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .pebble import Pebble

PORT = 14005  # at the authority's address
HANDED_ON = ("Content-Type", "Replay-Nonce", "Location", "Link", "Retry-After", "Cache-Control")


class Refusal(NamedTuple):
    """An answer with an error of RFC 8555 6.7."""

    status: int
    kind: str  # behind urn:ietf:params:acme:error:
    detail: str
    fields: dict[str, str] = {}


class Front:
    """A server of HTTPS; clients take it for the authority, whose URLs have the host that the client has named."""

    def __init__(self, pebble: Pebble) -> None:
        self.asked: list[str] = []  # method and path of each request
        self.refusals: dict[str, Refusal] = {}  # by the beginning of the path; "": all
        self._pebble = pebble
        self._server = http.server.ThreadingHTTPServer((pebble.host, PORT), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, pebble.issued))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Of the directory."""
        return f"https://{self._pebble.host}:{PORT}/dir"

    @contextlib.contextmanager
    def refusing(self, path: str, refusal: Refusal) -> Iterator[None]:
        """Refuse what is asked of this path, and below it, for the length of a block."""
        self.refusals[path] = refusal
        try:
            yield
        finally:
            del self.refusals[path]

    def _handler(self) -> Any:
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                front.asked.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                refused = [found for path, found in front.refusals.items() if self.path.startswith(path)]
                status, fields, text = refused_by(refused[0]) if refused else front.ask(self, body)
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

            do_GET = do_HEAD = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def ask(self, request: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Have Pebble answer a request."""
        client = http.client.HTTPSConnection(self._pebble.netloc, timeout=20, context=self._pebble.context)
        with contextlib.closing(client):
            client.request(request.command, request.path, body, dict(request.headers))
            response = client.getresponse()
            fields = [(name, value) for name, value in response.getheaders() if name in HANDED_ON]
            return response.status, fields, response.read()

    def end(self) -> None:
        """Close it."""
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()


def refused_by(refusal: Refusal) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the response of a refusal."""
    problem = {
        "type": f"urn:ietf:params:acme:error:{refusal.kind}", "detail": refusal.detail, "status": refusal.status
    }  # fmt: skip
    fields = [("Content-Type", "application/problem+json"), *refusal.fields.items()]
    return refusal.status, fields, json.dumps(problem).encode()
