"""Requests and answers for Hypothesis, and a server that takes both in one way, C or Python: they must not differ.

An Answer is the app's acts when called, right or wrong; Talks are clients' octets, one connection after another.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
import socket
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from aserve.features.access_log import AccessLogging

from . import sidecars
from .apps import READS
from .extensions import extension_of, flush_ends
from .running import RunningServer
from .streams import CORPUS, mutations
from .waiting import PATIENCE_SECONDS

# Answers


class Text(str):
    """A str of another class."""


class Octets(bytes):
    """Bytes of another class."""


class Rows(list):  # type: ignore[type-arg]
    """A list of another class."""


class Answer(NamedTuple):
    """The app's acts."""

    status: Any
    fields: Any
    body: list[Any]
    form: str  # of its result: see FORMS
    start: str  # when it calls start_response: see STARTS
    extra: str  # see EXTRAS
    reads: list[str]


STATUSES = [
    *["200 OK"] * 12, "404 Not Found", "404 Not Found", "204 No Content", "304 Not Modified", "200 ", "200 Gr\xfc\xdfe", "999 y", "205 Reset Content",
    "200", "099 x", "103 Early", "101 Upgrade", "600 x", "2000 x", " 200 OK", "200 O\r\nK", "200 \x00", "200 \t", "200 \u20ac", b"200 OK", None, 200, Text("200 OK"),
]  # fmt: skip
NAMES = [
    "Content-Type", "content-type", "X-A", "X-A", "Set-Cookie", "ETag", "Location", "Date", "server", "X_Under", "Connection", "Transfer-Encoding",
    "Keep-Alive", "", "a b", "a:", "\xe9", "\u20ac", "X\r\nY", b"X", None, Text("X-Text"), "Content-Length", "content-length", "X-Sendfile", "Content-Encoding",
]  # fmt: skip
VALUES = [
    "text/plain", "", " a ", "a", "\xe9", "v" * 300, "v" * 1100, "a\tb", "0", "3", "10", "close", "a\r\nb", "a\n", "\0", "\x7f", "\x80", "\xa0", "\u20ac", b"x", None, 5,
    Text("text"), "+3", "3, 3", "-1", "\u0663", "03", " 3", "99999999999999999999", "9223372036854775807",
]  # fmt: skip
GOOD_FIELDS = [
    [], [("Content-Type", "text/plain")], [("Content-Type", "text/html"), ("Content-Length", "3")], [("Content-Length", "0")],
    [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], [("Content-Length", "3"), ("content-length", "3")],
]  # fmt: skip
WRONG_FIELDS = [
    (),
    (("X-A", "a"),),
    None,
    5,
    "ab",
    {"X-A": "a"},
    [["X-A", "a"]],
    [("X-A",)],
    [("X-A", "a", "b")],
    ["ab"],
    [5],
    Rows([("X-A", "a")]),
]
PIECES = [
    *[b"abc"] * 6,
    b"",
    b"",
    b"x" * 5000,
    b"y" * 130_000,
    b"z" * 400_000,
    "text",
    None,
    5,
    bytearray(b"abc"),
    memoryview(b"abc"),
    Octets(b"abc"),
]
FORMS = [
    *["list"] * 6,
    "tuple",
    "generator",
    "iterator",
    "closable",
    "rows",
    "bytes",
    "str",
    "none",
    "number",
    "dict",
    "file",
    "class",
]
STARTS = [
    *["first"] * 10,
    "never",
    "twice",
    "replaced",
    "lazily",
    "keywords",
    "few",
    "many",
    "no_exc_info",
    "wrong_exc_info",
    "true_exc_info",
]
EXTRAS = [
    *["none"] * 12,
    "write",
    "write_empty",
    "write_text",
    "hints",
    "hints_late",
    "raise",
    "raise_late",
    "exit",
    "raise_close",
    "fields_change",
    "environ_change",
]

