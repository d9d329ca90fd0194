"""A stream's octets become an exchange, by the rules of HTTP/1.1."""

import pytest
from harness.http1 import dict_of
from harness.http2 import request as fields_of
from harness.http2_engine import Peer

from aserve.core.budgets import unlimited_bodies
from aserve.features.http2.request import HTTP_2, StreamRequest
from aserve.protocols.base import Limits
from aserve.protocols.http1 import Scratch
from aserve.protocols.underscores import Underscores


def new(is_ended=False, **limits):
    return StreamRequest(Scratch(Limits(**limits)), is_ended)


def head(*args):
    return encode(fields_of(*args))


def encode(fields):
    ((*_, octets),) = Peer(takes_websockets=True).ask(fields, ends=False)
    return octets


def end(request, data=b""):
    """Feed the last octets."""
    request.is_ended = True
    return request.receive(data)


def test_without_a_body():
    """The head is the request."""
    (exchange,) = new(is_ended=True).receive(head(b"HEAD", b"/a%20b?SERVER_PROTOCOL", (b"x-a", b"b")))
    environ = dict_of(exchange)
    assert environ["SERVER_PROTOCOL"] == "HTTP/2.0" and environ["PATH_INFO"] == "/a b" and environ["HTTP_X_A"] == "b"
    assert environ["QUERY_STRING"] == "SERVER_PROTOCOL" and environ["HTTP_HOST"] == "a"
    assert exchange.form is HTTP_2 and not exchange.keep_alive and exchange.is_head and exchange.body is None


@pytest.mark.parametrize("length", [(), ((b"content-length", b"5"),)])
def test_a_body_comes_in_pieces(length):
    """A body comes in pieces; the exchange is there when it is whole."""
    request = new()
    assert request.receive(head(b"POST", b"/", *length)) == [] and request.is_mid_body
    assert request.receive(b"he") == [] and request.incomplete[0].body.length == 2
    (exchange,) = end(request, b"llo")
    assert exchange.body.open().read() == b"hello" and exchange.body.is_chunked == (not length)
    assert request.receive(b"") == [] and not request.is_mid_message


def test_a_live_body_comes_after_its_exchange():
    """With --body stream, the app has the request while its body comes."""
    request = new(is_live=True)
    (exchange,) = request.receive(head(b"POST", b"/"))
    assert request.receive(b"he") == [] and end(request, b"llo") == []
    assert exchange.body.read() == b"hello"


def test_continue_is_due_for_waiting_clients():
    """A waiting client is told to go on; another is not."""
    request = new()
    request.receive(head(b"POST", b"/", (b"expect", b"100-continue")))
    assert request.is_continue_due
    request.receive(b"x")
    assert not request.is_continue_due


@pytest.mark.parametrize(
    ("args", "status", "limits"),
    [
        ((b"GET", b"/#"), 400, {}),
        ((b"GET", b"/%"), 400, {}),
        ((b"GET", b"*"), 400, {}),
        ((b"GET", b"/", (b"a", b"b\x01")), 400, {}),
        ((b"CONNECT", b"/"), 501, {}),
        ((b"GET", b"/" + b"a" * 100), 414, {"max_line_bytes": 50}),
        ((b"GET", b"/", (b"a", b"b" * 100)), 431, {"max_head_bytes": 100}),
        ((b"GET", b"/", *[(b"a%d" % n, b"b") for n in range(5)]), 431, {"max_fields": 4}),
        ((b"POST", b"/", (b"content-length", b"5"), (b"content-length", b"5")), 400, {}),
        ((b"POST", b"/", (b"content-length", b"11")), 413, {"max_body_bytes": 10}),
        ((b"POST", b"/", (b"expect", b"x")), 417, {}),
    ],
)
def test_refusals_have_the_status_of_http_1(args, status, limits):
    """A request that HTTP/1.1 refuses is refused with the same status, and no field of its connection."""
    request = new(**limits)
    (exchange,) = request.receive(head(*args))
    assert exchange.refusal.status == status and exchange.form is HTTP_2
    assert dict_of(exchange).get("REQUEST_METHOD", args[0].decode()) == args[0].decode()
    assert request.receive(b"more") == [] and request.incomplete == []


def test_body_over_the_limit():
    request = new(max_body_bytes=10)
    assert request.receive(head(b"POST", b"/")) == []
    (exchange,) = request.receive(b"x" * 11)
    assert exchange.refusal.status == 413


def test_a_live_body_over_the_limit():
    request = new(max_body_bytes=10, is_live=True)
    (exchange,) = request.receive(head(b"POST", b"/"))
    assert request.receive(b"x" * 11) == [] and exchange.body.refusal.status == 413


def test_shared_rules_hold_for_fields(caplog):
    """Fields of proxies and with underscores are handled as over HTTP/1.1."""
    seen = []
    caplog.set_level("INFO")
    request = new(
        is_ended=True, strip_forwarded=seen.append, underscores=Underscores("here"), body_space=unlimited_bodies()
    )
    (exchange,) = request.receive(head(b"GET", b"/", (b"x-forwarded-for", b"1.2.3.4"), (b"x_real_name", b"root")))
    assert seen == [exchange] and "x_real_name" not in exchange.vars.lower()
    assert "dropped the field x_real_name" in caplog.text


def test_not_over_tls():
    """A method with the name of a variable forges nothing."""
    (exchange,) = new(is_ended=True).receive(head(b"SERVER_PROTOCOL", b"/"))
    environ = dict_of(exchange)
    assert environ["REQUEST_METHOD"] == "SERVER_PROTOCOL" and environ["SERVER_PROTOCOL"] == "HTTP/2.0"


@pytest.mark.parametrize("is_declined", [True, False])
def test_a_websockets_octets_are_kept(is_declined):
    """Octets behind its head are no body, and kept for the app; or mean nothing after an ordinary answer."""
    receiver = new()
    (exchange,) = receiver.receive(encode([(b":method", b"CONNECT"), (b":protocol", b"websocket"), *fields_of()[1:]]))
    assert exchange.asks_websocket and exchange.body is None and receiver.asks_websocket
    assert receiver.receive(b"early") == [] and receiver.unparsed == b"early"
    if is_declined:
        receiver.go_on()
        assert end(receiver, b"late") == [] and receiver.unparsed == b""
