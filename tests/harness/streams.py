"""Streams of requests for Hypothesis, and a client that sends them in any pieces while anything else happens.

A Stream is good requests, made by the grammar together with their expected answers, and a tail: nothing, or octets refused for sure (the corpus),
never complete, or unpredictable (mutated octets, the rest of the corpus). A Talk is one connection over the fakes: the next acts of client, worker
and loop are a list of steps, so that any order can be had again.
"""

from __future__ import annotations

import json
import logging
import pathlib
import re
import tempfile
import zlib
from typing import Any, NamedTuple

from hypothesis import strategies as st

from aserve.connections.loop.sendfile import HAS_SENDFILE
from aserve.workers.inline import InlineExecutor

from . import sidecars
from .client import RawClient, Truncated
from .fakes import Harness

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"
# A body goes to a file early, but a live one is never so full that its reader must come first; few requests wait.
MEMORY_BYTES = {"buffer": 4096, "stream": 1 << 20}
MAX_PIPELINED = 4
MOST_ROUNDS = 10_000  # of processes without an end; no stream here needs a hundredth
DATE = re.compile(rb"\r\nDate: [^\r]*")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


# The app


def tell(environ: Any, start_response: Any) -> Any:
    """Answer with the request, in the form of the path."""
    form = environ["PATH_INFO"].strip("/")
    body = b"" if form == "unread" else environ["wsgi.input"].read()
    text = told(environ["REQUEST_METHOD"], environ["REQUEST_URI"], body)
    if form == "fail":
        raise RuntimeError("as asked")
    if form in ("204", "304"):
        start_response(f"{form} Nothing", [])
        return []
    start_response("200 OK", [("Content-Length", str(len(text)))] if form == "measured" else [])
    if form in ("pieces", "measured"):
        return iter([text[:7], b"", text[7:]])
    if form == "file":
        file = tempfile.TemporaryFile()
        file.write(text)
        file.seek(0)
        return environ["wsgi.file_wrapper"](file)
    return [text + b"." * LARGE_BYTES] if form == "large" else [text]


def told(method: str, target: str, body: bytes) -> bytes:
    """Return the app's words on a request."""
    return f"{method} {target} {len(body)} {zlib.crc32(body)}".encode("latin-1")


LARGE_BYTES = 300_000  # more than the loop gives to a transport at once
FORMS = ["list", "list", "pieces", "measured", "file", "large", "unread", "fail", "204", "304"]


# The grammar


class Request(NamedTuple):
    """A good request."""

    octets: bytes
    method: str
    target: str
    body: bytes
    is_last: bool  # the client asks for the end of the connection

    def check(self, reply: Any) -> None:
        """Check that a reply is this request's, and whole."""
        form = self.target[1:].partition("?")[0]
        assert reply.status == {"fail": 500, "204": 204, "304": 304}.get(form, 200)
        if self.method == "HEAD" or reply.status in (204, 304):
            assert reply.body == b""
        elif reply.status == 200:
            text = told(self.method, self.target, b"" if form == "unread" else self.body)
            assert reply.body == (text + b"." * LARGE_BYTES if form == "large" else text)


class Stream(NamedTuple):
    """A client's octets on one connection."""

    requests: list[Request]
    tail: bytes
    kind: str  # of the tail: see TAILS

    @property
    def octets(self) -> bytes:
        return b"".join(request.octets for request in self.requests) + self.tail


targets = st.builds("/{}?{}".format, st.sampled_from(FORMS), st.integers(0, 999))
bodies = st.one_of(
    st.sampled_from([b"x", b"0\r\n\r\n", SMUGGLED, bytes(range(256)), b"y" * 5000, b"z" * 70_000]),
    st.binary(min_size=1, max_size=24),
)
FIELDS = [
    b"", b"", b"A: 1\r\nB: 2\r\nA: 3\r\n", b"Cookie: a=b; c=d\r\n", b"X: " + b"v" * 3000 + b"\r\n", b"E:\r\n",
    b"Accept: \xe9\r\n", b"Connection: keep-alive\r\n", b"Forwarded: for=_a\r\nX-Real-IP: 1\r\n", b"A_B: 1\r\nProxy: 1\r\n",
]  # fmt: skip
CHUNK_ENDS = [b"\r\n", b";a=b\r\n", b';a="b;c"\r\n']
TRAILERS = [b"\r\n", b"\r\n", b"A: b\r\n\r\n", b"A: b\r\nHost: b\r\n\r\n"]


