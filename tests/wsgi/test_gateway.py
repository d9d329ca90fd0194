"""One exchange in a worker: the app is called, its reply has one of four forms, it is closed once."""

from __future__ import annotations

import functools
import gzip
import io
import logging
import os
import sys
import tempfile

import pytest
from harness.fakes import FakeConnection

from aserve import forks
from aserve.body import LiveBody
from aserve.errors import AppError, ClientDisconnected, RequestRefused, RequestTimeout, ResponseTruncated, WrittenOff
from aserve.exchange import Exchange
from aserve.wsgi import FileResponse, FileWrapper, Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import LARGE_BODY_BYTES, CommonFields

VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/x?y\0PATH_INFO\0/x\0QUERY_STRING\0y\0SERVER_PROTOCOL\0HTTP/1.1"


def new_exchange():
    exchange = Exchange(VARS, 5)
    exchange.connection = FakeConnection(
        build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=FileWrapper)
    )
    return exchange


def respond(app, exchange=None, has_sendfile=True):
    gateway = Gateway(app, CommonFields("s"), has_sendfile)
    return gateway.respond(new_exchange() if exchange is None else exchange)


def body_of(octets):
    return octets.partition(b"\r\n\r\n")[2]


class Closing:
    """An iterable that counts how often it is closed."""

    def __init__(self, *chunks, error=None, close_error=None):
        self.chunks, self.error, self.close_error = chunks, error, close_error
        self.closed = 0

    def __iter__(self):
        yield from self.chunks
        if self.error is not None:
            raise self.error

    def close(self):
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


def serving(iterable, headers=(), status="200 OK"):
    """Return an app that starts with these and returns the iterable."""

    def app(environ, start_response):
        start_response(status, list(headers))
        return iterable

    return app


# The four forms


@pytest.mark.parametrize("chunks", [[b"hello"], [b"hel", b"lo"], [b"", b"hello", b""]])
def test_a_list_is_one_piece(chunks):
    """A list of bytes is the whole body: one piece, with its length."""
    reply = respond(serving(chunks))
    assert type(reply) is bytes and body_of(reply) == b"hello"
    assert b"\r\nContent-Length: 5\r\n" in reply


def test_an_empty_list():
    """An app may return nothing at all."""
    assert b"\r\nContent-Length: 0\r\n" in respond(serving([]))


def test_a_large_list_is_two_pieces():
    """A large body is not copied behind its head."""
    body = bytes(LARGE_BODY_BYTES)
    head, rest = respond(serving([body]))
    assert head.endswith(b"\r\n\r\n") and rest is body


@pytest.mark.parametrize("kind", [tuple, iter, lambda chunks: Closing(*chunks), lambda c: (x for x in c)])
def test_any_other_iterable_comes_in_pieces(kind):
    """What is no list is iterated, and each chunk sent as it comes (PEP 3333 "Buffering")."""
    first, *rest = list(respond(serving(kind([b"", b"ab", b"", b"c"]))))
    assert body_of(first) == b"2\r\nab\r\n" and rest == [b"1\r\nc\r\n", b"0\r\n\r\n"]


def test_chunks_are_not_made_ahead():
    """An app's next chunk is made when it can be sent, not before."""
    made = []

    def chunks():
        for number in range(3):
            made.append(number)
            yield b"x"

    reply = respond(serving(chunks()))
    assert made == []
    next(reply)
    assert made == [0]
    next(reply)
    assert made == [0, 1]


@pytest.mark.parametrize(
    ("is_head", "headers", "count"),
    [(False, [], 4), (False, [("Content-Length", "1")], 2), (True, [], 1)],
)
def test_chunks_that_nobody_can_be_sent_are_not_made(is_head, headers, count):
    """Over the declared length, or for HEAD, an endless iterable ends all the same, closed."""
    made = []

    def chunks():
        try:
            for number in range(4):
                made.append(number)
                yield b"x"
        finally:
            made.append("closed")

    exchange = new_exchange()
    exchange.is_head = is_head
    list(respond(serving(chunks(), headers), exchange))
    assert made == [*range(count), "closed"]


def test_an_app_that_is_a_generator():
    """start_response may be called as late as at the first chunk."""

    def app(environ, start_response):
        start_response("200 OK", [("X", "y")])
        yield b"a"
        yield b"b"

    octets = b"".join(respond(app))
    assert b"\r\nX: y\r\n" in octets and body_of(octets) == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"


