"""Tiny WSGI apps, one per behaviour."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import wsgiref.validate
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import aserve
import aserve.core.incident
from aserve.core.errors import AppError

# No app waits longer, for a failing test to end. On a busy machine a test on PyPy takes 20 s until the gate is open.
WAIT_SECONDS = 60.0
PLAIN = [("Content-Type", "text/plain")]


def checked(app: Any) -> Any:
    """Wrap an app in wsgiref.validate's checks of a server's side of PEP 3333.

    Unlike its `validator` this hands the app's own iterable on, so that a list stays a list and a file wrapper a file wrapper: the server's short
    cuts are tested, too.
    """

    def checking(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        assert type(environ) is dict
        wsgiref.validate.check_environ(environ)
        wsgiref.validate.check_input(environ["wsgi.input"])
        wsgiref.validate.check_errors(environ["wsgi.errors"])
        assert callable(start_response)
        return app(environ, start_response)

    return checking


# Responses


def hello(environ: Any, start_response: Any) -> list[bytes]:
    """Return a list with one body."""
    start_response("200 OK", PLAIN)
    return [b"hello\n"]


def delayed(environ: Any, start_response: Any) -> list[bytes]:
    """Sleep for up to two milliseconds, compute for about one, do both or neither; then as hello."""
    time.sleep(random.choice([0, random.uniform(0, 0.002)]))
    sum(range(random.choice([0, 50_000])))
    return hello(environ, start_response)


def several_chunks(environ: Any, start_response: Any) -> list[bytes]:
    """Return a list of several bodies."""
    start_response("200 OK", PLAIN)
    return [b"one ", b"", b"two ", b"three"]


def tuple_of_chunks(environ: Any, start_response: Any) -> tuple[bytes, ...]:
    """Return an iterable: neither list nor generator."""
    start_response("200 OK", PLAIN)
    return (b"one ", b"two")


def lazy_generator(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Call start_response only when the server asks for the first chunk."""
    start_response("201 Created", [("X-Lazy", "yes")])
    yield b"made "
    yield b""
    yield b"late"