good_answers = st.builds(
    Answer, st.sampled_from(STATUSES[:18]), st.sampled_from(GOOD_FIELDS), st.lists(st.sampled_from(PIECES[:11]), max_size=3),
    st.sampled_from(FORMS[:10]), st.just("first"), st.just("none"), st.lists(st.sampled_from(sorted(READS)), max_size=2),
)  # fmt: skip
any_answers = st.builds(
    Answer, st.sampled_from(STATUSES), st.one_of(
        st.sampled_from(GOOD_FIELDS), st.sampled_from(GOOD_FIELDS), st.sampled_from(WRONG_FIELDS),
        st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=3),
        st.lists(st.tuples(st.sampled_from(NAMES[:10]), st.sampled_from(VALUES[:8])), max_size=12),
    ),
    st.lists(st.sampled_from(PIECES), max_size=3), st.sampled_from(FORMS), st.sampled_from(STARTS), st.sampled_from(EXTRAS),
    st.lists(st.sampled_from(sorted(READS)), max_size=2),
)  # fmt: skip
plain_answers = st.builds(
    Answer, st.sampled_from(STATUSES[:14]), st.sampled_from(GOOD_FIELDS[:2] + GOOD_FIELDS[4:5]), st.lists(st.sampled_from(PIECES[:9]), max_size=3),
    st.sampled_from(FORMS[:7]), st.just("first"), st.just("none"), st.just([]),
)  # fmt: skip
answers = st.lists(st.one_of(good_answers, any_answers), min_size=1, max_size=3)


class Closable:
    """An iterable with close()."""

    def __init__(self, app: App, pieces: Any, error: bool) -> None:
        self._app, self._pieces, self._error = app, iter(pieces), error

    def __iter__(self) -> Iterator[Any]:
        return self._pieces

    def close(self) -> None:
        self._app.seen.append("closed")
        if self._error:
            raise ValueError("on purpose, in close()")


class App:
    """Does as the next Answer says, and notes its view."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seen: list[Any] = []
        self._numbers: Iterator[int] = itertools.count()

    def begin(self, answers: list[Answer]) -> None:
        """Begin with these answers, and with nothing seen."""
        self.answers, self.seen, self._numbers = answers, [], itertools.count()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/behind":
            start_response("200 OK", [])
            return [b"behind" * 50_000]  # so much that it goes behind large bodies, too (connections/loop/pump.py)
        answer = self.answers[next(self._numbers) % len(self.answers)]
        self.seen.append(shown(environ))
        for name in answer.reads:
            self._try(READS[name], environ["wsgi.input"])
        if answer.form == "class":
            return Closable(self, self._act(answer, environ, start_response), answer.extra == "raise_close")
        if answer.start == "lazily":
            return self._act(answer, environ, start_response)
        for _ in self._begin(answer, environ, start_response):
            pass
        return self._returned(answer, environ)

    def _act(self, answer: Answer, environ: Any, start_response: Any) -> Iterator[Any]:
        yield from self._begin(answer, environ, start_response)
        yield from self._pieces(answer, environ)

    def _begin(self, answer: Answer, environ: Any, start_response: Any) -> Iterator[Any]:
        """Do all acts before the body."""
        if answer.extra == "raise":
            raise ValueError("on purpose")
        if answer.extra == "exit":
            raise SystemExit(3)
        if answer.extra == "hints":
            self._try(environ["wsgi.early_hints"], [("Link", "</a>")])
        if answer.extra == "environ_change":
            environ.update(REQUEST_METHOD="HEAD", SERVER_PROTOCOL="HTTP/1.0")
        write = None if answer.start == "never" else self._start(answer, start_response)
        if answer.extra == "fields_change" and isinstance(answer.fields, list):
            answer.fields[:] = [*answer.fields]
        if write is not None and answer.extra.startswith("write"):
            self._try(write, {"write": b"written", "write_empty": b"", "write_text": "text"}[answer.extra])
        if answer.extra == "raise_late":
            raise KeyError("on purpose")
        yield from ()

    def _start(self, answer: Answer, start_response: Any) -> Any:
        status, fields = answer.status, answer.fields
        arguments: Any = {
            "few": (status,), "many": (status, fields, None, None), "no_exc_info": (status, fields, None), "wrong_exc_info": (status, fields, 5),
        }.get(answer.start, (status, fields))  # fmt: skip
        if answer.start == "keywords":
            return start_response(status=status, headers=fields)
        if answer.start == "true_exc_info":
            arguments = (status, fields, error_of())
        write = start_response(*arguments)
        if answer.start == "twice":
            self._try(start_response, "201 Created", [])
        if answer.start == "replaced":
            self._try(start_response, "500 Sorry", [("X-B", "b")], error_of())
        return write

    def _returned(self, answer: Answer, environ: Any) -> Any:
        pieces = answer.body
        forms: dict[str, Any] = {
            "list": lambda: list(pieces), "tuple": lambda: tuple(pieces), "generator": lambda: self._pieces(answer, environ), "iterator": lambda: iter(pieces),
            "closable": lambda: Closable(self, pieces, answer.extra == "raise_close"), "rows": lambda: Rows(pieces), "bytes": lambda: b"abc", "str": lambda: "abc",
            "none": lambda: None, "number": lambda: 5, "dict": lambda: {b"abc": 1},
            "file": lambda: environ["wsgi.file_wrapper"](file_of(b"".join(piece for piece in pieces if type(piece) is bytes))),
        }  # fmt: skip
        return forms[answer.form]()

    def _pieces(self, answer: Answer, environ: Any) -> Iterator[Any]:
        for piece in answer.body:
            yield piece
            if answer.extra == "hints_late":
                self._try(environ["wsgi.early_hints"], [("Link", "</a>")])
            if answer.extra == "raise_late":
                raise ValueError("on purpose")

    def _try(self, function: Any, *arguments: Any) -> None:
        """Note a call's result."""
        try:
            found = function(*arguments)
        except Exception as exc:
            self.seen.append((type(exc).__name__, str(exc)))
            raise
        self.seen.append(found if isinstance(found, (bytes, list)) else callable(found))