def test_an_empty_stream():
    """A stream without a chunk is a whole response with an empty body."""
    (octets,) = respond(serving(iter([])))
    assert b"\r\nContent-Length: 0\r\n" in octets and body_of(octets) == b""


def test_the_environ_and_the_response():
    """The app gets its own environ, early hints, and a response that the exchange remembers."""
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        environ["wsgi.early_hints"]([("Link", "x")])
        start_response("404 Not Found", [])
        return [b"no"]

    exchange = new_exchange()
    respond(app, exchange)
    assert seen["PATH_INFO"] == "/x" and seen["wsgi.file_wrapper"] is FileWrapper
    assert exchange.connection.sent == [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"]
    assert exchange.response.code == 404 and exchange.response.sent_bytes == 2


def test_write_then_a_list():
    """After write(), what is returned follows in the same framing."""

    def app(environ, start_response):
        start_response("200 OK", [])(b"ab")
        return [b"c"]

    exchange = new_exchange()
    rest = list(respond(app, exchange))
    assert body_of(exchange.connection.sent[0]) == b"2\r\nab\r\n"
    assert rest == [b"1\r\nc\r\n", b"0\r\n\r\n"]


def test_a_list_shorter_than_declared(caplog):
    """What is there is sent, then the connection has to be cut: nobody can repair it."""
    pieces = respond(serving([b"abc"], [("Content-Length", "5")]))
    assert body_of(next(pieces)) == b"abc"
    with pytest.raises(ResponseTruncated, match="3 of 5"):
        next(pieces)
    assert "broke PEP 3333 at GET /x?y: the body ended after 3 of 5 octets" in caplog.text


# close(), exactly once: PEP 3333 "Specification Details"


@pytest.mark.parametrize("chunks", [[], [b"a"], [b"a", b"b"]])
def test_closed_when_exhausted(chunks):
    """An iterable is closed after its last chunk, once, before the end is reported."""
    closing = Closing(*chunks)
    list(respond(serving(closing)))
    assert closing.closed == 1


def test_closed_after_a_failure_before_the_head():
    """An iterable that fails before its first chunk is closed, and the client gets a 500."""
    closing = Closing(error=ValueError("no"))
    (octets,) = respond(serving(closing))
    assert octets.startswith(b"HTTP/1.1 500 ") and closing.closed == 1


def test_closed_after_a_failure_behind_the_head():
    """An iterable that fails later is closed, and the response is cut."""
    closing = Closing(b"a", error=ValueError("no"))
    pieces = respond(serving(closing))
    next(pieces)
    with pytest.raises(ResponseTruncated, match="no"):
        next(pieces)
    assert closing.closed == 1


@pytest.mark.parametrize("count", [1, 2])
def test_closed_when_the_client_leaves(count):
    """Who stops asking closes the pieces; that closes the iterable, also within its last chunk."""
    closing = Closing(b"a", b"b")
    pieces = respond(serving(closing))
    for _ in range(count):
        next(pieces)
    pieces.close()
    pieces.close()
    assert closing.closed == 1


def test_closed_at_the_last_piece():
    """The end of the response may be the point where the client leaves."""
    closing = Closing(b"a")
    pieces = respond(serving(closing))
    assert [next(pieces), next(pieces)][1] == b"0\r\n\r\n"
    pieces.close()
    assert closing.closed == 1


@pytest.mark.parametrize("chunks", [(), (b"a",)])
def test_a_failing_close_is_logged(chunks, caplog):
    """After a whole response, close() can spoil nothing any more."""
    closing = Closing(*chunks, close_error=KeyError("late"))
    octets = b"".join(respond(serving(closing)))
    assert octets.startswith(b"HTTP/1.1 200 OK") and closing.closed == 1
    assert "raised KeyError in close()" in caplog.text


@pytest.mark.parametrize("count", [1, 2])
def test_a_failing_close_when_the_client_has_left(count, caplog):
    """Closing early, too, raises nothing to us: what close() raises is the app's, and logged."""
    closing = Closing(b"a", b"b", close_error=KeyError("late"))
    pieces = respond(serving(closing))
    for _ in range(count):
        next(pieces)
    pieces.close()
    assert closing.closed == 1 and "raised KeyError in close()" in caplog.text


def test_a_failure_and_a_failing_close(caplog):
    """When both fail before the head, the client gets its 500 and both are in the log."""
    closing = Closing(error=ValueError("first"), close_error=KeyError("second"))
    (octets,) = respond(serving(closing))
    assert octets.startswith(b"HTTP/1.1 500 ") and closing.closed == 1
    assert "first" in caplog.text and "second" in caplog.text


def test_an_iterable_without_close():
    """close() is optional."""

    class Bare:
        def __iter__(self):
            return iter([b"a"])

    assert len(list(respond(serving(Bare())))) == 2


# Failures of the app


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), MemoryError()]
)
def test_an_app_that_raises(error, caplog):
    """Whatever the app raises costs this request and nothing else; the log has the traceback."""

    def app(environ, start_response):
        raise error

    exchange = new_exchange()
    (octets,) = respond(app, exchange)
    assert octets.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"its log says why" in body_of(octets) and exchange.response.code == 500
    (record,) = caplog.records
    assert f"raised {type(error).__name__} at GET /x?y" in record.getMessage()
    assert "test_an_app_that_raises" in record.getMessage() and record.exc_info[1] is error


