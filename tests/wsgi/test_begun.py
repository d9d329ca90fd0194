"""Responses begun by C: their rest, and the app's result's."""

import pytest

from aserve.core.errors import AppError, ResponseTruncated
from aserve.core.exchange import HTTP_1_1, UWSGI, Exchange
from aserve.wsgi.begun import BegunResponse, Rest
from aserve.wsgi.response import CommonFields

HEAD = b"HTTP/1.1 200 OK\r\n"


def begun(length=-1, sent_bytes=-1, is_full=False, unsent=b"", form=HTTP_1_1, is_head=False):
    """Return a response left by C."""
    exchange = Exchange("")
    exchange.form, exchange.is_head = form, is_head
    response = BegunResponse(exchange, CommonFields(""))
    response.unsent = unsent
    response.adopt(HEAD, 200, length, sent_bytes, is_full)
    return response


def test_the_head_is_not_out():
    """It goes on with its head."""
    octets = begun().encode(b"abc")
    assert octets.startswith(HEAD + b"Transfer-Encoding: chunked\r\n") and octets.endswith(b"\r\n\r\n3\r\nabc\r\n")


@pytest.mark.parametrize(
    ("its", "piece", "end"),
    [
        ({}, b"3\r\nabc\r\n", b"0\r\n\r\n"),
        ({"form": UWSGI}, b"abc", b""),
        ({"length": 7}, b"abc", b""),
        ({"length": 5}, b"a", b""),
    ],
)
@pytest.mark.provokes("the app gave more body")
def test_in_the_middle(its, piece, end):
    """Later pieces are framed like earlier ones."""
    response = begun(sent_bytes=4, **its)
    assert response.head_is_out
    assert response.encode(b"abc") == piece and response.finish() == end


def test_a_short_response_counts_octets_of_c():
    response = begun(length=8, sent_bytes=4)
    with pytest.raises(ResponseTruncated, match="after 4 of 8 octets"):
        response.finish()


def test_what_was_not_sent():
    """Unsent octets come before all else, once, and not with refused ones."""
    response = begun(sent_bytes=4, unsent=b"rest")
    with pytest.raises(AppError):
        response.encode("text")
    assert [response.encode(b""), response.encode(b"a")] == [b"rest", b"1\r\na\r\n"]


@pytest.mark.parametrize("its", [{}, {"length": 4}, {"is_head": True}])
def test_all_is_out(its):
    """The end is not sent twice."""
    response = begun(sent_bytes=4, is_full=True, unsent=b"end", **its)
    assert response.encode(b"") == b"end" and response.finish() == b""


class Returned:
    """An iterable with close()."""

    def __init__(self):
        self.closed = 0

    def __iter__(self):
        return iter([])

    def close(self):
        self.closed += 1


def test_the_rest_begins_with_the_taken_piece():
    returned = Returned()
    rest = Rest(returned, iter([b"b", b"c"]), (b"a",), None, False)
    assert list(rest) == [b"a", b"b", b"c"] and not returned.closed
    rest.close()
    assert returned.closed == 1


def test_rest_of_one_that_has_ended():
    """It is not begun anew."""
    assert not list(Rest([b"a"], None, (), None, False))
    Rest([b"a"], None, (), None, False).close()  # it has none


def test_rest_of_one_that_has_raised():
    """The exception comes where it came in C, with nothing before it and no cycle; the iterable is closed as ever."""
    returned, exc = Returned(), ValueError("on purpose")
    rest = Rest(returned, iter([b"b"]), (), exc, False)
    with pytest.raises(ValueError, match="on purpose") as raised:
        next(rest)
    assert raised.value is exc and exc.__context__ is None
    rest.close()
    assert returned.closed == 1


def test_rest_of_one_that_is_closed():
    """The iterable is not closed again; an exception of close() is raised there."""
    returned = Returned()
    Rest(returned, None, (), None, True).close()
    rest = Rest(returned, None, (), ValueError("on purpose"), True)
    assert not list(rest)
    with pytest.raises(ValueError, match="on purpose"):
        rest.close()
    assert not returned.closed