def error_of() -> Any:
    """Return the exc_info of an exception."""
    try:
        raise LookupError("on purpose")
    except LookupError as exc:
        return type(exc), exc, exc.__traceback__


def file_of(octets: bytes) -> Any:
    """Return a file that ends with its last reference."""
    file = tempfile.TemporaryFile()
    file.write(octets)
    file.seek(0)
    return file


def shown(environ: Any) -> list[tuple[str, Any]]:
    """Return an environ, in its order, in a comparable form."""
    plain = (str, bool, int, tuple)
    return [
        (
            name,
            "-" if name in ("REMOTE_PORT", "SERVER_PORT") else value if isinstance(value, plain) else callable(value),
        )
        for name, value in sorted(environ.items())
    ]


# Requests

METHODS = [*["GET"] * 6, "HEAD", "HEAD", "POST", "OPTIONS", "DELETE", "get", "CONNECT", "A-B", "G\xe9T"]
TARGETS = [
    "/",
    "/",
    "/",
    "/a/b?c=d",
    "/a%20b",
    "/%ff%e9",
    "/%00",
    "/%2f..//",
    "*",
    "http://b/c?d",
    "http://b",
    "//c",
    "/\xe9",
    "/?",
    "/a?b?c",
    "/" + "l" * 9000,
    "a",
    "a:80",
]
FIELDS = [
    "Host: a", "Host: a", "Host: b:8000", "Host:", "host: a", "Accept: text/html", "Accept: text/plain", "Cookie: a=b", "Cookie: c=d", "X-A: \xe9", "X-A:", "X_A: b",
    "Content-Type: text/plain", "Connection: keep-alive", "Connection: close", "Connection: x, close", "Connection: upgrade", "Upgrade: websocket", "Expect: 100-continue",
    "Expect: x", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "Forwarded: for=192.0.2.1", "X-Request-ID: abc", "Proxy: x", "Range: bytes=0-1",
    "If-None-Match: *", "X-Long: " + "v" * 5000, "A : b", " A: b", "A", "A: b\0", ": b", "Keep-Alive: 5", "TE: trailers", "Transfer-Encoding: x", "Authorization: Basic YTpi",
]  # fmt: skip
bodies = st.sampled_from([b"x", b"abc\n\ndef", b"b" * 5000, b"c" * 100_000])


