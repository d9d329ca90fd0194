"""Kept connections end after a number of requests, or an age, by an answer that says so (docs/balancers.md)."""

import pytest
from harness import apps
from harness.rules import rule

pytestmark = pytest.mark.also_inline


def fetch_until_close(client, most=50):
    """Return how many requests a connection carries; the last response says close, and the connection is closed."""
    for number in range(1, most + 1):
        reply = client.fetch()
        assert reply.status in (200, 201)
        if reply.get("Connection") == "close":
            assert client.recv_to_end() == b""
            return number
    return -1


@rule(
    "RFC 9112 9.6", "a server may end a connection after a response that says close", "--max-connection-requests does"
)
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator])
def test_a_connection_ends_after_its_requests(start_server, raw_client, app):
    """Each connection has its own number, whether the response is whole or in pieces."""
    server = start_server(app, max_connection_requests=3)
    assert [fetch_until_close(raw_client(server)) for _ in range(3)] == [3, 3, 3]


def test_next_client_of_a_unix_socket(start_server, raw_client, tmp_path):
    """Where clients have no address, a client's number is not taken from the next, which may get its descriptor."""
    server = start_server(apps.hello, bind=f"unix:{tmp_path}/socket", max_connection_requests=3)
    for _ in range(3):
        client = raw_client(server)
        assert [client.fetch().get("Connection") for _ in range(2)] == [None, None]
        client.close()
        server.wait_until_known(0)
    assert fetch_until_close(raw_client(server)) == 3


def test_a_connection_ends_after_its_age(start_server, raw_client):
    """A connection ends with the first answer after its age; other connections do not wait for it."""
    server = start_server(apps.hello, max_connection_seconds=0.05)
    assert fetch_until_close(raw_client(server), 100_000) > 0


def test_http_1_0(start_server, raw_client):
    """A client of HTTP/1.0 is told, too."""
    client = raw_client(start_server(apps.hello, max_connection_requests=2))
    for said in ("keep-alive", "close"):
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.recv_response().get("Connection") == said
    assert client.recv_to_end() == b""


@pytest.mark.one_way
def test_health_checks_do_not_count(start_server, raw_client):
    server = start_server(apps.hello, max_connection_requests=2, healthcheck_path="/-/health")
    client = raw_client(server)
    assert {client.fetch("/-/health/ready").get("Connection") for _ in range(5)} == {None}
    assert [client.fetch().get("Connection") for _ in range(2)] == [None, "close"]


def test_tls_connections_end_as_well(serve_tls, raw_client):
    """In TLS, where the event loop answers, the number is the same."""
    assert fetch_until_close(raw_client(serve_tls(max_connection_requests=2))) == 2
