"""An app's result that is no iterable of bytes: the log advises, whatever stands in front of the app."""

import gc
import warnings

import pytest
from harness.gateways import new_exchange, respond
from harness.interpreter import first_on_pypy
from harness.replies import Chunks, returning

from aserve.core.errors import AppError
from aserve.features import Config
from aserve.features.files.compressing import Compressing
from aserve.features.files.x_sendfile import XSendfile
from aserve.wsgi.returned import iterate, not_bytes, not_iterable


async def view():
    return [b"x"]


async def stream():
    yield b"x"


class Response:
    """The usual result of frameworks: called with environ and start_response."""

    def __call__(self, environ, start_response):
        return []


WRONG = [
    (lambda: None, "the app returned None, not an iterable of bytes: is a `return` missing? return [body]"),
    (view, "the app returned a coroutine, which nothing awaits: the app, or its view, is async; wrap"),
    (stream, "the app returned an async generator, which nothing awaits: the app"),
    (Response, "the app returned Response, which is called, not iterated: return response(environ, start_response)"),
    (lambda: 17, "the app returned int, not an iterable of bytes: return [body]"),
]
NOT_BYTES = [(b"Hello", "returns [body]"), ("Hello", "encode it"), ([None], "not NoneType")]


@pytest.mark.parametrize(("make", "told"), first_on_pypy(WRONG))
def test_what_cannot_be_iterated(make, told, caplog):
    """Such a result is the app's fault: a 500, and a line with the app and the remedy, without frames of the server; nothing warns."""
    exchange = new_exchange()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (octets,) = respond(returning(make()), exchange)
        gc.collect()
    assert octets.startswith(b"HTTP/1.1 500 ") and exchange.has_app_failed
    (record,) = [record for record in caplog.records if record.name == "aserve.app"]
    assert "returning.<locals>.app broke PEP 3333 at GET /x?...: the app returned " in record.getMessage()
    assert told in str(record.exc_info[1])


@pytest.mark.parametrize("make", first_on_pypy([make for make, _ in WRONG]))
@pytest.mark.parametrize("wrapper", first_on_pypy([Compressing, XSendfile]))
def test_behind_a_layer(make, wrapper, caplog):
    """A layer in front of the app hides nothing of it; the same before start_response."""
    for app in (returning(make()), lambda environ, start_response: make()):
        caplog.clear()
        (octets,) = respond(wrapper(app, Config(x_sendfile="/srv", compress=True)))
        assert octets.startswith(b"HTTP/1.1 500 ")
        assert "broke PEP 3333 at GET /x?...: the app returned " in caplog.text
        gc.collect()


@pytest.mark.parametrize(("body", "told"), NOT_BYTES)
def test_what_is_not_made_of_bytes(body, told, caplog):
    """Bytes are made of integers, a str of strs: the line tells the right result."""
    (octets,) = respond(returning(body))
    assert octets.startswith(b"HTTP/1.1 500 ")
    (record,) = caplog.records
    assert "the body must be made of bytes" in record.getMessage()
    assert told in str(record.exc_info[1])


def test_a_type_error_of_the_apps_own(caplog):
    """An iterable's own exception is told unchanged, with its traceback."""
    error = TypeError("mine")
    list(respond(returning(Chunks(error=error))))
    assert caplog.records[0].exc_info[1] is error


def test_what_can_be_iterated():
    """Iterables stay the same, those without __iter__ as well; their own TypeError passes."""

    class Old:
        def __getitem__(self, place):
            return (b"a", b"b")[place]

    class Broken:
        def __iter__(self):
            raise TypeError("mine")

    assert list(iterate(Old())) == [b"a", b"b"] and not_iterable(Old()) is None
    assert list(iterate([b"a"])) == [b"a"]
    with pytest.raises(TypeError, match="mine"):
        iterate(Broken())
    with pytest.raises(AppError, match="returned None"):
        iterate(None)


def test_a_large_chunk_is_told_in_short():
    """The line stays short."""
    assert len(str(not_bytes("x" * 10_000))) < 200
