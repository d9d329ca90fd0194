"""A forked child of the app leaves where it would come back to us."""

import io

import pytest
from harness.gateways import Left, respond
from harness.replies import body_of

from aserve.core import forks
from aserve.wsgi import FileWrapper


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
    """The child leaves at the next piece, at the end, and behind close()."""
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
    fork, left = fork
    fork()
    reply = respond(lambda environ, start_response: start_response("200 OK", []) and [b"x"])
    assert body_of(reply) == b"x" and left == []