@st.composite
def http_requests(draw: Any) -> bytes:
    """A request, mostly good."""
    is_good = draw(st.integers(0, 5)) > 0
    method, target = (
        draw(st.sampled_from(METHODS[: 11 if is_good else None])),
        draw(st.sampled_from(TARGETS[: 10 if is_good else None])),
    )
    fields = draw(st.lists(st.sampled_from(FIELDS[5:17] if is_good else FIELDS), max_size=5))
    fields.insert(draw(st.integers(0, len(fields))), "Host: a")
    body = draw(bodies) if method == "POST" or draw(st.integers(0, 9)) == 0 else b""
    content = body
    if body and draw(st.booleans()):
        fields.insert(draw(st.integers(0, len(fields))), f"Content-Length: {len(body)}")
    elif body:
        fields.append("Transfer-Encoding: chunked")
        content = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    version = draw(st.sampled_from(["1.1"] * 6 + ["1.0"] + [] if is_good else ["1.1", "1.2", "2.0", "0.9", "1"]))
    lines = [f"{method} {target} HTTP/{version}", *fields, "", ""]
    octets = "\r\n".join(lines).encode("latin-1") + content
    for place, added, left_out in [] if is_good else draw(st.lists(mutations, max_size=2)):
        place %= len(octets)
        octets = octets[:place] + added + octets[place + left_out :]
    return octets


VARS = [
    ("HTTP_HOST", "a"), ("HTTP_X", "\xe9"), ("HTTP_COOKIE", "a=b"), ("CONTENT_TYPE", "text/plain"), ("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_PORT", "80"),
    ("SERVER_NAME", "b"), ("SERVER_PORT", "81"), ("HTTPS", "on"), ("HTTPS", "off"), ("REQUEST_SCHEME", "https"), ("UWSGI_SCHEME", "https"), ("SCRIPT_NAME", "/s"),
    ("SCRIPT_NAME", ""), ("HTTP_CONTENT_LENGTH", "7"), ("HTTP_X", ""), ("UWSGI_CHDIR", "/"), ("REMOTE_USER", "me"), ("DOCUMENT_ROOT", "/"), ("wsgi.input", "x"),
    ("HTTP_TRANSFER_ENCODING", "chunked"), ("HTTP_EXPECT", "100-continue"), ("HTTP_CONNECTION", "close"), ("X" * 300, "y"), ("", ""),
]  # fmt: skip


