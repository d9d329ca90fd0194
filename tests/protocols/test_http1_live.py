"""Live bodies of HTTP/1.1: an exchange comes with its head, and its body is fed as octets come."""

import pytest
from harness.http1 import CHUNKED, CHUNKED_HEAD, EXPECT, GET, LARGE, PARSERS, POST, body_of

from aserve.core.errors import ClientDisconnected
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits


@pytest.mark.parametrize("head", [POST[:-5], CHUNKED_HEAD])
def test_a_live_exchange_comes_with_its_head(new_http1, head):
    """--body stream: the exchange is there when the head is, and its body is still open."""
    protocol = new_http1(is_live=True)
    (exchange,) = protocol.receive(head)
    assert exchange.body.is_live and not exchange.body.is_complete
    assert protocol.live_body is exchange.body
    assert protocol.is_mid_message and protocol.is_mid_body


@pytest.mark.parametrize("raw", [POST, CHUNKED])
def test_a_live_body_ends(new_http1, raw):
    """Octets that come later go to the same body; at its end the next request begins."""
    protocol = new_http1(is_live=True)
    (exchange,) = protocol.receive(raw[:-2])
    assert protocol.receive(raw[-2:] + GET)[0].body is None
    assert exchange.body.is_complete and protocol.live_body is None
    assert body_of(exchange).startswith(b"hello") and not protocol.is_mid_message


@pytest.mark.parametrize("raw", [POST, CHUNKED])
def test_a_live_body_does_not_wait_for_the_pipeline(new_http1, raw):
    """The limit of pipelined exchanges never keeps back the body of one that is already out."""
    protocol = new_http1(is_live=True, max_pipelined=1)
    (exchange,) = protocol.receive(raw + LARGE)
    assert exchange.body.is_complete and body_of(exchange).startswith(b"hello")
    assert len(protocol.receive(b"")) == 1


def test_a_live_body_over_the_limit_in_chunks(new_http1):
    """The app has the exchange already: it meets the refusal where it reads."""
    protocol = new_http1(is_live=True, max_body_bytes=5)
    (exchange,) = protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n")
    assert exchange.keep_alive
    assert protocol.receive(b"1\r\n!\r\n0\r\n\r\n" + GET) == []
    assert not exchange.keep_alive and protocol.live_body is None
    assert exchange.body.read(5) == b"hello"
    with pytest.raises(ClientDisconnected, match="over the limit of 5 octets"):
        exchange.body.read(1)


def test_a_live_body_too_large_by_length(new_http1):
    """A length over the limit is refused before there is an exchange."""
    (refused,) = new_http1(is_live=True, max_body_bytes=4).receive(POST)
    assert refused.refusal.status == 413 and refused.body is None


def test_a_live_body_with_broken_framing(new_http1):
    """A bad chunk within a live body is the reader's error, not a second response."""
    protocol = new_http1(is_live=True)
    (exchange,) = protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\nx\r\n" + GET)
    assert not exchange.keep_alive and exchange.refusal is None
    with pytest.raises(ClientDisconnected, match=r"RFC 9112|llhttp"):
        exchange.body.read()
    assert protocol.receive(GET) == []


def test_a_live_body_cut_off(new_http1):
    """A client that leaves within a live body is told to the reader."""
    protocol = new_http1(is_live=True)
    (exchange,) = protocol.receive(POST[:-1])
    protocol.receive_eof()
    with pytest.raises(ClientDisconnected, match="before the end of the request body"):
        exchange.body.read()


def test_continue_for_a_live_body(new_http1):
    """The flag stays until the app wants the body, or the client sends it unasked."""
    protocol = new_http1(is_live=True)
    (exchange,) = protocol.receive(EXPECT)
    assert protocol.is_continue_due and protocol.live_body is exchange.body
    protocol.receive(b"h")
    assert not protocol.is_continue_due


def test_connections_share_nothing_but_scratch():
    """Two connections of one factory, fed in turns, do not disturb one another."""
    for parser in PARSERS:
        factory = PROTOCOLS["http", parser](Limits())
        one, two = factory(), factory()
        one.receive(CHUNKED[:70])
        two.receive(POST[:30])
        assert body_of(one.receive(CHUNKED[70:])[0]) == b"hello!"
        assert body_of(two.receive(POST[30:])[0]) == b"hello"
