"""A front between an ACME client and Pebble: passes requests on, and gives some answers in Pebble's place."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import ssl
import threading
from typing import Any, NamedTuple

from .pebble import Pebble

PORT = 14005  # at the authority's address
HANDED_ON = ("Content-Type", "Replay-Nonce", "Location", "Link", "Retry-After", "Cache-Control")
Answer = tuple[int, list[tuple[str, str]], bytes]  # status, fields, body


class Refusal(NamedTuple):
    """An answer with an error of RFC 8555 6.7, and a new nonce, as in each answer."""

    path: str  # the beginning of the request's path
    status: int
    kind: str  # behind urn:ietf:params:acme:error:
    detail: str
    fields: dict[str, str] = {}


class Front:
    """A server of HTTPS; clients take it for the authority, whose URLs have the host named by the client."""

    def __init__(self, pebble: Pebble) -> None:
        self.asked: list[str] = []  # method and path of each request
        self.refusals: list[Refusal] = []  # each is given once, at the next fitting request
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

    def _handler(self) -> Any:
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                front.asked.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, fields, text = front.refuse(self) or front.ask(self.command, self.path, body, self.headers)
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

    def refuse(self, request: Any) -> Answer | None:
        """Return the next refusal that fits a POST; None: pass the request on."""
        for refusal in self.refusals if request.command == "POST" else ():
            if request.path.startswith(refusal.path):
                self.refusals.remove(refusal)
                return self._refused_by(refusal)
        return None

    def ask(self, method: str, path: str, body: bytes = b"", fields: Any = ()) -> Answer:
        """Have Pebble answer a request."""
        client = http.client.HTTPSConnection(self._pebble.netloc, timeout=20, context=self._pebble.context)
        with contextlib.closing(client):
            client.request(method, path, body, {"User-Agent": "tests", **dict(fields)})
            response = client.getresponse()
            kept = [(name, value) for name, value in response.getheaders() if name in HANDED_ON]
            return response.status, kept, response.read()

    def _refused_by(self, refusal: Refusal) -> Answer:
        _, nonce, _ = self.ask("HEAD", "/nonce-plz")
        problem = {
            "type": f"urn:ietf:params:acme:error:{refusal.kind}", "detail": refusal.detail, "status": refusal.status
        }  # fmt: skip
        fields = [("Content-Type", "application/problem+json"), *nonce, *refusal.fields.items()]
        return refusal.status, fields, json.dumps(problem).encode()

    def end(self) -> None:
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()