def measured_generator(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Yield chunks below a Content-Length."""
    start_response("200 OK", [("Content-Length", "8")])
    yield b"made "
    yield b"for"


def written(environ: Any, start_response: Any) -> list[bytes]:
    """Use write(), and then the iterable."""
    write = start_response("200 OK", PLAIN)
    write(b"written ")
    write(b"")
    write(b"and ")
    return [b"returned"]


def no_chunks(environ: Any, start_response: Any) -> list[bytes]:
    """Return an empty list."""
    start_response("200 OK", PLAIN)
    return []


def no_chunks_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Yield nothing, as a generator."""
    start_response("200 OK", PLAIN)
    return
    yield b""


def status(environ: Any, start_response: Any) -> list[bytes]:
    """Answer /CODE with this status, and with a body even where there must be none."""
    start_response(environ["PATH_INFO"][1:] + " Test", PLAIN)
    return [b"this is a body"]


def status_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Do the same from a generator."""
    start_response(environ["PATH_INFO"][1:] + " Test", PLAIN)
    yield b"this is "
    yield b"a body"


def status_with_length(environ: Any, start_response: Any) -> list[bytes]:
    """Do the same with a Content-Length."""
    start_response(environ["PATH_INFO"][1:] + " Test", [("Content-Length", "14")])
    return [b"this is a body"]


def too_long(environ: Any, start_response: Any) -> list[bytes]:
    """Give more than Content-Length allows."""
    start_response("200 OK", [("Content-Length", "4")])
    return [b"1234HTTP/1.1 200 Smuggled\r\nContent-Length: 0\r\n\r\n"]


def too_long_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Do the same in pieces."""
    start_response("200 OK", [("Content-Length", "4")])
    yield b"12"
    yield b"34HTTP/1.1 200"
    yield b"Smuggled\r\n\r\n"


def too_long_written(environ: Any, start_response: Any) -> list[bytes]:
    """Do the same by write()."""
    write = start_response("200 OK", [("Content-Length", "4")])
    write(b"1234HTTP/1.1 200 Smuggled\r\n\r\n")
    return []


def endless_with_length(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Yield for ever below a Content-Length."""
    start_response("200 OK", [("Content-Length", "4")])
    while True:
        yield b"1234"


def too_short(environ: Any, start_response: Any) -> list[bytes]:
    """Give less than Content-Length promises."""
    start_response("200 OK", [("Content-Length", "20")])
    return [b"1234"]


def too_short_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Do the same in pieces."""
    start_response("200 OK", [("Content-Length", "20")])
    yield b"12"
    yield b"34"


def nothing_with_length(environ: Any, start_response: Any) -> list[bytes]:
    """Promise a body and give none."""
    start_response("200 OK", [("Content-Length", "20")])
    return []


def latin_1(environ: Any, start_response: Any) -> list[bytes]:
    """Send every allowed octet of a field value, as latin-1."""
    value = "".join(map(chr, [9, *range(32, 127), *range(128, 256)]))
    start_response("200 Gr\xfc\xdfe", [("X-All", "x" + value + "x")])
    return [environ["HTTP_X_BACK"].encode("latin-1")]


def two_servers(environ: Any, start_response: Any) -> list[bytes]:
    """Set Date and Server itself, and the same field twice."""
    headers = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("server", "mine")]
    start_response("200 OK", [*headers, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    return [b"ok"]


def early_hints(environ: Any, start_response: Any) -> list[bytes]:
    """Send two 103 responses before the final one."""
    environ["wsgi.early_hints"]([("Link", "</a.css>; rel=preload")])
    environ["wsgi.early_hints"]([("Link", "</b.js>; rel=preload")])
    start_response("200 OK", PLAIN)
    return [b"final"]


# Failures


def raises(environ: Any, start_response: Any) -> list[bytes]:
    """Raise before start_response."""
    raise ValueError("on purpose")


def raises_started(environ: Any, start_response: Any) -> list[bytes]:
    """Raise after start_response, before any body."""
    start_response("200 OK", PLAIN)
    raise ValueError("on purpose")


def raises_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Raise when the first chunk is wanted, after start_response."""
    start_response("200 OK", PLAIN)
    raise ValueError("on purpose")
    yield b""


def raises_mid_stream(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Raise after the first chunk."""
    start_response("200 OK", PLAIN)
    yield b"the beginning"
    raise ValueError("on purpose")


def raises_written(environ: Any, start_response: Any) -> list[bytes]:
    """Raise after a write()."""
    start_response("200 OK", PLAIN)(b"the beginning")
    raise ValueError("on purpose")


def exits(environ: Any, start_response: Any) -> list[bytes]:
    """Call sys.exit()."""
    raise SystemExit(3)


def not_started(environ: Any, start_response: Any) -> list[bytes]:
    """Return a body without start_response."""
    return [b"body"]


def started_twice(environ: Any, start_response: Any) -> list[bytes]:
    """Call start_response again without exc_info."""
    start_response("200 OK", PLAIN)
    start_response("404 Not Found", PLAIN)
    return [b"body"]


def error_replaces(environ: Any, start_response: Any) -> list[bytes]:
    """Replace status and headers by an error page, by the example of PEP 3333."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-First", "1")])
    try:
        raise ValueError("on purpose")
    except ValueError as exc:
        start_response("503 Sorry", [("Content-Type", "text/html")], exc_info_of(exc))
    return [b"sorry"]


def error_too_late(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Try the same after the head is out: start_response raises the error again."""
    start_response("200 OK", PLAIN)
    yield b"the beginning"
    try:
        raise KeyError("the app's own error")
    except KeyError as exc:
        start_response("500 Too Late", PLAIN, exc_info_of(exc))
    yield b"never sent"


def exc_info_of(exc: BaseException) -> Any:
    """Return sys.exc_info() of an exception."""
    return type(exc), exc, exc.__traceback__


def starts_with(*arguments: Any) -> Any:
    """Return an app with a call of start_response with these arguments."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response(*arguments)
        return [b"never sent"]

    return app


def returns(value: Any) -> Any:
    """Return an app with this result after a good start_response."""

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", PLAIN)
        return value

    return app


# Requests


def environ_json(environ: Any, start_response: Any) -> list[bytes]:
    """Return the environ as JSON, with types in the place of unfit values."""
    plain = (str, bool, int, list, tuple)
    shown = {
        name: value if isinstance(value, plain) else f"<{type(value).__name__}>" for name, value in environ.items()
    }
    body = json.dumps(shown).encode()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body]


def echo(environ: Any, start_response: Any) -> list[bytes]:
    """Return the request body."""
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("X-Length", environ.get("CONTENT_LENGTH", "none"))])
    return [body]


def count_body(environ: Any, start_response: Any) -> list[bytes]:
    """Read the body in blocks; return length and sum."""
    total = checksum = 0
    while True:
        block = environ["wsgi.input"].read(65536)
        if not block:
            break
        total += len(block)
        checksum = (checksum + sum(block)) & 0xFFFFFFFF
    start_response("200 OK", PLAIN)
    return [b"%d %d" % (total, checksum)]


READS: dict[str, Callable[[Any], Any]] = {
    "read": lambda body: body.read(),
    "read(-1)": lambda body: body.read(-1),
    "read(None)": lambda body: body.read(None),
    "read(0)": lambda body: body.read(0),
    "read(5)": lambda body: body.read(5),
    "read(10000)": lambda body: body.read(10000),
    "readline": lambda body: body.readline(),
    "readline(-1)": lambda body: body.readline(-1),
    "readline(2)": lambda body: body.readline(2),
    "readlines": lambda body: body.readlines(),
    "readlines(1)": lambda body: body.readlines(1),
    "iter": lambda body: list(body),
    "next": lambda body: next(iter(body), b""),
}


def read_as_told(environ: Any, start_response: Any) -> list[bytes]:
    """Run the reads named in the query string, separated by ;, and return their results."""
    body = environ["wsgi.input"]
    results = []
    for name in environ["QUERY_STRING"].split(";"):
        value = READS[name](body)
        parts = value if isinstance(value, list) else [value]
        assert all(type(part) is bytes for part in parts)
        texts = [part.decode("latin-1") for part in parts]
        results.append(texts if isinstance(value, list) else texts[0])
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(results).encode()]


def no_reading(environ: Any, start_response: Any) -> list[bytes]:
    """Answer without looking at the body."""
    start_response("200 OK", PLAIN)
    return [b"unread"]


# Files


class NotingFile(io.FileIO):
    """A file noting the close."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.close_count = 0
        self.closed_event = threading.Event()

    def close(self) -> None:
        if not self.closed:
            self.close_count += 1
        super().close()
        self.closed_event.set()


def file_sender(open_file: Callable[[], Any], *headers: tuple[str, str], **options: Any) -> Any:
    """Return an app sending the file of open_file() through wsgi.file_wrapper."""

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", list(headers))
        return environ["wsgi.file_wrapper"](open_file(), *options.get("blksize", ()))

    return app


def temporary_file(environ: Any, start_response: Any) -> Any:
    """Send QUERY_STRING octets from a temporary file."""
    file = tempfile.TemporaryFile()
    file.truncate(int(environ["QUERY_STRING"]))
    start_response("200 OK", PLAIN)
    return environ["wsgi.file_wrapper"](file)


# Apps watched and steered by a test


class Gate:
    """An app telling of each entry, and waiting to be let through."""

    def __init__(self, app: Any = hello) -> None:
        self.app = app
        self.paths: list[str] = []  # in the order of entry
        self._entered = threading.Semaphore(0)
        self._permits = threading.Semaphore(0)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.paths.append(environ["PATH_INFO"])
        self._entered.release()
        assert self._permits.acquire(timeout=WAIT_SECONDS), "nobody opened the gate"
        return self.app(environ, start_response)

    def wait_entered(self) -> None:
        """Wait until one more request is inside."""
        assert self._entered.acquire(timeout=30), "the app was not called"

    def open(self, count: int = 1) -> None:
        """Let `count` requests through."""
        for _ in range(count):
            self._permits.release()


class Recorder:
    """Counts the calls of an app."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.count = 0
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        with self._lock:
            self.count += 1
        return self.app(environ, start_response)


class Chunks:
    """An iterable counting chunks and noting close()."""

    def __init__(self, chunks: Iterable[bytes], close_error: Exception | None = None) -> None:
        self._chunks = iter(chunks)
        self._close_error = close_error
        self.given = 0
        self.close_count = 0
        self.closed = threading.Event()

    def __iter__(self) -> Chunks:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self.given += 1
        return chunk

    def close(self) -> None:
        self.close_count += 1
        self.closed.set()
        if self._close_error is not None:
            raise self._close_error


class Streamer:
    """An app with new Chunks for each request, kept in `made`."""

    def __init__(self, new_chunks: Callable[[], Iterable[bytes]], *headers: tuple[str, str], **options: Any) -> None:
        self._new_chunks = new_chunks
        self._headers = headers
        self._options = options
        self.made: list[Chunks] = []

    def __call__(self, environ: Any, start_response: Any) -> Chunks:
        chunks = Chunks(self._new_chunks(), **self._options)
        self.made.append(chunks)
        start_response("200 OK", list(self._headers))
        return chunks


class Together:
    """An app with `count` requests inside at once before any may leave."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        self._barrier.wait(WAIT_SECONDS)
        return hello(environ, start_response)


# Apps of the subprocess tests: steered by their path


def steered(environ: Any, start_response: Any) -> Iterable[bytes]:
    """/wait/PATH: say "in" by making PATH.in, wait for PATH.go, say "out" by PATH.out; else hello."""
    path = environ["PATH_INFO"]
    if path.startswith("/wait"):
        base = path[len("/wait") :]
        open(base + ".in", "w").close()
        deadline = time.monotonic() + WAIT_SECONDS
        while not os.path.exists(base + ".go"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        open(base + ".out", "w").close()
    return hello(environ, start_response)


def opens_a_file(environ: Any, start_response: Any) -> list[bytes]:
    """Answer with the length of the body; and open a file of the app's own."""
    size = len(environ["wsgi.input"].read())
    with open(os.devnull, "rb"):
        start_response("200 OK", PLAIN)
        return [str(size).encode()]


def site(environ: Any, start_response: Any) -> Iterable[bytes]:
    """One app with a path for each act of the soak test."""
    path = environ["PATH_INFO"]
    if path == "/echo":
        return count_body(environ, start_response)
    if path == "/stream":
        start_response("200 OK", PLAIN)
        return (b"%07d\n" % number * 512 for number in range(int(environ["QUERY_STRING"])))
    if path == "/file":
        return temporary_file(environ, start_response)
    if path == "/big":
        start_response("200 OK", PLAIN)
        return [b"x" * int(environ["QUERY_STRING"])]
    if path == "/raise":
        return raises_mid_stream(environ, start_response)
    if path == "/late":
        return hints_late(environ, start_response)
    if path == "/fork":
        return forks(environ, start_response)
    if path == "/collect":
        return collect(environ, start_response)
    return hello(environ, start_response)


def hints_late(environ: Any, start_response: Any) -> Iterable[bytes]:
    """Return while a second thread sends early hints, perhaps too late."""

    def send() -> None:
        with contextlib.suppress(aserve.ClientDisconnected, AppError):
            environ["wsgi.early_hints"]([("Link", "</a.css>; rel=preload")])

    threading.Thread(target=send, daemon=True).start()
    start_response("200 OK", PLAIN)
    return [b"hello\n"] if environ["QUERY_STRING"] == "whole" else iter([b"hel", b"lo\n"])


def forks(environ: Any, start_response: Any) -> list[bytes]:
    """Fork a child with the end asked by the query string, and do not wait."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if not os.fork():
        way = environ["QUERY_STRING"]
        if way == "raise":
            raise ValueError("in a child")
        if way == "exit":
            sys.exit()
        if way == "leave":
            os._exit(0)
        if way == "kill":
            os.kill(os.getpid(), signal.SIGTERM)
    return hello(environ, start_response)


def collect(environ: Any, start_response: Any) -> list[bytes]:
    """Collect all garbage, and give free memory back to the system: resident memory is then in use."""
    gc.collect()
    gc.collect()  # garbage of the first collection's finalizers
    getattr(ctypes.CDLL(None), "malloc_trim", id)(0)  # glibc's
    return hello(environ, start_response)


_SOFT_LIMITS: list[int] = []


def short_of_files(environ: Any, start_response: Any) -> list[bytes]:
    """Leave no file descriptor to be had on /take-all, as many as before on /give-back; else `hello`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if environ["PATH_INFO"] == "/take-all":
        # Not by opening files up to the limit: a descriptor in use by the server for a moment just then is free afterwards.
        _SOFT_LIMITS.append(soft)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    if environ["PATH_INFO"] == "/give-back":
        resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT_LIMITS.pop(), hard))
        aserve.core.incident.CALM_SECONDS = 1  # not before: on a busy machine the next attempt may come later
    return hello(environ, start_response)
