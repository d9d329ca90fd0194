"""Which connections stay open, and how the rest end (RFC 9112 section 9)."""

import socket

import pytest
from harness import apps
from harness.rules import rule

pytestmark = [pytest.mark.also_inline, pytest.mark.c_and_python]


@pytest.mark.long_on_pypy
@rule("RFC 9112 9.3", "an HTTP/1.1 connection stays open", "it does, without a Connection field")
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator, apps.written, apps.no_chunks, apps.raises])
def test_http_1_1_stays_open(start_server, raw_client, app):
    """An HTTP/1.1 connection serves request after request, without a Connection field."""
    client = raw_client(start_server(app))
    replies = [client.fetch() for _ in range(20)]
    assert {reply.get("Connection") for reply in replies} == {None}
    assert len({reply.body for reply in replies}) == 1


@rule("RFC 9112 9.3", "a request with close is the last one", "the response says close, and the connection is closed")
def test_a_close_is_answered_by_close(start_server, raw_client):
    client = raw_client(start_server(apps.hello))
    assert client.fetch().get("Connection") is None
    reply = client.fetch("/", "Connection: close")
    assert (reply.get("Connection"), reply.body) == ("close", b"hello\n")
    assert client.recv_to_end() == b""


@rule("RFC 9110 7.6.1", "Connection is a list of options, in any case", "close is found wherever it stands")
def test_connection_close_in_a_list(start_server, raw_client):
    """close is found in any spelling and in any place of the list."""
    client = raw_client(start_server(apps.hello))
    assert client.fetch("/", "Connection: keep-alive, Close").get("Connection") == "close"
    assert client.recv_to_end() == b""


@rule("RFC 9112 9.3", "an HTTP/1.0 connection is closed unless asked otherwise", "closed")
def test_http_1_0_closes(start_server, raw_client):
    client = raw_client(start_server(apps.hello))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    reply = client.recv_response()
    assert (reply.version, reply.get("Connection"), reply.body) == ("HTTP/1.1", "close", b"hello\n")
    assert client.recv_to_end() == b""


@rule("RFC 9112 9.3", "HTTP/1.0 with keep-alive may stay open", "it stays, and the response says so")
def test_http_1_0_keep_alive(start_server, raw_client):
    """An HTTP/1.0 client that asks for keep-alive gets keep-alive, and is told so."""
    client = raw_client(start_server(apps.hello))
    for _ in range(3):
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        reply = client.recv_response()
        assert (reply.get("Connection").lower(), reply.body) == ("keep-alive", b"hello\n")


@rule("RFC 9112 7", "no transfer coding to HTTP/1.0", "a body of unknown length ends with the connection")
def test_http_1_0_without_length(start_server, raw_client):
    """To HTTP/1.0 nothing is chunked: a body of unknown length ends with the connection."""
    client = raw_client(start_server(apps.lazy_generator))
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    reply = client.recv_response()
    assert (reply.get("Connection"), reply.framing, reply.body) == ("close", "close", b"made late")


@rule(
    "RFC 9112 8",
    "a body that ends with the connection is complete when it closes",
    "one that the app cannot finish ends in a reset",
)
def test_http_1_0_failure_is_seen(start_server, raw_client):
    """A body that ends with the connection is reset when unfinished."""
    client = raw_client(start_server(apps.raises_mid_stream))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    with pytest.raises(client.Truncated) as caught:
        client.recv_response()
    assert caught.value.is_reset


@rule("RFC 9112 9.6", "a client may close its half", "what it has asked for is still answered")
def test_half_closed_client(start_server, raw_client):
    """A client that has ended its sending still gets its response; then the connection closes."""
    client = raw_client(start_server(apps.lazy_generator))
    client.request()
    client.end_sending()
    assert client.recv_response().body == b"made late"
    assert client.recv_to_end() == b""


def test_client_that_says_nothing(start_server, raw_client):
    server = start_server(apps.hello)
    for _ in range(3):
        raw_client(server).close()
        raw_client(server).reset()
    client = raw_client(server)
    client.end_sending()
    assert client.recv_to_end() == b""
    assert raw_client(server).fetch().status == 200


@rule("RFC 9112 2.2", "an empty line before a request line is ignored", "any number of them")
def test_empty_lines_before_a_request(start_server, raw_client):
    """RFC 9112 2.2: an empty line before a request line is skipped."""
    client = raw_client(start_server(apps.hello))
    for _ in range(2):
        client.send(b"\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.recv_response().status == 200


def test_a_unix_socket_serves_the_same(start_server, raw_client, tmp_path):
    path = tmp_path / "socket"
    server = start_server(apps.environ_json, bind=f"unix:{path}")
    assert server.address == str(path)
    environ = raw_client(server).fetch().json()
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("", "")
    server.stop()
    assert not path.exists()


@pytest.mark.plain
def test_nagles_algorithm_is_off(start_server, raw_client):
    """Nagle's algorithm is off: a response in pieces does not wait for acknowledgements."""
    server = start_server(apps.hello)
    raw_client(server).fetch()
    raw_client(server).fetch()

    assert server.options(socket.IPPROTO_TCP, socket.TCP_NODELAY) == [1, 1]