@st.composite
def http_request(draw: Any) -> Request:
    """An HTTP request of any version, framing and surprise."""
    target = draw(targets)
    is_1_1 = draw(st.integers(0, 4)) > 0
    fields = [b"Host: a\r\n", draw(st.sampled_from(FIELDS))]
    is_last = not is_1_1 and b"keep-alive" not in fields[1]
    if draw(st.integers(0, 6)) == 0:
        fields.append(b"Connection: close\r\n")
        is_last = True
    framing = draw(st.sampled_from(["none", "none", "none", "length", "chunked"] if is_1_1 else ["none", "length"]))
    body = b"" if framing == "none" else draw(bodies)
    content = body
    if framing == "length":
        fields.append(b"Content-Length: %d\r\n" % len(body))
    elif framing == "chunked":
        fields.append(b"Transfer-Encoding: chunked\r\n")
        size, end = draw(st.integers(1, 40)) * (1 + len(body) // 100), draw(st.sampled_from(CHUNK_ENDS))
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        content = b"".join(b"%x%b%b\r\n" % (len(chunk), end, chunk) for chunk in chunks)
        content += b"0\r\n" + draw(st.sampled_from(TRAILERS))
    if body and draw(st.booleans()):
        fields.append(b"Expect: 100-continue\r\n")
    method = "POST" if body else draw(st.sampled_from(["GET", "GET", "HEAD", "OPTIONS", "DELETE"]))
    line = b"%b %b HTTP/1.%d\r\n" % (method.encode(), target.encode(), is_1_1)
    return Request(line + b"".join(fields) + b"\r\n" + content, method, target, body, is_last)


@st.composite
def front_request(draw: Any, protocol: str) -> Request:
    """A request in a front server's form by uwsgi or SCGI."""
    target = draw(targets)
    body = draw(st.one_of(st.just(b""), bodies))
    method = "POST" if body else draw(st.sampled_from(["GET", "HEAD"]))
    path, _, query = target.partition("?")
    vars = {"CONTENT_LENGTH": str(len(body)), "REQUEST_METHOD": method, "REQUEST_URI": target, "PATH_INFO": path}
    vars.update(QUERY_STRING=query, SERVER_PROTOCOL="HTTP/1.1", HTTP_X="v" * draw(st.sampled_from([1, 300])))
    return Request(sidecars.encode(protocol, vars, body), method, target, body, is_last=True)


# The part behind the good requests. "refused": one answer at most, of an error, and the end of the connection; "short": a good request without its
# end.
TAILS = ["none", "none", "refused", "short", "mutated", "corpus"]


@st.composite
def streams(draw: Any, protocol: str, parser: str) -> Stream:
    """Return streams of a protocol: http, uwsgi or scgi."""
    one = http_request() if protocol == "http" else front_request(protocol)
    kind = draw(st.sampled_from(TAILS))
    if kind == "refused" and parser == "httptools":
        kind = "corpus"  # docs/parser-differences.md lists further octets that llhttp lets pass
    most = 6 if protocol == "http" else int(kind == "none")
    requests = draw(st.lists(one, min_size=int(kind == "none"), max_size=most))
    for number, request in enumerate(requests):
        if request.is_last:
            # Later octets are not for us, and nothing may come of them.
            return Stream(requests[: number + 1], b"".join(other.octets for other in requests[number + 1 :]), "beyond")
    if kind == "none":
        return Stream(requests, b"", kind)
    if kind in ("refused", "corpus"):
        tail = draw(st.sampled_from(corpus(protocol, kind == "refused")))
    else:
        tail = draw(one).octets
        if kind == "short":
            return Stream(requests, tail[: draw(st.integers(1, len(tail) - 1))], kind)
        for place, octets, left_out in draw(st.lists(mutations, min_size=1, max_size=3)):
            place %= len(tail)
            tail = tail[:place] + octets + tail[place + left_out :]
    if protocol == "http" and draw(st.booleans()):
        tail += SMUGGLED
    return Stream(requests, tail, kind)


mutations = st.tuples(
    st.one_of(st.integers(0, 200), st.integers(0, 80_000)),
    st.one_of(
        st.sampled_from([b"", b"\n", b"\r", b"\r\n", b"\0", b" ", b":", b",", b"-1", b"0"]), st.binary(max_size=3)
    ),
    st.integers(0, 3),
)


def corpus(protocol: str, is_refused: bool) -> list[bytes]:
    """Return the files of a protocol's corpus refused by our limits, or all."""
    found = []
    folders = ["http1", "desync"] if protocol == "http" else [protocol]
    for path in sorted(path for folder in folders for path in (CORPUS / folder).rglob("*.raw")):
        about = json.loads(path.with_suffix(".json").read_text())
        if not is_refused or ("error" in about and "limits" not in about):
            found.append(path.read_bytes())
    return found


# Events, in any order


# The client sends a piece, reads, stops reading or goes on; the worker takes a job, the loop brings its results home, goes round once, or has its
# timer go off.
STEPS = ["send", "send", "send", "read", "stick", "unstick", "job", "job", "flush", "turn", "second"]
steps = st.lists(st.sampled_from(STEPS), max_size=40)
sizes = st.lists(st.one_of(st.integers(1, 60), st.sampled_from([1, 2, 4095, 4096, 65_536])), max_size=30)


class Talk:
    """One connection, from connect to the end; way: "threads", "inline" (--threads 0) or "live" (--body stream)."""

    def __init__(self, protocol: str, parser: str, octets: bytes, way: str) -> None:
        executor, body = InlineExecutor() if way == "inline" else None, "stream" if way == "live" else "buffer"
        self.harness = Harness(
            tell, executor, HAS_SENDFILE, protocol, http_parser=parser, body=body,
            body_memory_bytes=MEMORY_BYTES[body], max_pipelined=MAX_PIPELINED,
        )  # fmt: skip
        self.connection, self.transport = self.harness.connect()
        self.heard = b""
        self._rest = octets
        self._seconds = 0
        self._is_lost = False

    def act(self, steps: list[str], sizes: list[int]) -> None:
        """Do these things; impossible ones are left out."""
        sizes = list(sizes)
        for step in steps:
            if step == "send":
                self.send(sizes.pop(0) if sizes else len(self._rest))
            else:
                getattr(self, step)()

    def finish(self, sizes: list[int] = (), is_eof: bool = False) -> None:
        """Send the rest in pieces, and let loop and workers do all their work."""
        self.unstick()
        for size in [*sizes, *[len(self._rest)] * 1000]:
            self.settle()
            if not self._rest or self.is_closed:
                break
            assert self.transport.is_reading(), "nobody reads on, and nothing is under way"
            self.send(size)
        if is_eof and self._may_send:
            self.connection.eof_received()
        self.settle()

    def lose(self) -> None:
        """Lose the connection; nothing of it is left in the end."""
        if not self._is_lost:
            self._is_lost = True
            self.transport.lose(ConnectionResetError())
        self.settle()
        assert not self.harness.service.connections
        assert not self.harness.loop.writers
        assert self.connection.exchange is None

    # The client

    @property
    def is_closed(self) -> bool:
        """Tell whether the server has announced its last octet."""
        return self.transport.is_closing() or "write_eof" in self.transport.calls

    @property
    def _may_send(self) -> bool:
        return not self._is_lost and not self.transport.is_closing() and self.transport.is_reading()

    def send(self, size: int) -> None:
        """Send a piece, if the server reads."""
        if self._rest and self._may_send:
            piece, self._rest = self._rest[:size], self._rest[size:]
            self.connection.data_received(piece)

    def send_more(self, octets: bytes) -> None:
        """Have more to send."""
        self._rest += octets

    def read(self) -> None:
        """Take the received octets."""
        if not self._is_lost:
            self.heard += self.transport.received()

    def stick(self) -> None:
        """Read no more."""
        self.transport.is_stuck = True

    def unstick(self) -> None:
        """Read again."""
        if not self._is_lost:
            self.transport.unstick()

    # The server

    def job(self) -> None:
        """Let a worker take a job; the reader of a live body does so when it need not wait."""
        executor, exchange = self.harness.executor, self.connection.exchange
        body = exchange.body if exchange is not None else None
        is_waiting = body is not None and body.is_live and not body.is_complete and body._error is None
        if self._jobs and not is_waiting:
            executor.run_job()

    def flush(self) -> None:
        """Let the loop bring home workers' results."""
        if not self._is_inline:
            self.harness.executor.flush()

    def turn(self) -> None:
        """Let the loop go round once; a connection past its last octet and its close is gone."""
        self.harness.loop.turn()
        if self.transport.is_closing() and not self.transport.held and not self._is_lost:
            self.read()
            self._is_lost = True
            self.transport.lose()

    def second(self) -> None:
        """The timer goes off, but never often enough for a time limit."""
        self._seconds += 1
        if self._seconds < 2 and not self._is_lost:
            self.connection.on_second()

    def settle(self) -> None:
        """Go on until there is nothing left to do."""
        for _ in range(MOST_ROUNDS):
            before = len(self.heard)
            self.flush()
            self.job()
            self.read()
            self.turn()
            if len(self.heard) == before and not self._is_busy:
                return
        raise AssertionError("the server never comes to rest")

    @property
    def _is_inline(self) -> bool:
        return self.harness.executor.is_inline

    @property
    def _jobs(self) -> list[Any]:
        return [] if self._is_inline else self.harness.executor.jobs

    @property
    def _is_busy(self) -> bool:
        executor, before = self.harness.executor, len(self._jobs)
        self.job()
        return bool(self.harness.loop.soon or len(self._jobs) != before or (not self._is_inline and executor.posts))


def without_interim(octets: bytes) -> bytes:
    """Return the part that does not depend on the time of events."""
    return DATE.sub(b"", octets).replace(CONTINUE, b"")


class Heard(RawClient):
    """Received octets, read by a client's rules."""

    def __init__(self, octets: bytes) -> None:
        self._buffer = octets.replace(b"Status: ", b"HTTP/1.1 ") if octets.startswith(b"Status: ") else octets

    def __bool__(self) -> bool:
        return bool(self._buffer)

    def _recv(self) -> bytes:
        raise Truncated(self._buffer, False)


class Faults(logging.Handler):
    """Collects lines logged as the server's own fault, or as no one's; no other handler gets its log meanwhile."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._logger = logging.getLogger("aserve")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep all but the app's."""
        text = record.getMessage()
        if not text.startswith("app "):
            self.found.append(text)

    def __enter__(self) -> Faults:
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