def test_an_app_that_takes_too_long(caplog):
    """What wsgi/deadlines.py has logged already is a 504, after which the connection goes on."""

    def app(environ, start_response):
        raise RequestTimeout

    exchange = new_exchange()
    (octets,) = respond(app, exchange)
    assert octets.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n") and exchange.response.code == 504
    assert exchange.keep_alive and caplog.records == []


def test_a_worker_that_is_written_off():
    """That nobody waits for the response any more is not the app's failure: its worker must know."""

    def app(environ, start_response):
        raise WrittenOff

    def lazy(environ, start_response):
        raise WrittenOff
        yield b""

    with pytest.raises(WrittenOff):
        respond(app)
    with pytest.raises(WrittenOff):
        list(respond(lazy))


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("chunks", [(), (b"a",)])
def test_an_iterable_that_raises(error, chunks):
    """The same while it is iterated: a 500 while that is possible, else the response is cut."""
    closing = Closing(*chunks, error=error)
    pieces = respond(serving(closing))
    if chunks:
        next(pieces)
        with pytest.raises(ResponseTruncated):
            next(pieces)
    else:
        assert next(pieces).startswith(b"HTTP/1.1 500 ")
        assert list(pieces) == []
    assert closing.closed == 1


def test_a_failure_after_write():
    """Once write() has sent the head, a failure can only cut the response."""

    def app(environ, start_response):
        start_response("200 OK", [])(b"ab")
        raise ValueError("no")

    with pytest.raises(ResponseTruncated, match="no"):
        next(respond(app))


@pytest.mark.parametrize("where", ["app", "iterable"])
def test_the_client_leaves_while_the_app_reads(where, caplog):
    """ClientDisconnected through the app is nobody's fault: no 500, no traceback."""
    caplog.set_level(logging.INFO)

    def app(environ, start_response):
        if where == "app":
            raise ClientDisconnected("gone")
        return Closing(error=ClientDisconnected("gone"))

    with pytest.raises(ClientDisconnected, match="gone"):
        next(respond(app))
    (record,) = caplog.records
    assert record.levelno == logging.INFO and record.exc_info is None


@pytest.mark.parametrize("error", [ClientDisconnected("refused"), ValueError("on purpose")])
@pytest.mark.parametrize("is_out", [False, True])
def test_a_refused_live_body(error, is_out, caplog):
    """An app that ends at a body that we refused leaves the answer to us, while the head is not out."""
    caplog.set_level(logging.INFO)
    exchange = new_exchange()
    exchange.body = LiveBody(10, True)
    exchange.body.refuse(RequestRefused(413, "too large"))

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"begun" if is_out else b""
        raise error

    pieces = respond(app, exchange)
    if is_out:
        next(pieces)
        with pytest.raises((ClientDisconnected, ResponseTruncated)):
            next(pieces)
    else:
        octets = b"".join(pieces)
        assert octets.startswith(b"HTTP/1.1 413 ") and b"\r\nConnection: close\r\n" in octets
        assert exchange.response.code == 413 and not exchange.keep_alive
    assert [record.levelname for record in caplog.records] == ["ERROR" if type(error) is ValueError else "INFO"]


def returning(value):
    def app(environ, start_response):
        start_response("200 OK", [])
        return value

    return app


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["text"], "not str: 'text'"),
        ([5], "not int: 5"),
        ([None], "not NoneType"),
        ([bytearray(b"x")], "not bytearray"),
        (("text",), "not str: 'text'"),
        ("text", "not str: 't'"),
        (b"text", "not int: 116"),
    ],
)
def test_bodies_that_are_not_bytes(value, text, caplog):
    """PEP 3333 "Unicode Issues": the log names the app, and the type and value of the chunk."""
    assert next(respond(returning(value))).startswith(b"HTTP/1.1 500 ")
    assert f"{__name__}:returning.<locals>.app broke PEP 3333 at GET /x?y" in caplog.text
    assert text in caplog.text


