"""Requests that are refused: the status, the exchange that has it, and the limits."""

import pathlib

import pytest
from harness.http1 import CHUNKED, CHUNKED_HEAD, EXPECT, GET, POST, feed, vars_of

from aserve.core.budgets import BodySpace, Budget
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

REJECTED = pathlib.Path(__file__).parent.parent / "corpus" / "http1" / "reject"


REFUSED = [
    (400, b"GET / HTTP/1.1\r\n\r\n"),  # RFC 9112 3.2: no Host
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),  # RFC 9112 3.2
    (400, b"GET / HTTP/1.1\nHost: a\n\n"),  # RFC 9112 2.2: bare LF
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA : 1\r\n\r\n"),  # RFC 9112 5.1
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n 2\r\n\r\n"),  # RFC 9112 5.2: obs-fold
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n"),  # RFC 9110 5.5
    (400, b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"),  # a NUL would end its value in the vars
    (400, POST.replace(b" 5", b" 5, 5")),  # RFC 9112 6.3
    (400, POST.replace(b" 5", b" +5")),  # RFC 9110 8.6
    (400, CHUNKED.replace(b"Host", b"Content-Length: 5\r\nHost")),  # RFC 9112 6.1
    (400, CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0")),  # RFC 9112 6.1
    (400, CHUNKED.replace(b" chunked", b" gzip")),  # RFC 9112 6.3: chunked is not the last
    (501, CHUNKED.replace(b" chunked", b" gzip, chunked")),  # RFC 9112 6.1
    (400, CHUNKED_HEAD + b"0x5\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1
    (400, CHUNKED_HEAD + b"-5\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1
    (400, CHUNKED_HEAD + b"fffffffffffffffff\r\n"),  # RFC 9112 7.1: overflow
    (400, CHUNKED_HEAD + b"5\r\nhello0\r\n\r\n"),  # RFC 9112 7.1: no CRLF behind the data
    (505, GET.replace(b"1.1", b"2.0")),  # RFC 9110 15.6.6
    (501, b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),  # RFC 9110 9.3.6: no proxy here
    (417, EXPECT.replace(b"100-continue", b"miracles")),  # RFC 9110 10.1.1
    (414, GET.replace(b"/", b"/" + b"x" * 8200, 1)),  # RFC 9110 15.5.15
    (431, GET[:-2] + b"A: " + b"x" * 66000 + b"\r\n\r\n"),  # RFC 6585 5
    (431, GET[:-2] + b"A: 1\r\n" * 100 + b"\r\n"),  # RFC 6585 5
    (413, POST.replace(b" 5", b" 1073741825")),  # RFC 9110 15.5.14
]
# Where llhttp has another answer, or no limit: docs/parser-differences.md
REFUSED_BY_OURS = [
    (400, b"GET /\r\n\r\n"),  # RFC 9112 3: no version
    (400, CHUNKED_HEAD + b"5;" + b"x" * 9000 + b"\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1.1
    (431, CHUNKED_HEAD + b"0\r\nA: " + b"x" * 9000 + b"\r\n\r\n"),  # RFC 6585 5
]


@pytest.mark.parametrize(("status", "raw"), REFUSED, ids=lambda value: repr(value)[:60])
def test_refusals_are_the_last_exchange(new_http1, status, raw):
    """A client's fault is the last exchange, behind the good ones; nothing is parsed after it."""
    check_refusal(new_http1(), status, raw)


@pytest.mark.parametrize(("status", "raw"), REFUSED_BY_OURS)
def test_refusals_of_our_own_parser(status, raw):
    """What llhttp does not judge, or otherwise, is the last exchange, too."""
    check_refusal(PROTOCOLS["http", "c"](Limits())(), status, raw)


def check_refusal(protocol, status, raw):
    exchanges = protocol.receive(GET + raw + GET)
    assert len(exchanges) == 2 and exchanges[0].refusal is None
    refused = exchanges[1]
    assert refused.refusal.status == status and str(refused.refusal)
    assert not refused.keep_alive
    assert not protocol.has_unparsed and not protocol.is_mid_message
    assert not protocol.is_mid_body and not protocol.is_continue_due
    assert protocol.receive(GET) == [] == protocol.receive(b"")


def test_a_refusal_of_a_body_knows_its_head(new_http1):
    """A refusal after a good head keeps what is known of the request, for the log and for HEAD."""
    raw = POST.replace(b"POST", b"HEAD")
    (refused,) = new_http1(max_body_bytes=4).receive(raw)
    assert refused.refusal.status == 413 and refused.is_head
    assert dict(vars_of(refused))["PATH_INFO"] == "/p"


def test_body_limit_by_length(new_http1):
    """RFC 9110 15.5.14: exactly the limit is taken; one octet over is refused at the head."""
    assert new_http1(max_body_bytes=5).receive(POST)[0].refusal is None
    (refused,) = new_http1(max_body_bytes=4).receive(POST[:-5])
    assert refused.refusal.status == 413


def test_body_limit_of_chunks(new_http1):
    """A chunked body is refused as soon as it flows over the limit, not at its end."""
    protocol = new_http1(max_body_bytes=5)
    assert protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n") == []
    (refused,) = protocol.receive(b"5\r\nw")
    assert refused.refusal.status == 413
    assert protocol.receive(b"orld\r\n0\r\n\r\n" + GET) == []
    (exchange,) = new_http1(max_body_bytes=6).receive(CHUNKED)
    assert exchange.refusal is None


@pytest.mark.parametrize(
    ("limit", "head", "rest", "status"),
    [
        (4, POST[:-5], b"", 413),  # it would never fit
        (5, POST[:-5], b"hel", 503),  # others have the room, as its head comes
        (4, CHUNKED_HEAD, b"5\r\nhello\r\n", 413),
        (5, CHUNKED_HEAD, b"5\r\nhello\r\n", 503),  # or as it comes itself
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_body_without_room_on_the_disk(new_http1, limit, head, rest, status, parts):
    """RFC 9110 15.6.4: refused as soon as that is known, and what still comes of it is dropped."""
    space = BodySpace(Budget(limit), Budget(9), "aserve-body-")
    space.octets.reserve(1)
    protocol = new_http1(body_memory_bytes=2, body_space=space)
    (refused,) = feed(protocol, *([head + rest] if parts == 1 else [head, rest]))
    assert refused.refusal.status == status
    assert feed(protocol, b"x" * 9, GET) == [] and space.octets.count == 1 and not space.files.count


def test_the_room_is_gone_as_a_body_comes(new_http1):
    """Somebody else has taken it since its head came."""
    space = BodySpace(Budget(5), Budget(9), "aserve-body-")
    protocol = new_http1(body_memory_bytes=2, body_space=space)
    assert protocol.receive(POST[:-5]) == []
    space.octets.reserve(1)
    (refused,) = protocol.receive(b"hello")
    assert refused.refusal.status == 503 and space.octets.count == 1


def test_an_expectation_of_a_body_too_large(new_http1):
    """RFC 9110 10.1.1: a body that would be refused is not asked for."""
    protocol = new_http1(max_body_bytes=4)
    (refused,) = protocol.receive(EXPECT)
    assert refused.refusal.status == 413 and not protocol.is_continue_due
