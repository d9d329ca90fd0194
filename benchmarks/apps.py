"""The WSGI apps that the servers are compared on, and fib() timed without a server.

Use:      SERVER apps:hello; `python apps.py WARM_UP SECONDS` times the bare function fib(36).
Rules:    no framework unless the name says so; nothing is imported or allocated for an app that is
          not served, so that the memory of `hello` is the server's own.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

Environ = dict[str, Any]
StartResponse = Callable[..., Any]

BLOB_OCTETS = 5 * 1024 * 1024 + 200 * 1024  # 5.2 MiB: a large photograph, or a small film
BLOCK_OCTETS = 65536
TOKENS_KEPT = 100_000
SLOW_PATH = "/slow"


def hello(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with 19 octets: what remains is the server."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "19")])
    return [b"My Own Hello World!"]


def mixed(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer what mix.py asks: like `hello`, with a stream of unknown length, or with the length of the request's body."""
    path = environ["PATH_INFO"]
    if path == "/":
        return hello(environ, start_response)
    if path == "/stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return iter([b"x" * 1000] * 4)
    answer = b"The second of a pair."
    if path == "/post":
        # A chunked body has no length, and ends by itself where the server can do that.
        answer = b"%d octets" % len(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or -1)))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]


def echo(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the request body."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", _fields(len(body)))
    return [body]


def cpu(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Compute for about a millisecond, as a page made from templates does."""
    return _number(fib(20), start_response)


def unlike(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer like `hello`; at /slow compute for about 20 ms."""
    return _number(fib(26), start_response) if environ["PATH_INFO"] == SLOW_PATH else hello(environ, start_response)


def fib36(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Compute for long: seconds on CPython, a tenth of one on PyPy."""
    return _number(fib(36), start_response)


def sleepy(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Wait for 10 ms, as for a database."""
    time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
    return [b"ciao"]


def http2(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer like `hello`; at /nap after 100 ms, at /blob like `blob`."""
    path = environ["PATH_INFO"]
    if path == "/nap":
        time.sleep(0.1)
    return blob(environ, start_response) if path == "/blob" else hello(environ, start_response)


def blob(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with 5.2 MiB from memory."""
    start_response("200 OK", _fields(BLOB_OCTETS))
    return [_blob()]


def blobfile(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with 5.2 MiB from a file, through the server's file wrapper where it has one."""
    file = open(_blob_path(), "rb")  # PEP 3333: the server closes it
    start_response("200 OK", _fields(BLOB_OCTETS))
    wrapper = environ.get("wsgi.file_wrapper")
    return wrapper(file, BLOCK_OCTETS) if wrapper else _blocks(file)


def testapp(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with Werkzeug's test page: a small page made by a real library."""
    page: Iterable[bytes] = _werkzeug_app()(environ, start_response)
    return page


def who(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the number of the process."""
    return _number(os.getpid(), start_response)


def token(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """
    Answer with the query, how often it has come, what the body was, and as many more octets as `size=` asks for.

    chaos_client.py gives each request a query of its own, so that it sees whose answer it has got.
    """
    query = environ["QUERY_STRING"]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if len(_times) > TOKENS_KEPT:
        _times.clear()  # a long run must not grow; one that comes again across this goes unnoticed
    times = next(_times.setdefault(query, itertools.count(1)))  # one step each: several threads count
    answer = token_answer(query, times, body)
    start_response("200 OK", _fields(len(answer)))
    return [answer]


def token_answer(query: str, times: int, body: bytes) -> bytes:
    """Return what `token` answers."""
    line = f"{query} {times} {len(body)} {zlib.crc32(body)}\n".encode()
    size = int(query.rpartition("size=")[2] or 0)
    return line + (line * (size // len(line) + 1))[:size]


def cherrypy_hello(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the same 19 octets through all of CherryPy."""
    page: Iterable[bytes] = _cherrypy_app()(environ, start_response)
    return page


def zope_root(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the root page of an empty Zope."""
    page: Iterable[bytes] = _zope_app()(environ, start_response)
    return page


zope_json = zope_root  # the same app, asked for another path


def fib(n: int) -> int:
    """Return the n-th Fibonacci number, the slow way."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


# Parts

_times: dict[str, itertools.count[int]] = {}


def _fields(length: int) -> list[tuple[str, str]]:
    return [("Content-Type", "application/octet-stream"), ("Content-Length", str(length))]


def _blocks(file: BinaryIO) -> Iterable[bytes]:
    with file:
        yield from iter(lambda: file.read(BLOCK_OCTETS), b"")


def _number(number: int, start_response: StartResponse) -> Iterable[bytes]:
    body = b"%d" % number
    start_response("200 OK", _fields(len(body)))
    return [body]


@functools.lru_cache(None)
def _blob() -> bytes:
    return b"x" * BLOB_OCTETS


@functools.lru_cache(None)
def _blob_path() -> str:
    handle, path = tempfile.mkstemp(prefix="blob-")  # in the run's own TMPDIR, removed after it
    with os.fdopen(handle, "wb") as file:
        file.write(b"x" * BLOB_OCTETS)
    return path


@functools.lru_cache(None)
def _werkzeug_app() -> Callable[..., Any]:
    from werkzeug.testapp import test_app

    return test_app


@functools.lru_cache(None)
def _cherrypy_app() -> Callable[..., Any]:
    import cherrypy

    class Root:
        @cherrypy.expose  # type: ignore[untyped-decorator]
        def index(self) -> bytes:
            cherrypy.response.headers["Content-Type"] = "text/plain"
            return b"My Own Hello World!"

    cherrypy.config.update({"environment": "embedded", "log.screen": False})
    return cherrypy.Application(Root(), "")  # type: ignore[no-any-return]


@functools.lru_cache(None)
def _zope_app() -> Callable[..., Any]:
    """Make an instance of Zope in the run's own TMPDIR, its root page and its JSON view included."""
    from zope.component import provideAdapter
    from zope.interface import Interface
    from zope.publisher.interfaces.browser import IBrowserRequest
    from Zope2.Startup.run import make_wsgi_app
    from Zope2.utilities import copyzopeskel

    home = tempfile.mkdtemp(prefix="zope-")
    skeleton = os.path.join(os.path.dirname(copyzopeskel.__file__), "skel")
    copyzopeskel.copyskel(skeleton, home, None, None, INSTANCE_HOME=home)
    app = make_wsgi_app({}, os.path.join(home, "etc", "zope.conf"))

    class Data:
        """A view that answers with JSON."""

        def __init__(self, context: Any, request: Any) -> None:
            self.request = request

        def __call__(self) -> str:
            self.request.response.setHeader("Content-Type", "application/json")
            return json.dumps({"items": [{"id": number, "title": f"Item {number}"} for number in range(20)]})

    provideAdapter(Data, (Interface, IBrowserRequest), Interface, name="data.json")
    return app  # type: ignore[no-any-return]


def time_fib36(warm_up_seconds: float, seconds: float) -> dict[str, float]:
    """Call fib(36) for this long; return how often, and in how many CPU seconds."""
    end = time.perf_counter() + warm_up_seconds
    while time.perf_counter() < end:
        fib(36)
    count, started, end = 0, time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        fib(36)
        count += 1
    return {"n": count, "cpu_seconds": time.process_time() - started}


if __name__ == "__main__":
    print(json.dumps(time_fib36(float(sys.argv[1]), float(sys.argv[2]))))
