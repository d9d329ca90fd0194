"""One exchange in a worker: the app is called, its reply has one of four forms, it is closed once.

Beside this file: apps that fail (test_gateway_failures.py), files (_files), children of the app (_forks).
"""

import pytest
from harness import apps
from harness.gateways import new_exchange, respond
from harness.replies import Chunks, body_of, returning

from aserve.core.errors import AppError, ResponseTruncated
from aserve.wsgi import FileWrapper, Gateway
from aserve.wsgi.response import LARGE_BODY_BYTES, CommonFields

# The four forms


@pytest.mark.parametrize("chunks", [[b"hello"], [b"hel", b"lo"], [b"", b"hello", b""]])
def test_a_list_is_one_piece(chunks):
    """A list of bytes is the whole body: one piece, with its length."""
    reply = respond(returning(chunks))
    assert type(reply) is bytes and body_of(reply) == b"hello"
    assert b"\r\nContent-Length: 5\r\n" in reply


def test_an_empty_list():
    """An app may return nothing at all."""
    assert b"\r\nContent-Length: 0\r\n" in respond(returning([]))


def test_a_large_list_is_two_pieces():
    """A large body is not copied behind its head."""
    body = bytes(LARGE_BODY_BYTES)
    head, rest = respond(returning([body]))
    assert head.endswith(b"\r\n\r\n") and rest is body


@pytest.mark.parametrize("kind", [tuple, iter, lambda chunks: Chunks(*chunks), lambda c: (x for x in c)])
def test_any_other_iterable_comes_in_pieces(kind):
    """Anything but a list is iterated, and each chunk sent at once (PEP 3333 "Buffering")."""
    first, *rest = list(respond(returning(kind([b"", b"ab", b"", b"c"]))))
    assert body_of(first) == b"2\r\nab\r\n" and rest == [b"1\r\nc\r\n", b"0\r\n\r\n"]


def test_chunks_are_not_made_ahead():
    """An app's next chunk is made when it can be sent, not before."""
    made = []

    def chunks():
        for number in range(3):
            made.append(number)
            yield b"x"

    reply = respond(returning(chunks()))
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
    list(respond(returning(chunks(), headers), exchange))
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
    (octets,) = respond(returning(iter([])))
    assert b"\r\nContent-Length: 0\r\n" in octets and body_of(octets) == b""


def test_the_environ_and_the_response():
    """The app gets its own environ, early hints, and a response remembered by the exchange."""
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
    """After write(), the returned body follows in the same framing."""

    def app(environ, start_response):
        start_response("200 OK", [])(b"ab")
        return [b"c"]

    exchange = new_exchange()
    rest = list(respond(app, exchange))
    assert body_of(exchange.connection.sent[0]) == b"2\r\nab\r\n"
    assert rest == [b"1\r\nc\r\n", b"0\r\n\r\n"]


def test_a_list_shorter_than_declared(caplog):
    """The present part is sent, then the connection has to be cut: nobody can repair it."""
    pieces = respond(returning([b"abc"], [("Content-Length", "5")]))
    assert body_of(next(pieces)) == b"abc"
    with pytest.raises(ResponseTruncated, match="3 of 5"):
        next(pieces)
    assert "broke PEP 3333 at GET /x?...: the body ended after 3 of 5 octets" in caplog.text


# close(), exactly once: PEP 3333 "Specification Details"


@pytest.mark.parametrize("chunks", [[], [b"a"], [b"a", b"b"]])
def test_closed_when_exhausted(chunks):
    """An iterable is closed after its last chunk, once, before the end is reported."""
    closing = Chunks(*chunks)
    list(respond(returning(closing)))
    assert closing.closed == 1


def test_closed_after_a_failure_before_the_head():
    """An iterable that fails before its first chunk is closed, and the client gets a 500."""
    closing = Chunks(error=ValueError("no"))
    (octets,) = respond(returning(closing))
    assert octets.startswith(b"HTTP/1.1 500 ") and closing.closed == 1


def test_closed_after_a_failure_behind_the_head():
    """An iterable that fails later is closed, and the response is cut."""
    closing = Chunks(b"a", error=ValueError("no"))
    pieces = respond(returning(closing))
    next(pieces)
    with pytest.raises(ResponseTruncated, match="no"):
        next(pieces)
    assert closing.closed == 1


@pytest.mark.parametrize("count", [1, 2])
def test_closed_when_the_client_leaves(count):
    """A leaving caller closes the pieces; that closes the iterable, also within its last chunk."""
    closing = Chunks(b"a", b"b")
    pieces = respond(returning(closing))
    for _ in range(count):
        next(pieces)
    pieces.close()
    pieces.close()
    assert closing.closed == 1


def test_closed_at_the_last_piece():
    """The end of the response may be the point where the client leaves."""
    closing = Chunks(b"a")
    pieces = respond(returning(closing))
    assert [next(pieces), next(pieces)][1] == b"0\r\n\r\n"
    pieces.close()
    assert closing.closed == 1


@pytest.mark.parametrize("chunks", [(), (b"a",)])
def test_a_failing_close_is_logged(chunks, caplog):
    """After a whole response, close() can spoil nothing any more."""
    closing = Chunks(*chunks, close_error=KeyError("late"))
    octets = b"".join(respond(returning(closing)))
    assert octets.startswith(b"HTTP/1.1 200 OK") and closing.closed == 1
    assert "raised KeyError in close()" in caplog.text


@pytest.mark.parametrize("count", [1, 2])
def test_a_failing_close_when_the_client_has_left(count, caplog):
    """Closing early, too, raises nothing to us: an exception of close() is the app's, and logged."""
    closing = Chunks(b"a", b"b", close_error=KeyError("late"))
    pieces = respond(returning(closing))
    for _ in range(count):
        next(pieces)
    pieces.close()
    assert closing.closed == 1 and "raised KeyError in close()" in caplog.text


def test_a_failure_and_a_failing_close(caplog):
    """When both fail before the head, the client gets its 500 and both are in the log."""
    closing = Chunks(error=ValueError("first"), close_error=KeyError("second"))
    (octets,) = respond(returning(closing))
    assert octets.startswith(b"HTTP/1.1 500 ") and closing.closed == 1
    assert "first" in caplog.text and "second" in caplog.text


def test_an_iterable_without_close():
    """close() is optional."""

    class Bare:
        def __iter__(self):
            return iter([b"a"])

    assert len(list(respond(returning(Bare())))) == 2


# A second thread


@pytest.mark.parametrize("is_file", [False, True])
def test_a_thread_writes_as_the_app_returns(is_file):
    """Nobody can tell the response's part: it is cut, and the app's iterable is closed."""
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
    """An app that catches it has not written."""

    def app(environ, start_response):
        write = start_response("200 OK", [])
        with pytest.raises(AppError):
            write("text")
        return [b"whole"]

    assert body_of(respond(app)) == b"whole"


def test_before_the_app():
    """Steps before the app are asked in order; the first reply is the response, and the app has nothing of it."""
    seen = []

    class Asked:
        def __init__(self, name, reply=None):
            self.name, self.reply = name, reply

        def before(self, exchange):
            seen.append(self.name)
            return self.reply

    gateway = Gateway(apps.hello, CommonFields(""), True, [Asked("a"), Asked("b")])
    assert gateway.respond(new_exchange()).endswith(b"hello\n") and seen == ["a", "b"]
    gateway = Gateway(pytest.fail, CommonFields(""), True, [Asked("c"), Asked("d", b"octets"), Asked("e")])
    assert gateway.respond(new_exchange()) == b"octets" and seen[2:] == ["c", "d"]
