"""Apps that fail: the client gets an error or sees that its response is cut, the log says why, the worker goes on."""

import logging
import sys

import pytest
from harness.gateways import new_exchange, respond
from harness.replies import Chunks, body_of, returning

from aserve.core.body import LiveBody
from aserve.core.errors import ClientDisconnected, RequestRefused, RequestTimeout, ResponseTruncated, WrittenOff


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
    assert exchange.has_app_failed
    (record,) = caplog.records
    assert f"raised {type(error).__name__} at GET /x?..." in record.getMessage()
    assert "test_an_app_that_raises" in record.getMessage() and record.exc_info[1] is error


def test_an_app_that_takes_too_long(caplog):
    """A timeout logged by wsgi/deadlines.py is a 504, after which the connection goes on."""

    def app(environ, start_response):
        raise RequestTimeout

    exchange = new_exchange()
    (octets,) = respond(app, exchange)
    assert octets.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n") and exchange.response.code == 504
    assert exchange.keep_alive and caplog.records == [] and not exchange.has_app_failed


def test_a_worker_that_is_written_off():
    """A response without a waiter is not the app's failure: its worker must know."""

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
    closing = Chunks(*chunks, error=error)
    pieces = respond(returning(closing))
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
        return Chunks(error=ClientDisconnected("gone"))

    with pytest.raises(ClientDisconnected, match="gone"):
        next(respond(app))
    (record,) = caplog.records
    assert record.levelno == logging.INFO and record.exc_info is None


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_failure_before_the_live_body_is_read(is_whole):
    """The rest of the body is not read, and so the response is told to be the last; not if there is no rest."""
    exchange = new_exchange()
    exchange.body = LiveBody(10, True)
    if is_whole:
        exchange.body.feed_end()

    def app(environ, start_response):
        raise ValueError("on purpose")

    octets = b"".join(respond(app, exchange))
    assert octets.startswith(b"HTTP/1.1 500 ")
    assert (b"\r\nConnection: close\r\n" in octets) is not is_whole and exchange.keep_alive is is_whole


@pytest.mark.parametrize("error", [ClientDisconnected("refused"), ValueError("on purpose")])
@pytest.mark.parametrize("is_out", [False, True])
def test_a_refused_live_body(error, is_out, caplog):
    """An app that ends at a refused body leaves the answer to us, while the head is not out."""
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
    assert "harness.replies:returning.<locals>.app broke PEP 3333 at GET /x?..." in caplog.text
    assert text in caplog.text


def test_a_later_chunk_that_is_not_bytes(caplog):
    """The same behind the head: the response is cut."""
    pieces = respond(returning([b"a", "text"]))
    assert body_of(next(pieces)) == b"1\r\na\r\n"
    with pytest.raises(ResponseTruncated, match="not str: 'text'"):
        next(pieces)
    assert "app broke PEP 3333" in caplog.text


@pytest.mark.parametrize("value", [[b"x"], [b""], iter([b"x"]), iter([]), []])
def test_an_app_that_never_starts(value, caplog):
    """A body without start_response is the app's error, and the client gets a 500."""
    octets = b"".join(respond(lambda environ, start_response: value))
    assert octets.startswith(b"HTTP/1.1 500 ")
    assert "broke PEP 3333" in caplog.text and "before it called start_response" in caplog.text


def test_an_app_that_starts_badly(caplog):
    """An error of start_response is the app's."""
    octets = b"".join(respond(returning([b"x"], status="fine")))
    assert octets.startswith(b"HTTP/1.1 500 ") and "status must be like '200 OK'" in caplog.text


def test_an_app_may_catch_what_start_response_refuses():
    """An app with a second, valid try is served."""

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
    """A nameless app is named by its class."""
    list(respond(CallableApp()))
    assert f"app {__name__}:CallableApp raised ValueError" in caplog.text