def test_a_later_chunk_that_is_not_bytes(caplog):
    """The same behind the head: the response is cut."""
    pieces = respond(returning([b"a", "text"]))
    assert body_of(next(pieces)) == b"1\r\na\r\n"
    with pytest.raises(ResponseTruncated, match="not str: 'text'"):
        next(pieces)
    assert "app broke PEP 3333" in caplog.text


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), (5, "int")])
def test_what_cannot_be_iterated(value, kind, caplog):
    """An app that returns nothing iterable is told so, by type."""
    (octets,) = respond(returning(value))
    assert octets.startswith(b"HTTP/1.1 500 ")
    assert "returning.<locals>.app" in caplog.text and f"'{kind}' object is not iterable" in caplog.text


@pytest.mark.parametrize("value", [[b"x"], [b""], iter([b"x"]), iter([]), []])
def test_an_app_that_never_starts(value, caplog):
    """A body without start_response is the app's error, and the client gets a 500."""
    octets = b"".join(respond(lambda environ, start_response: value))
    assert octets.startswith(b"HTTP/1.1 500 ")
    assert "broke PEP 3333" in caplog.text and "before it called start_response" in caplog.text


def test_an_app_that_starts_badly(caplog):
    """What start_response refuses is the app's error."""
    octets = b"".join(respond(serving([b"x"], status="fine")))
    assert octets.startswith(b"HTTP/1.1 500 ") and "status must be like '200 OK'" in caplog.text


def test_an_app_may_catch_what_start_response_refuses():
    """An app that tries again with something valid is served."""

    def app(environ, start_response):
        try:
            start_response("fine", [])
        except Exception:
            start_response("200 OK", [], sys.exc_info())
        return [b"x"]

    assert respond(app).startswith(b"HTTP/1.1 200 OK")


class CallableApp:
    def __call__(self, environ, start_response):
        raise ValueError


def test_apps_that_are_objects_are_named(caplog):
    """An app without a name of its own is named by its class."""
    list(respond(CallableApp()))
    assert f"app {__name__}:CallableApp raised ValueError" in caplog.text


# Files: PEP 3333 "Optional Platform-Specific File Handling"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as opened:
        yield opened


def test_a_file_is_sent_as_a_file(file):
    """A regular file in a FileWrapper is not read here: the loop sends it, and has it closed."""
    reply = respond(serving(FileWrapper(file)))
    assert type(reply) is FileResponse
    assert b"\r\nContent-Length: 10\r\n" in reply.head and reply.head.endswith(b"\r\n\r\n")
    assert (reply.file, reply.offset, reply.size) == (file, 0, 10)
    assert not file.closed
    reply.close()
    assert file.closed


@pytest.mark.parametrize(
    ("skip", "declared", "offset", "count"),
    [(0, None, 0, 10), (4, None, 4, 6), (10, None, 10, 0), (20, None, 20, 0), (4, "2", 4, 2), (4, "6", 4, 6)],
)
def test_extents(file, skip, declared, offset, count):
    """The file goes out from where the app has left it, as far as the app has declared."""
    file.seek(skip)
    headers = [("Content-Length", declared)] if declared else []
    reply = respond(serving(FileWrapper(file), headers))
    if type(reply) is FileResponse:
        assert (reply.offset, reply.size) == (offset, count)
    else:  # nothing left: there is nothing to send from a file
        assert count == 0 and body_of(b"".join(reply)) == b""


def test_a_file_shorter_than_declared(file):
    """Too short a file goes the general way, which cuts the connection."""
    pieces = respond(serving(FileWrapper(file), [("Content-Length", "11")]))
    assert body_of(next(pieces)) == b"0123456789"
    with pytest.raises(ResponseTruncated):
        next(pieces)
    assert file.closed


def test_a_file_before_start_response(file):
    """A file does not excuse from start_response."""
    octets = b"".join(respond(lambda environ, start_response: FileWrapper(file)))
    assert octets.startswith(b"HTTP/1.1 500 ") and file.closed


def test_a_file_after_write(file):
    """After write() the file follows in the same framing."""

    def app(environ, start_response):
        start_response("200 OK", [])(b"ab")
        return FileWrapper(file, 6)

    assert list(respond(app)) == [b"6\r\n012345\r\n", b"4\r\n6789\r\n", b"0\r\n\r\n"]
    assert file.closed


