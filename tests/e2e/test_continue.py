"""100-continue (RFC 9110 section 10.1.1) and early hints (RFC 8297)."""

import pytest
from harness import apps
from harness.rules import rule

EXPECT = "Expect: 100-continue"


@rule(
    "RFC 9110 10.1.1",
    "a client that waits for 100 gets it, or a final status",
    "100 once the head is good and all earlier responses are out",
)
@pytest.mark.also_inline
@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_client_waits_for_100(start_server, raw_client, framing):
    """A client that waits for 100 gets 100, then the response; the connection stays usable."""
    client = raw_client(start_server(apps.echo))
    for _ in range(3):
        client.request("/", EXPECT, framing, method="POST")
        assert client.recv_response().status == 100
        client.send(b"hello" if "Length" in framing else b"5\r\nhello\r\n0\r\n\r\n")
        assert client.recv_response().body == b"hello"


@rule("RFC 9110 10.1.1", "100 may be left out when the body is there", "left out")
@pytest.mark.also_inline
def test_body_sent_without_waiting(start_server, raw_client):
    """RFC 9110 10.1.1: a 100 may be left out when the body is there already."""
    client = raw_client(start_server(apps.echo))
    client.send(b"POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
    assert client.recv_response().body == b"hello"


@rule("RFC 9110 10.1.1", "the expectation of an HTTP/1.0 client is ignored", "ignored")
@pytest.mark.also_inline
def test_no_continue_for_http_1_0(start_server, raw_client):
    """An HTTP/1.0 client knows no 1xx response."""
    client = raw_client(start_server(apps.echo))
    client.send(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert client.is_quiet()
    client.send(b"hello")
    assert client.recv_response().body == b"hello"


@rule("RFC 9110 10.1.1", "a final status may stand in place of 100", "413 for a body over the limit, before it is sent")
@pytest.mark.also_inline
def test_no_continue_when_too_large(start_server, raw_client):
    """A body over --max-body is refused instead of asked for."""
    client = raw_client(start_server(apps.echo, max_body_bytes=10))
    client.request("/", EXPECT, "Content-Length: 11", method="POST")
    assert client.recv_response().status == 413
    assert client.recv_to_end() == b""


@rule("RFC 9110 10.1.1", "an expectation that cannot be met may be answered 417", "417, then closed")
@pytest.mark.also_inline
def test_other_expectations_are_417(start_server, raw_client):
    """RFC 9110 10.1.1: an unknown expectation is answered with 417."""
    client = raw_client(start_server(apps.echo))
    client.request("/", "Expect: miracles", "Content-Length: 5", method="POST")
    assert client.recv_response().status == 417
    assert client.recv_to_end() == b""


def test_continue_after_pipelined_responses(start_server, raw_client):
    """The 100 comes after the responses to earlier requests, and so is not taken for theirs."""
    gate = apps.Gate(apps.echo)
    client = raw_client(start_server(gate))
    client.request("/first")
    client.request("/second", EXPECT, "Content-Length: 5", method="POST")
    gate.wait_entered()
    assert client.is_quiet()
    gate.open(2)
    assert [client.recv_response().status for _ in range(2)] == [200, 100]
    client.send(b"hello")
    assert client.recv_response().body == b"hello"


# --body stream


@rule('PEP 3333 "HTTP 1.1 Expect/Continue"', "100 may wait until the app reads", "with --body stream it does")
def test_live_continue_at_the_first_read(start_server, raw_client):
    """With --body stream the 100 is sent when the app first reads, not before."""
    gate = apps.Gate(apps.echo)
    client = raw_client(start_server(gate, body="stream"))
    for _ in range(3):
        client.request("/", EXPECT, "Content-Length: 5", method="POST")
        gate.wait_entered()
        assert client.is_quiet()
        gate.open()
        assert client.recv_response().status == 100
        client.send(b"hello")
        assert client.recv_response().body == b"hello"


# Early hints


@pytest.mark.one_way
def test_live_continue_after_a_long_wait(start_server, raw_client):
    """The client's time to send its body begins with the 100."""
    gate = apps.Gate(apps.echo)
    server = start_server(gate, body="stream", body_seconds=1.5)
    server.hold_clock()
    client = raw_client(server)
    client.request("/", EXPECT, "Content-Length: 5", method="POST")
    gate.wait_entered()
    server.pass_seconds(3)
    gate.open()
    assert client.recv_response().status == 100
    client.send(b"hello")
    assert client.recv_response().body == b"hello"


@rule("RFC 8297 2", "103 may come before the final response", "environ[wsgi.early_hints] sends it at once")
@pytest.mark.also_inline
def test_early_hints_come_at_once(start_server, raw_client):
    """wsgi.early_hints sends 103 responses before the final one, at once."""
    client = raw_client(start_server(apps.early_hints))
    for _ in range(3):
        client.request()
        first, second, final = (client.recv_response() for _ in range(3))
        assert (first.status, first.get("Link")) == (103, "</a.css>; rel=preload")
        assert (second.status, second.get("Link")) == (103, "</b.js>; rel=preload")
        assert (final.status, final.body) == (200, b"final")


def test_early_hints_are_early(start_server, raw_client):
    """The 103 is with the client while the app still works on the response."""
    gate = apps.Gate()

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</a.css>; rel=preload")])
        return gate(environ, start_response)

    client = raw_client(start_server(app))
    client.request()
    assert client.recv_response().status == 103
    gate.open()
    assert client.recv_response().status == 200


@rule("RFC 9110 15.2", "no 1xx to an HTTP/1.0 client", "none")
@pytest.mark.also_inline
def test_no_early_hints_for_http_1_0(start_server, raw_client):
    """An HTTP/1.0 client gets the final response only."""
    client = raw_client(start_server(apps.early_hints))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.recv_response().body == b"final"


@rule("RFC 9110 8.6", "no Content-Length in a 1xx response", "the app gets an error if it gives one")
@pytest.mark.also_inline
@pytest.mark.parametrize("field", [("X-Bad", "a\r\nb"), ("X Bad", "a"), ("X-Bad", "\u20ac")])
def test_bad_early_hints(start_server, raw_client, field):
    """Fields of a 103 are checked like all fields."""

    def app(environ, start_response):
        environ["wsgi.early_hints"]([field])
        return apps.hello(environ, start_response)

    assert raw_client(start_server(app)).fetch().status == 500
