"""An ACME authority with right answers, but for those made wrong by a test; it checks no name and no signature.

It needs the packages of the extra acme.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import pathlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

from cryptography import x509

from .chains import Signer, key_pem, new_key, pem_of

STEPS = ("directory", "nonce", "account", "order", "authorization", "challenge", "finalize", "status", "certificate")
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() resets the connection


class Answer(NamedTuple):
    """An answer in its proper form."""

    status: int
    fields: dict[str, str]
    body: bytes

    def head(self, *without: str) -> bytes:
        """Return its octets but for the body."""
        fields = {"Content-Length": str(len(self.body)), "Connection": "close", **self.fields}
        lines = [f"{name}: {value}\r\n" for name, value in fields.items() if name not in without]
        return f"HTTP/1.1 {self.status} Hostile\r\n{''.join(lines)}\r\n".encode()


# An Answer, or octets that are sent unchanged.
Wrong = Callable[["HostileAuthority", Answer], Any]


class HostileAuthority:
    """A server of HTTPS on a free port of loopback."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.over = threading.Event()
        self.wrong: dict[str, Wrong] = {}  # by the step
        self.asked: list[str] = []  # the steps, in their order
        self.sent = 0  # octets of an endless answer
        self.signer = Signer("issuer", Signer("root"))
        self.key: Any = None  # the last order's, as its name
        self.name, self._checked = "", False
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients give up
        self.base = f"https://localhost:{self._server.server_port}"
        own, self.ca = new_key(), folder / "hostile-ca.pem"
        self.ca.write_text(pem_of(self.signer.chain[-1]))
        files = folder / "hostile.pem"
        files.write_text(key_pem(own) + pem_of(self.signer.sign(own.public_key(), "localhost"), *self.signer.chain))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(files))  # PyPy wants text
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _handler(self) -> Any:
        authority = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                step = self.path.strip("/")
                authority.asked.append(step)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer: Any = authority.right(step, body)
                if step in authority.wrong:
                    answer = authority.wrong[step](authority, answer)
                if isinstance(answer, Answer):
                    self.wfile.write(answer.head("Connection") + (answer.body if self.command != "HEAD" else b""))
                else:
                    self.close_connection = True
                    self.send(answer)

            do_GET = do_HEAD = do_POST = answer

            def send(self, octets: Iterator[bytes]) -> None:
                for piece in octets:
                    if piece is RESET:
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                        os.close(self.connection.detach())
                        return
                    self.wfile.write(piece)
                    authority.sent += len(piece)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def right(self, step: str, body: bytes) -> Answer:
        """Return the right answer to a request."""
        payload = json.loads(_decode(json.loads(body)["payload"]) or b"{}") if body else {}
        fields = {
            "Replay-Nonce": base64.urlsafe_b64encode(bytes(12)).decode(), "Content-Type": "application/json",
            "Location": f"{self.base}/{'status' if step == 'order' else step}", "Link": f'<{self.base}/authorization>;rel="up"',
        }  # fmt: skip
        status = 201 if step in ("account", "order") else 200
        return Answer(status, fields, self._body(step, payload))

    def _body(self, step: str, payload: Any) -> bytes:
        if step == "certificate":
            return pem_of(self.signer.sign(self.key, self.name), *self.signer.chain).encode()
        if step == "order":
            self.name, self._checked = payload["identifiers"][0]["value"], False
        if step == "finalize":
            self.key = x509.load_der_x509_csr(_decode(payload["csr"])).public_key()
        self._checked |= step == "challenge"
        checked = "valid" if self._checked else "pending"
        identifier = {"type": "dns", "value": self.name}
        challenge = {"type": "tls-alpn-01", "url": f"{self.base}/challenge", "status": checked, "token": "A" * 40}
        order = {"status": "valid", "identifiers": [identifier], "authorizations": [f"{self.base}/authorization"]}
        order |= {"finalize": f"{self.base}/finalize", "certificate": f"{self.base}/certificate"}
        names = {"newNonce": "nonce", "newAccount": "account", "newOrder": "order"}
        bodies: dict[str, Any] = {
            "directory": {name: f"{self.base}/{path}" for name, path in names.items()},
            "account": {"status": "valid"},
            "authorization": {"identifier": identifier, "status": checked, "challenges": [challenge]},
            "challenge": challenge,
        }
        return b"" if step == "nonce" else json.dumps(bodies.get(step, order)).encode()

    def end(self) -> None:
        """Close the server, and end unfinished answers."""
        self.over.set()
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# Wrong answers, by their making


def _answer(status: int = 0, body: bytes = b"<html>down</html>", **fields: str) -> Wrong:
    kept = {name.replace("_", "-"): value for name, value in fields.items()}
    return lambda _, right: Answer(status or right.status, {**right.fields, **kept}, body)


def _problem(status: int, **problem: Any) -> Wrong:
    return _answer(status, json.dumps(problem).encode(), Content_Type="application/problem+json")


def _without(field: str) -> Wrong:
    return lambda _, right: right._replace(fields={name: right.fields[name] for name in right.fields if name != field})


