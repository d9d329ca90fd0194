"""Slow clients hold neither workers nor memory; what they ask for still arrives whole."""

from __future__ import annotations

import threading

import apps
import pytest
from rules import rule

pytestmark = pytest.mark.any_parser

MIB = 1 << 20
BLOCK = b"0123456789abcdef" * 4096  # 64 KiB


def steady(wait_until, look):
    """Wait until a number no longer changes for a third of a second; return it."""
    values = []

    def is_steady():
        values.append(look())
        return len(values) > 60 and values[-1] == values[-60]

    wait_until(is_steady, 20)
    return values[-1]


@rule(
    'PEP 3333 "Buffering and Streaming"',
    "a block is on its way before the next is asked for",
    "the app waits while its client is too slow (--write-buffer)",
)
@pytest.mark.also_inline
@pytest.mark.parametrize("headers", [(), (("Content-Length", str(24 * MIB)),)])
def test_generator_is_not_run_ahead(start_server, raw_client, wait_until, headers):
    """A generator is asked for more only when the client has taken most of what it gave."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(384)), *headers)
    client = raw_client(start_server(app), receive_buffer_bytes=4096)
    client.request()
    head = client.recv_head()
    # The kernel keeps some megabytes for the connection; we keep --write-buffer.
    assert steady(wait_until, lambda: app.made[0].given) < 200
    if headers:
        body = client.recv_exactly(24 * MIB)
    else:
        body = b"".join(client.recv_chunks())
    assert head.status == 200
    assert body == BLOCK * 384
    assert app.made[0].closed.wait(5)


@rule(
    'PEP 3333 "The write() Callable"',
    "when write() returns, its block is on its way",
    "it waits while the client is too slow",
)
def test_write_callable_waits(start_server, raw_client, wait_until):
    """write() waits for the client, too."""
    counts = [0]

    def app(environ, start_response):
        write = start_response("200 OK", apps.PLAIN)
        for _ in range(384):
            write(BLOCK)
            counts[0] += 1
        return []

    client = raw_client(start_server(app), receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    assert steady(wait_until, lambda: counts[0]) < 200
    assert b"".join(client.recv_chunks()) == BLOCK * 384


@pytest.mark.also_inline
def test_large_body_in_one_piece(start_server, raw_client):
    """A large list body goes to the transport in pieces, and arrives whole."""
    body = BLOCK * 384
    server = start_server(apps.returns([body]))
    client = raw_client(server, receive_buffer_bytes=4096)
    for _ in range(2):
        client.request()
        reply = client.recv_head()
        assert reply.get("Content-Length") == str(24 * MIB)

        def held():
            return [connection._transport.get_write_buffer_size() for connection in server.server._connections]

        assert max(server.call(held)) <= MIB
        assert client.recv_exactly(24 * MIB) == body


@pytest.mark.parametrize("kind", ["heads", "bodies", "readers"])
def test_bad_clients_do_not_block_good_ones(start_server, raw_client, kind):
    """16 slow clients and 4 workers: a good client is answered at once (a reader of a stream holds one)."""

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/large":
            start_response("200 OK", apps.PLAIN)
            return [BLOCK * 384]
        return apps.hello(environ, start_response)

    server = start_server(app, threads=4)
    slow = [raw_client(server, receive_buffer_bytes=4096) for _ in range(16)]
    for client in slow:
        if kind == "heads":
            client.send(b"GET / HTTP/1.1\r\nHost:")
        elif kind == "bodies":
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1")
        else:
            client.request("/large")
    for _ in range(10):
        assert raw_client(server).fetch().body == b"hello\n"


@pytest.mark.also_inline
@pytest.mark.parametrize("how", ["list", "generator", "write", "file"])
def test_slow_reader_gets_all(start_server, raw_client, tmp_path, how):
    """A client that reads in small steps gets every octet in order."""
    body = b"".join(b"%07d\n" % number for number in range(400_000))
    path = tmp_path / "body"
    path.write_bytes(body)

    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", str(len(body)))])
        if how == "list":
            return [body]
        if how == "file":
            return environ["wsgi.file_wrapper"](open(path, "rb"))
        pieces = (body[start : start + 50_000] for start in range(0, len(body), 50_000))
        if how == "generator":
            return pieces
        for piece in pieces:
            write(piece)
        return []

    client = raw_client(start_server(app), receive_buffer_bytes=8192)
    client.request()
    client.recv_head()
    received = bytearray()
    while len(received) < len(body):
        received += client.recv_exactly(min(12_345, len(body) - len(received)))
    assert received == body
    assert client.is_quiet()


# Clients that leave


@rule('PEP 3333 "Specification Details"', "close() is called when a client leaves", "once")
@pytest.mark.also_inline
@pytest.mark.parametrize("is_reset", [False, True])
def test_close_when_the_client_leaves(start_server, raw_client, is_reset):
    """A client that leaves in mid-stream: the iterable is closed, once, and others are served."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(100_000)))
    server = start_server(app)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    client.reset() if is_reset else client.close()
    assert app.made[0].closed.wait(5)
    assert app.made[0].close_count == 1
    assert app.made[0].given < 1000


@pytest.mark.also_inline
def test_close_raises_when_the_client_leaves(start_server, raw_client, caplog):
    """An error in that close() is logged as the app's, and harms nothing."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(100_000)), close_error=ValueError("on purpose"))
    server = start_server(app)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    client.reset()
    assert app.made[0].closed.wait(5)
    server.stop()
    assert "raised ValueError in close()" in caplog.text


def test_write_raises_when_the_client_leaves(start_server, raw_client):
    """write() tells the app that the client is gone by a ConnectionError."""
    errors = []

    def app(environ, start_response):
        write = start_response("200 OK", apps.PLAIN)
        try:
            while True:
                write(BLOCK)
        except ConnectionError as exc:
            errors.append(exc)
            raise

    server = start_server(app)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    client.reset()
    server.stop_when(lambda: errors)
    assert type(errors[0]).__name__ == "ClientDisconnected"


def test_client_leaves_before_its_response(start_server, raw_client, caplog):
    """A client that leaves while the app works: the app finishes in peace, nothing is an error."""
    app = apps.Streamer(lambda: [b"a", b"b"])
    gate = apps.Gate(app)
    server = start_server(gate)
    for leave in ("reset", "close"):
        client = raw_client(server)
        client.request()
        gate.wait_entered()
        getattr(client, leave)()
        raw_client(server).close()  # and the event loop has had its turn
    gate.open(2)
    server.stop_when(lambda: len(app.made) == 2 and all(chunks.closed.is_set() for chunks in app.made))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_many_clients_vanish(start_server, raw_client):
    """Fifty clients that vanish in all phases leave nothing behind."""

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        return (BLOCK for _ in range(200))

    server = start_server(app)
    for number in range(50):
        client = raw_client(server, receive_buffer_bytes=4096)
        client.send(
            [b"GET", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1"][
                number % 3
            ]
        )
        if number % 3 == 1:
            client.recv_head()
        client.reset() if number % 2 else client.close()
    names = {thread.name for thread in threading.enumerate()}
    server.stop()
    assert server.is_clean
    assert not [name for name in names if name.startswith("aserve") and name not in names]
