"""Time limits. The timer ticks once a second.

Most tests let the server's seconds pass themselves (`pass_seconds`), once the awaited state has come; for unseen states the clock decides, in
seconds.
"""

import threading

import pytest
from harness import apps
from harness.rules import rule

pytestmark = [pytest.mark.one_way, pytest.mark.also_http2]


@rule(
    "RFC 9110 15.5.9",
    "408 for a request that is not complete in time",
    "408 at --head-timeout and --body-timeout, then closed",
)
@pytest.mark.parametrize(
    "octets", [b"GET / HTTP/1.1\r\nHost:", b"GET", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1"]
)
def test_incomplete_requests_are_answered_408(start_server, raw_client, octets):
    """A late head or body is answered with 408, and the connection closed."""
    app = apps.Recorder(apps.hello)
    server = start_server(app, head_seconds=0.5, body_seconds=0.5)
    server.hold_clock()
    client = raw_client(server)
    client.send(octets)
    server.wait_until_receiving()
    assert client.is_quiet()
    server.pass_seconds_until(lambda: not client.is_quiet())
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection")) == (408, "close")
    assert client.recv_to_end() == b""
    assert app.count == 0


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, b"Content-Length: 1000"),
        ({"lane": "off"}, b"Content-Length: 1000"),
        ({}, b"Transfer-Encoding: chunked"),
        ({"body": "stream"}, b"Content-Length: 1000"),
    ],
)
def test_dripping_buys_a_body_no_time(start_server, raw_client, wait_until, settings, fields):
    """Octet after octet does not buy a body more time, either: --min-rate."""
    server = start_server(apps.echo, body_seconds=1.0, **settings)
    server.hold_clock()
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n\r\n")
    server.pass_seconds_until(lambda: server.statistics().bodies_incomplete)  # HTTP/2: it leaves the lane
    count = 0
    while client.is_quiet():
        client.send(b"1\r\nx\r\n" if b"chunked" in fields else b"x")
        count += 1
        assert count < 20
        wait_until(lambda count=count: server.has_received(count) or not client.is_quiet())
        server.pass_seconds(1)
    reply = client.recv_response()
    assert reply.status == 408 and b"--min-rate" in reply.body


@pytest.mark.parametrize("how", ["generator", "file"])
def test_dripping_keeps_no_response_open(start_server, raw_client, wait_until, tmp_path, caplog, how):
    path = tmp_path / "file"
    with open(path, "wb") as sparse:
        sparse.truncate(64 << 20)

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        if how == "file":
            return environ["wsgi.file_wrapper"](open(path, "rb"))
        return (b"x" * 65536 for _ in range(1024))

    server = start_server(app, is_checked=False, write_seconds=2, min_rate_bytes=8 << 20)
    server.hold_clock()
    client = raw_client(server, receive_buffer_bytes=8192)
    client.request()
    client.recv_head()
    # The event loop has the time limits: it gets a client's unread octets.
    wait_until(lambda: any(getattr(wire, "exchange", None) for wire in server.server._listening.connections))

    def has_more_or_left():
        return server.statistics().responses_unsent_bytes or not server.server.connection_count

    def read_all():
        for _ in range(30):
            client.recv_exactly(1_000_000)  # a second: enough to be seen as progress
            if how == "generator":  # a worker without CPU would not be seen waiting for its client
                wait_until(has_more_or_left)
            server.pass_seconds(1)

    with pytest.raises(client.Truncated):
        read_all()
    assert "--min-rate" in caplog.text


def test_idle_connections_are_closed_silently(start_server, raw_client):
    """An idle connection is closed without a word, used or not; here by the clock."""
    server = start_server(apps.hello, keep_alive_seconds=2, head_seconds=2)
    used, unused = raw_client(server), raw_client(server)
    used.fetch()
    assert (used.recv_to_end(), unused.recv_to_end()) == (b"", b"")


@pytest.mark.also_inline
@pytest.mark.parametrize("how", ["list", "generator", "file"])
def test_client_that_does_not_read(start_server, raw_client, tmp_path, how, wait_until):
    """A client that reads nothing for --write-timeout is cut off, and the iterable closed."""
    path = tmp_path / "file"
    with open(path, "wb") as sparse:
        sparse.truncate(64 << 20)
    file = apps.NotingFile(path)
    stream = apps.Streamer(lambda: (b"x" * 65536 for _ in range(1024)))

    def app(environ, start_response):
        if how == "generator":
            return stream(environ, start_response)
        start_response("200 OK", apps.PLAIN)
        return [b"x" * (64 << 20)] if how == "list" else environ["wsgi.file_wrapper"](file)

    server = start_server(app, write_seconds=0.5)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    server.pass_seconds_until(lambda: not server.server.connection_count)
    with pytest.raises(client.Truncated):
        client.recv_exactly(64 << 20)
    if how == "generator":
        wait_until(lambda: stream.made[0].close_count == 1)
    if how == "file":
        wait_until(lambda: file.close_count == 1)
    file.close()


def test_dripping_buys_a_head_no_time(start_server, raw_client):
    server = start_server(apps.hello, head_seconds=5)
    server.hold_clock()
    client = raw_client(server)
    client.send(b"GET / HTTP/1.1\r\n")
    server.wait_until_receiving()
    count = 0
    while client.is_quiet():
        client.send(b"X: y\r\n")
        count += 1
        assert count < 10
        server.pass_seconds(1)
    assert client.recv_response().status == 408


def test_slow_app_is_not_timed_out(start_server, raw_client):
    gate = apps.Gate()
    server = start_server(gate, keep_alive_seconds=0.5, head_seconds=0.5, body_seconds=0.5, write_seconds=0.5)
    server.hold_clock()
    client = raw_client(server)
    client.request()
    gate.wait_entered()
    server.pass_seconds(3)
    gate.open()
    assert client.recv_response().status == 200


def test_live_body_that_stalls(start_server, raw_client):
    """With --body stream, an app that waits for a stalled body meets ClientDisconnected, and its client a 408."""
    errors, entered = [], threading.Event()

    def app(environ, start_response):
        entered.set()
        try:
            environ["wsgi.input"].read()
        except ConnectionError as exc:
            errors.append(str(exc))
            raise

    server = start_server(app, body="stream", body_seconds=0.5)
    client = raw_client(server)
    client.request("/", "Content-Length: 5", method="POST")
    assert entered.wait(30)
    server.pass_seconds_until(lambda: not client.is_quiet())
    reply = client.recv_response()
    assert reply.status == 408 and "--body-timeout" in errors[0]
    if client.protocol == "HTTP/1.1":
        assert reply.get("Connection") == "close" and client.recv_to_end() == b""