def _change(change: Callable[[bytes], bytes]) -> Wrong:
    return lambda _, right: right._replace(body=change(right.body))


def _state(state: bytes) -> Wrong:
    return _change(lambda body: body.replace(b'"valid"', b'"%b"' % state))


def _lead(base: bytes) -> Wrong:
    return lambda authority, right: right._replace(body=right.body.replace(authority.base.encode(), base))


def _endless(begin: Callable[[Answer], bytes], piece: bytes, seconds: float = 0.0) -> Wrong:
    def send(authority: HostileAuthority, right: Answer) -> Iterator[bytes]:
        yield begin(right)
        while not authority.over.wait(seconds):
            yield piece

    return send


def _cut(*end: bytes) -> Wrong:
    return lambda _, right: iter([right._replace(body=right.body + b"and more").head() + right.body, *end])


def _chain(
    change: Callable[[list[str]], list[str]] = list, names: tuple[str, ...] | None = None, **dates: float
) -> Wrong:
    """Return an answer with a chain; `change`: takes and returns its certificates in PEM."""

    def answer(authority: HostileAuthority, right: Answer) -> Answer:
        leaf = authority.signer.sign(authority.key, *((authority.name,) if names is None else names), **dates)
        return right._replace(body="".join(change([pem_of(one) for one in (leaf, *authority.signer.chain)])).encode())

    return answer


def _signed_by(signer: Signer | None, key: Any = None) -> Wrong:
    def answer(authority: HostileAuthority, right: Answer) -> Answer:
        leaf = (signer or authority.signer).sign(key or authority.key, authority.name)
        return right._replace(body=pem_of(leaf, *authority.signer.chain).encode())

    return answer


class Row(NamedTuple):
    """A wrong answer, the steps at which an order fails by it, and the words in the log."""

    wrong: Wrong
    steps: tuple[str, ...]
    reason: str
    lasts: bool = False  # until a limit of time