def test_a_file_without_sendfile(file):
    """Where there is no sendfile, a file is read."""
    octets = b"".join(respond(serving(FileWrapper(file)), has_sendfile=False))
    assert body_of(octets) == b"a\r\n0123456789\r\n0\r\n\r\n"


class NoFile:
    """Something with read() alone."""

    def __init__(self):
        self.chunks = [b"ab", b"c", b""]

    def read(self, size):
        return self.chunks.pop(0)


def pipe():
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    return os.fdopen(reader, "rb")


def spooled():
    file = tempfile.SpooledTemporaryFile()
    file.write(b"abc")
    file.seek(0)
    return file


@pytest.mark.parametrize("make", [NoFile, pipe, spooled, lambda: io.BytesIO(b"abc")])
def test_what_is_no_regular_file_is_read(make):
    """Pipes, objects in memory, anything with read(): iterated, and closed where that is possible."""
    file = make()
    octets = b"".join(respond(serving(FileWrapper(file))))
    body = body_of(octets)
    assert body in (b"3\r\nabc\r\n0\r\n\r\n", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert getattr(file, "closed", True)


def test_a_file_that_decompresses_is_read(tmp_path):
    """A GzipFile has the descriptor of the compressed file; its content is what read() gives."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"abc" * 100))
    octets = b"".join(respond(serving(FileWrapper(gzip.open(path)))))
    assert body_of(octets) == b"12c\r\n" + b"abc" * 100 + b"\r\n0\r\n\r\n"


def test_a_file_of_unknown_size_is_read():
    """Files of the kernel claim to be empty; their content is what read() gives."""
    if not os.path.exists("/proc/self/stat"):
        pytest.skip("no /proc here")
    octets = b"".join(respond(serving(FileWrapper(open("/proc/self/stat", "rb")))))
    assert b"Content-Length: 0" not in octets and str(os.getpid()).encode() in body_of(octets)


@pytest.mark.parametrize("mode", ["named", "unbuffered", "read and write", "wrapped"])
def test_real_files_in_wrappers_are_sent_as_files(tmp_path, mode):
    """Named temporary files, Django's File and the like hold a real file: it is sent as one."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    if mode == "named":
        file = tempfile.NamedTemporaryFile()
        file.write(b"abc")
        file.seek(0)
    elif mode == "unbuffered":
        file = open(path, "rb", buffering=0)
    elif mode == "read and write":
        file = open(path, "r+b")
    else:
        real = open(path, "rb")
        file = type("File", (), {"read": property(lambda self: self.file.read), "close": real.close})()
        file.file = real
    reply = respond(serving(FileWrapper(file)))
    assert type(reply) is FileResponse and (reply.offset, reply.size) == (0, 3)
    reply.close()


@pytest.mark.parametrize("how", ["own read", "own read that says it is another", "read replaced", "another's read"])
def test_what_reads_otherwise_than_its_file_is_read(tmp_path, how):
    """An object that holds a real file, but gives other octets than that holds, is not sent as the file."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    real = open(path, "rb")

    def read(size=-1):
        return real.read(size).upper()

    if how == "own read":
        file = type("File", (), {"read": lambda self, size: read(size), "fileno": lambda self: real.fileno()})()
    elif how == "read replaced":
        file = open(path, "rb")
        file.read = read
    elif how == "another's read":
        file = type("File", (), {"read": io.BytesIO(b"ABC").read, "fileno": real.fileno, "tell": real.tell})()
    else:
        file = type("File", (), {"read": staticmethod(functools.wraps(real.read)(read)), "tell": real.tell})()
    if how != "read replaced":
        file.file = real
    octets = b"".join(respond(serving(FileWrapper(file))))
    assert body_of(octets) == b"3\r\nABC\r\n0\r\n\r\n"
    real.close()


def test_a_closed_file(tmp_path, caplog):
    """A file that the app has closed already is the app's error."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with open(path, "rb") as file:
        pass
    octets = b"".join(respond(serving(FileWrapper(file))))
    assert octets.startswith(b"HTTP/1.1 500 ") and "closed file" in caplog.text


def test_a_file_wrapper_is_an_iterable():
    """PEP 3333: what is returned must also work for who only iterates it."""
    file = io.BytesIO(b"abcde")
    wrapper = FileWrapper(file, 2)
    assert list(wrapper) == [b"ab", b"cd", b"e"]
    assert next(iter(FileWrapper(io.BytesIO(b"x" * 70000)))) == b"x" * 65536
    wrapper.close()
    assert file.closed
    FileWrapper(NoFile()).close()


def test_a_subclass_of_file_wrapper_is_iterated(file):
    """A subclass may change what comes out: it is not ours to send past it."""

    class Upper(FileWrapper):
        def __iter__(self):
            yield b"mine"

    assert b"mine" in b"".join(respond(serving(Upper(file))))


# In a child that the app has forked


class Left(BaseException):
    """The child has ended."""


@pytest.fixture
def fork(monkeypatch):
    """Return a function that makes this process a child, and the list of what it was left with."""
    left = []

    def leave(exc=None):
        if not isinstance(exc, Left):
            left.append(exc)
        raise Left

    monkeypatch.setattr(forks, "leave", leave)
    yield lambda: forks.forked.append(None), left
    del forks.forked[:]


def test_a_child_that_returns(fork):
    """A child that comes back from the app leaves, whatever it returns."""
    fork, left = fork
    for result in ([b"x"], (), FileWrapper(io.BytesIO()), iter([b"x"])):

        def app(environ, start_response, result=result):
            start_response("200 OK", [])
            fork()
            return result

        with pytest.raises(Left):
            respond(app)
    assert left == [None] * 4


def test_a_child_that_raises(fork):
    """What it raises is handed on."""
    fork, left = fork
    exc = SystemExit(3)

    def app(environ, start_response):
        fork()
        raise exc

    with pytest.raises(Left):
        respond(app)
    assert left == [exc]


@pytest.mark.parametrize("when", ["first", "end", "raise", "close", "raise in close"])
def test_a_child_within_an_iterable(fork, when):
    """It leaves at the next piece, at the end, and behind close()."""
    fork, left = fork
    exc = ValueError("the child's")

    class Forking:
        def __iter__(self):
            if when in ("first", "raise"):
                fork()
            if when == "raise":
                raise exc
            yield b"x"
            if when == "end":
                fork()

        def close(self):
            if "close" in when and not forks.forked:
                fork()
                if when != "close":
                    raise exc

    def app(environ, start_response):
        start_response("200 OK", [])
        return Forking()

    with pytest.raises(Left):
        list(respond(app))
    assert left == [exc if "raise" in when else None]


def test_a_child_that_writes(fork):
    """write() and early hints are its parent's."""
    fork, left = fork

    def app(environ, start_response):
        write = start_response("200 OK", [])
        fork()
        for send in (lambda: environ["wsgi.early_hints"]([]), lambda: write(b"x")):
            with pytest.raises(Left):
                send()
        raise Left

    with pytest.raises(Left):
        respond(app)
    assert left == [None, None]


def test_a_child_with_a_server_of_its_own(fork):
    """What a child serves by itself is its own."""
    fork, left = fork
    fork()
    reply = respond(lambda environ, start_response: start_response("200 OK", []) and [b"x"])
    assert body_of(reply) == b"x" and left == []


# A second thread


@pytest.mark.parametrize("is_file", [False, True])
def test_a_thread_writes_as_the_app_returns(is_file):
    """Nobody can tell what belongs to the response: it is cut, and what the app gave is closed."""
    exchange, files = new_exchange(), []

    def app(environ, start_response):
        start_response("200 OK", [])
        with exchange.response.sending:
            exchange.is_written = True  # as write() does first of all, in another thread
        if not is_file:
            return [b"whole"]
        files.append(open(__file__, "rb"))
        return environ["wsgi.file_wrapper"](files[0])

    with pytest.raises(ResponseTruncated, match="in another thread"):
        list(respond(app, exchange))
    assert all(file.closed for file in files)


def test_what_a_thread_writes_behind_our_error():
    """A response of ours is whole: it is followed by nothing."""
    writes = []

    def app(environ, start_response):
        writes.append(start_response("200 OK", [("Content-Length", "5")]))
        raise ValueError("meant to fail")

    (octets,) = respond(app, exchange := new_exchange())
    assert octets.startswith(b"HTTP/1.1 500 ")
    with pytest.raises(AppError, match="after the end"):
        writes[0](b"hello")
    assert exchange.connection.sent == []


def test_a_write_that_is_refused():
    """An app that catches it is none that has written."""

    def app(environ, start_response):
        write = start_response("200 OK", [])
        with pytest.raises(AppError):
            write("text")
        return [b"whole"]

    assert body_of(respond(app)) == b"whole"