@st.composite
def front_requests(draw: Any, protocol: str) -> bytes:
    """A request in a front server's form."""
    body = draw(st.one_of(st.just(b""), bodies))
    path, _, query = draw(st.sampled_from(["/", "/", "/a/b?c=d", "/a%20b", "/\xe9", "", "a"])).partition("?")
    vars = {
        "CONTENT_LENGTH": str(len(body)), "REQUEST_METHOD": draw(st.sampled_from(METHODS)), "REQUEST_URI": path, "PATH_INFO": path, "QUERY_STRING": query,
        "SERVER_PROTOCOL": draw(st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", ""])),
    }  # fmt: skip
    vars.update(draw(st.lists(st.sampled_from(VARS), max_size=5)))
    if draw(st.integers(0, 5)) == 0:
        vars.pop(
            draw(st.sampled_from(["CONTENT_LENGTH", "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "REQUEST_URI"]))
        )
    head = sidecars.uwsgi(vars) if protocol == "uwsgi" else sidecars.netstring({**vars, "SCGI": "1"})
    octets = head + body
    if draw(st.integers(0, 5)) == 0:
        place, added, left_out = draw(mutations)
        place %= len(octets)
        octets = octets[:place] + added + octets[place + left_out :]
    return octets


def corpus_of(protocol: str) -> list[bytes]:
    folders = ["http1", "desync"] if protocol == "http" else [protocol]
    return [path.read_bytes() for folder in folders for path in sorted((CORPUS / folder).rglob("*.raw"))]


def talks_of(protocol: str) -> Any:
    """Return a client's octets on one connection: pieces, each when the answers to earlier ones have come."""
    one = http_requests() if protocol == "http" else front_requests(protocol)
    some = st.lists(one, min_size=1, max_size=3 if protocol == "http" else 1)
    corpus = st.sampled_from(corpus_of(protocol)).map(lambda octets: [octets])
    return st.tuples(st.just(protocol), st.one_of(some, some, some, corpus), st.integers(0, 3).map(bool))


talks = st.lists(st.one_of(*map(talks_of, ["http", "http", "http", "uwsgi", "scgi"])), min_size=1, max_size=3)
plain_requests = st.builds(
    "GET {} HTTP/1.1\r\n{}\r\n\r\n".format, st.sampled_from(TARGETS[:5]),
    st.lists(st.sampled_from(FIELDS[6:8] + FIELDS[9:10]), max_size=3, unique=True).map(lambda fields: "\r\n".join(["Host: a", *fields])),
).map(lambda text: text.encode("latin-1"))  # fmt: skip
plain_talks = st.lists(
    st.tuples(st.just("http"), st.lists(plain_requests, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=3
)
# Half of all examples are served by C itself; the other half has parts that may need Python.
examples = st.one_of(st.tuples(plain_talks, st.lists(plain_answers, min_size=1, max_size=3)), st.tuples(talks, answers))
BEHIND = b"GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


# A server


LINE = '%(h)s %(u)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" "%({host}i)s" "%({content-type}i)s" "%(path)" "%(query)" "%({x-a}i)s"'


class Log(logging.Handler):
    """The log of one app's server."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and its exceptions."""
        exc, kinds = record.exc_info[1] if record.exc_info else None, []
        while exc is not None:
            kinds.append((type(exc).__name__, str(exc)))
            exc = exc.__cause__ or exc.__context__
        self.lines.append(
            (
                record.levelname,
                re.sub(r"/\S*/(auto|off)/| at 0x\w+|port \d+|:\d{4,5}\b", "-", record.getMessage()),
                kinds,
            )
        )


class Twin:
    """One of both ways; its only worker does one thing after another."""

    def __init__(self, native: str, folder: Any) -> None:
        self.app, self.log = App(), Log()
        folder = folder / native
        folder.mkdir()
        self._paths = {protocol: str(folder / protocol) for protocol in ("uwsgi", "scgi")}
        binds = ["127.0.0.1:0", *(f"{protocol}://unix:{path}" for protocol, path in self._paths.items())]
        self._access_log, self._taken = folder / "log", 0
        self.server = RunningServer(
            self.app,
            "asyncio",
            {
                "bind": binds, "native": native, "threads": 1, "keep_half_closed": True, "drain_seconds": 5,
                "access_log": str(self._access_log), "access_log_format": LINE,
            },
        )  # fmt: skip

    def serve(self, talks: list[Any], answers: list[Answer]) -> dict[str, Any]:
        """Return everything visible from outside, and in the app."""
        self.app.begin(answers)
        self.log.lines = []
        logger = logging.getLogger("aserve")
        logger.addHandler(self.log)
        logger.propagate = False  # neither to the console nor to pytest
        try:
            heard = [self._talk(*talk) for talk in talks]
            self._settle()
            self.server.call(lambda: None)
        finally:
            logger.removeHandler(self.log)
            logger.propagate = True
        return {"heard": heard, "seen": self.app.seen, "log": self.log.lines, "lines": self._take_lines()}

    def _take_lines(self) -> list[str]:
        """Return the lines of the access log since the last call; BEHIND's may come later."""
        server = self.server.server
        log = extension_of(server, AccessLogging).log
        self.server.call(lambda: (flush_ends(server), log.flush()))
        lines = self._access_log.read_text().splitlines()
        found, self._taken = lines[self._taken :], len(lines)
        # The pump notes the end of a large body when its client has it, and may have sent the next request.
        return sorted(line for line in found if "/behind" not in line)

    def _settle(self) -> None:
        """Let the worker, and the pump, do all earlier acts."""
        with socket.create_connection(self.server.address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(BEHIND)
            while client.recv(1 << 16):
                pass

    def _talk(self, protocol: str, requests: list[bytes], is_kept: bool) -> bytes:
        """Send requests one after another, or at once, and an end behind them; return all answers."""
        path = self._paths.get(protocol)
        heard = io.BytesIO()
        with socket.socket(socket.AF_INET if path is None else socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_SECONDS)
            client.connect(self.server.address if path is None else path)
            try:
                for request in requests if is_kept else [b"".join(requests)]:
                    client.sendall(request)
                    if request is not requests[-1]:
                        self._settle()
                        client.setblocking(False)
                        with contextlib.suppress(BlockingIOError):
                            heard.write(client.recv(1 << 24))
                        client.settimeout(PATIENCE_SECONDS)
                with contextlib.suppress(OSError):  # the server has closed already
                    client.shutdown(socket.SHUT_WR)
                while piece := client.recv(1 << 20):
                    heard.write(piece)
            except (ConnectionResetError, BrokenPipeError):
                pass
        return re.sub(rb"Date: [^\r]*", b"Date: -", heard.getvalue())