BODY = tuple(step for step in STEPS if step != "nonce")  # the answer to a HEAD
NEEDED = ("directory", "order", "authorization", "challenge", "status")  # steps whose fields a client needs
CERTIFICATE = ("certificate",)
ODD, AWAY, LATE = (
    "has given an answer that is none of ACME: ",
    "cannot be reached from here: ",
    "has come to no decision: ",
)
BAD = "has given a certificate that clients would refuse, and the one that was there stays: "
DOWN, LIMITED = "has trouble of its own: status 5", "has had too many requests: "
ODD_OR_BAD = f"{ODD}|{BAD}"
ACME, YEAR = "urn:ietf:params:acme:error:", str(365 * 86400)
GARBAGE = "-----BEGIN CERTIFICATE-----\nTm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"
ROWS = {
    # Octets and time.
    "endless": Row(_endless(lambda right: right.head("Content-Length"), b" " * 65536), BODY, f"{ODD}.* more than"),
    "endless fields": Row(_endless(lambda right: right.head()[:-2], b"X-More: of it\r\n" * 1000), STEPS, AWAY),
    "too long": Row(_change(lambda body: body + b" " * (1 << 20)), BODY, f"{ODD}.* more than"),
    "dripping": Row(_endless(lambda right: right.head("Content-Length"), b" ", 0.02), BODY, f"{LATE}no whole answer", True),
    "dripping fields": Row(_endless(lambda right: right.head()[:-2] + b"X:", b"x", 0.02), STEPS, f"{LATE}no whole", True),
    "silent": Row(_endless(lambda right: b"", b"", 60), STEPS, f"{AWAY}timed out|{LATE}", True),
    "cut": Row(_cut(), BODY, f"{AWAY}.*IncompleteRead"),
    "reset": Row(_cut(RESET), BODY, AWAY),
    "no HTTP": Row(lambda *_: iter([b"SSH-2.0-OpenSSH_9.2\r\n"]), STEPS, f"{AWAY}.*BadStatusLine"),
    "compressed": Row(_answer(body=bytes(64), Content_Encoding="gzip"), BODY, ODD_OR_BAD),
    # Bodies.
    "a page": Row(_answer(Content_Type="text/html"), BODY, ODD_OR_BAD),
    "empty": Row(_answer(body=b""), BODY, ODD_OR_BAD),
    "half": Row(_change(lambda body: body[: len(body) // 2]), BODY, ODD_OR_BAD),
    "an array": Row(_answer(body=b"[]"), (*NEEDED, "certificate"), f"{ODD_OR_BAD}|{LATE}", True),
    "null": Row(_answer(body=b"null"), BODY, ODD_OR_BAD),
    "a text": Row(_answer(body=b'"text"'), (*NEEDED, "certificate"), f"{ODD_OR_BAD}|{LATE}", True),
    "nothing in it": Row(_answer(body=b"{}"), (*NEEDED, "certificate"), f"{ODD_OR_BAD}|{LATE}", True),
    "nested": Row(_answer(body=b"[" * 100000), BODY, ODD_OR_BAD),
    "octets": Row(_answer(body=bytes(range(256))), BODY, ODD_OR_BAD),
    "numbers": Row(_change(lambda body: json.dumps(dict.fromkeys(json.loads(body), 7)).encode()), NEEDED, ODD),
    # URLs.
    "URLs of HTTP": Row(_lead(b"http://localhost:1"), NEEDED, ODD),
    "URLs of files": Row(_lead(b"file://"), NEEDED, ODD),
    "URLs of nobody": Row(_lead(b"https://127.0.0.1:1"), NEEDED, f"{AWAY}|{ODD}"),
    "URLs that are none": Row(_lead(b"https://["), NEEDED, ODD),
    "redirect without TLS": Row(_answer(302, Location="http://localhost:1/"), STEPS, f"{ODD}.* no URL of HTTPS"),
    "redirect to nobody": Row(_answer(307, Location="https://127.0.0.1:1/"), STEPS, AWAY),
    "redirect for ever": Row(_answer(308, Location="?"), STEPS, f"{ODD}TooManyRedirects"),
    # Fields.
    "no nonce": Row(_without("Replay-Nonce"), STEPS[1:], f"{ODD}MissingNonce"),
    "no place": Row(_without("Location"), ("order",), ODD),
    "no links": Row(_without("Link"), ("challenge",), ODD),
    # Refusals.
    "out of order": Row(_answer(500), STEPS, DOWN),
    "down": Row(_answer(503), STEPS, DOWN),
    "down for hours": Row(_answer(503, Retry_After="7200"), STEPS, DOWN),
    "down for a year": Row(_answer(503, Retry_After=YEAR), STEPS, DOWN),
    "down for ages": Row(_answer(503, Retry_After="9" * 400), STEPS, DOWN),
    "too many for a year": Row(_answer(429, Retry_After=YEAR), STEPS, f"{LIMITED}status 429"),
    "too many": Row(_answer(429), STEPS, f"{LIMITED}status 429"),
    "a limit": Row(_problem(429, type=f"{ACME}rateLimited", detail="enough"), BODY, f"{LIMITED}enough"),
    "not found": Row(_answer(404), STEPS, ODD),
    "nothing": Row(_answer(204, b""), BODY, ODD_OR_BAD),
    "a conflict": Row(_answer(409), tuple(step for step in BODY if step != "account"), ODD),
    "refused nonces": Row(_problem(400, type=f"{ACME}badNonce", detail="again"), BODY[1:], "refuses requests as replayed"),
    "a problem of numbers": Row(_problem(400, type=7, title=7, detail=7, subproblems=7), BODY, ODD),
    "a problem of nobody": Row(_problem(400, type=None, detail=[{}], subproblems=[{}]), BODY, "refuses: "),
    # States.
    "pending for ever": Row(_state(b"pending"), ("authorization", "status"), LATE, True),
    "processing for ever": Row(_state(b"processing"), ("status",), LATE, True),
    "processing for ages": Row(
        lambda _, right: _state(b"processing")(_, right)._replace(fields={**right.fields, "Retry-After": "9" * 30}), ("status",), ODD
    ),
    "invalid": Row(_state(b"invalid"), ("status",), ODD),
    "a state of its own": Row(_state(b"odd"), NEEDED[1:], ODD),
    "no certificate": Row(_change(lambda body: body.replace(b'"certificate"', b'"c"')), ("status",), LATE, True),
    # Chains.
    "another key": Row(_signed_by(None, new_key().public_key()), CERTIFICATE, f"{BAD}it is for another key"),
    "an impostor": Row(_signed_by(Signer("issuer")), CERTIFICATE, f"{BAD}certificate signature failure"),
    "another name": Row(_chain(names=("other.example",)), CERTIFICATE, f"{BAD}Hostname mismatch"),
    "no name": Row(_chain(names=()), CERTIFICATE, f"{BAD}Hostname mismatch"),
    "expired": Row(_chain(begin=-9, end=-1), CERTIFICATE, f"{BAD}certificate 1 of its chain is valid from"),
    "not valid yet": Row(_chain(begin=1), CERTIFICATE, f"{BAD}certificate 1 of its chain is valid from"),
    "about to expire": Row(_chain(begin=-60, end=5), CERTIFICATE, f"{BAD}certificate 1 of its chain is valid from"),
    "wrong order": Row(_chain(lambda pem: [pem[0], *pem[:0:-1]]), CERTIFICATE, f"{BAD}certificate 1 of its chain is not"),
    "issuers alone": Row(_chain(lambda pem: pem[1:]), CERTIFICATE, f"{BAD}it is for another key"),
    "garbage in it": Row(_chain(lambda pem: [pem[0], GARBAGE, *pem[1:]]), CERTIFICATE, f"{BAD}it is damaged"),
    "a key in it": Row(_chain(lambda pem: [key_pem(new_key()), *pem]), CERTIFICATE, f"{BAD}it is not certificates"),
    "a long chain": Row(_chain(lambda pem: [*pem, *pem[2:] * 450]), CERTIFICATE, f"{BAD}excessive message size"),
}  # fmt: skip
