"""Slow clients hold neither workers nor memory; their responses still arrive whole."""

import concurrent.futures
import contextlib
import socket
import sys
import threading

import pytest
from harness import apps
from harness.rules import rule

pytestmark = [pytest.mark.any_parser, pytest.mark.also_http2]

MIB = 1 << 20
# Far above the memory of 64 clients (some 600 KiB each), far below their octets; PyPy's heap grows to twice its live part before a collection.
BOUND = (400 if sys.implementation.name == "pypy" else 200) * MIB
BLOCK = b"0123456789abcdef" * 4096  # 64 KiB


@rule(
    'PEP 3333 "Buffering and Streaming"',
    "a block is on its way before the next is asked for",
    "it is, or it waits in memory (--write-buffer) or a temporary file (--response-spool), in order; then the app waits",
)
@pytest.mark.also_inline
@pytest.mark.parametrize("headers", [(), (("Content-Length", str(24 * MIB)),)])
def test_generator_is_not_run_ahead(start_server, raw_client, headers):
    """Without a spool, a generator is asked for more only when the client has taken most of its data."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(384)), *headers)
    client = raw_client(server := start_server(app, response_spool_bytes=0), receive_buffer_bytes=4096)
    client.request()
    head = client.recv_head()
    # The kernel keeps some megabytes for the connection; we keep --write-buffer.
    assert server.wait_until_steady(lambda: app.made[0].given) < 200
    if headers:
        body = client.recv_exactly(24 * MIB)
    else:
        body = b"".join(client.recv_chunks())
    assert head.status == 200
    assert body == BLOCK * 384
    assert app.made[0].closed.wait(30)


def test_an_iterable_is_closed_before_its_client_has_read(start_server, raw_client):
    """A stream's resource, such as a connection to a database, is free as soon as the spool has all data (docs/databases.md)."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(384)))
    client = raw_client(start_server(app), receive_buffer_bytes=4096)
    client.request()
    assert client.recv_head().status == 200
    assert app.made[0].closed.wait(20)
    assert b"".join(client.recv_chunks()) == BLOCK * 384


@rule(
    'PEP 3333 "The write() Callable"',
    "when write() returns, its block is on its way",
    "or in a temporary file; when that is full, it waits for the client",
)
def test_write_callable_waits(start_server, raw_client):
    """write() waits for the client, too, when the spool is full."""
    counts = [0]

    def app(environ, start_response):
        write = start_response("200 OK", apps.PLAIN)
        for _ in range(384):
            write(BLOCK)
            counts[0] += 1
        return []

    client = raw_client(server := start_server(app, response_spool_bytes=MIB), receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    assert server.wait_until_steady(lambda: counts[0]) < 216
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
        assert server.statistics().responses_unsent_bytes <= MIB
        assert client.recv_exactly(24 * MIB) == body


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("kind", ["heads", "bodies", "readers"])
def test_bad_clients_do_not_block_good_ones(start_server, raw_client, kind):
    """16 slow clients and 4 workers: a good client is answered at once."""

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


def test_endless_responses_block_nobody(start_server, raw_client, wait_until):
    """More endless responses than workers, full spools, no reader: a good client is answered; all end with their clients."""

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/endless":
            return endless(environ, start_response)
        return apps.hello(environ, start_response)

    endless = apps.Streamer(lambda: iter(lambda: BLOCK, b""))
    server = start_server(app, threads=2, response_spool_bytes=MIB)
    bad = [raw_client(server, receive_buffer_bytes=4096) for _ in range(8)]
    for client in bad:
        client.request("/endless")
    for _ in range(10):
        assert raw_client(server).fetch().body == b"hello\n"
    wait_until(lambda: len(endless.made) == len(bad))
    for client in bad:
        client.close()
    assert all(made.closed.wait(30) for made in endless.made)
    wait_until(lambda: not server.statistics().workers_compensated)
    assert server.statistics().workers <= 2
    assert raw_client(server).fetch().body == b"hello\n"


def is_served(client):
    body = client.fetch().body
    client.close()
    return body == b"hello\n"


def spool_count(process):
    return sum("(deleted)" in name for name in process.open_files())


def held_by(process):
    """Return the descriptors for clients, without those of threads and event loops."""
    return [name for name in process.open_files() if name.startswith("socket:") or "(deleted)" in name]


def all_at_once(read, clients):
    """Call read(client) for each, 16 at a time: in turn, each part of a body waits long on a busy machine."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(read, clients))


@pytest.mark.long_on_pypy
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_readers_that_stop_hold_no_worker(start_process, raw_client, wait_until):
    """64 clients do not read 8 MiB each, of 4 workers: good clients are answered; then the 64 get every octet."""
    process = start_process("site", "--threads", "4", "--write-timeout", "5m")
    raw_client(process).fetch()
    files, memory = held_by(process), process.memory_bytes()
    stuck = [raw_client(process, receive_buffer_bytes=4096) for _ in range(64)]
    for client in stuck:
        client.request("/stream?2048")
    wait_until(lambda: spool_count(process) == 64, 30)
    for _ in range(10):
        assert is_served(raw_client(process))
    assert spool_count(process) == 64  # and nobody has got on meanwhile
    expected = b"".join(b"1000\r\n%b\r\n" % (b"%07d\n" % number * 512) for number in range(2048)) + b"0\r\n\r\n"

    def read(client):
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        client.recv_head()
        assert client.recv_exactly(len(expected)) == expected
        assert client.fetch().body == b"hello\n"  # the connection lives on
        client.close()

    all_at_once(read, stuck)
    wait_until(lambda: held_by(process) == files, explain=lambda: f"{held_by(process)} {files}")
    assert process.memory_bytes("VmHWM") - memory < BOUND


# Hostile clients: each is refused or served, none holds up good clients, and their octets are not kept


FIELDS = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(100_000)) + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
HOSTILE = {
    "fields": ([FIELDS], 431),
    "extension": ([CHUNKED + b"1;", b"x" * 4_000_000], 400),
    "extensions": ([CHUNKED, (b"1;" + b"x" * 300 + b"\r\ny\r\n") * 10_000], None),
    "tiny-chunks": ([CHUNKED, b"1\r\nx\r\n" * 200_000], None),
    "body-reset": ([b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n", b"x" * 2_000_000], None),
    "pipelining": ([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2000], None),
    "silent": ([], None),
}


@pytest.mark.long_on_pypy
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_hostile_clients_hold_up_nobody(start_process, raw_client, wait_until):
    """64 clients of each kind at once, and 4 workers: a good client is answered among them; memory is bounded."""
    process = start_process("site", "--threads", "4")
    raw_client(process).fetch()
    files, memory = held_by(process), process.memory_bytes()
    for kind, (pieces, status) in HOSTILE.items():
        bad = [raw_client(process, receive_buffer_bytes=4096) for _ in range(64)]
        threads = [threading.Thread(target=send_all, args=(client, pieces), daemon=True) for client in bad]
        for thread in threads:
            thread.start()
        for _ in range(10):
            assert is_served(raw_client(process)), kind
        for client, thread in zip(bad, threads):
            thread.join(20)
            assert not thread.is_alive(), kind
            if status is not None:
                assert client.recv_head().status == status, kind
            client.reset()
        wait_until(lambda: held_by(process) == files, explain=lambda kind=kind: f"{kind}: {held_by(process)} {files}")
    assert process.memory_bytes("VmHWM") - memory < BOUND


def send_all(client, pieces):
    with contextlib.suppress(OSError):  # the server has had enough, or back-pressure has begun
        for octets in pieces:
            client.send(octets)


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
    """When a client leaves in mid-stream, the iterable is closed, once, and other clients are served."""
    app = apps.Streamer(lambda: (BLOCK for _ in range(100_000)))
    server = start_server(app)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    client.reset() if is_reset else client.close()
    assert app.made[0].closed.wait(30)
    assert app.made[0].close_count == 1
    assert app.made[0].given < 1000


def test_write_raises_when_the_client_leaves(start_server, raw_client):
    """write() tells the app of the gone client by a ConnectionError."""
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


@pytest.mark.also_inline
def test_a_drain_waits_for_a_slow_reader(start_server, raw_client):
    app = apps.Streamer(lambda: (BLOCK for _ in range(128)))
    server = start_server(app, drain_seconds=60)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    server.begin_drain()
    assert b"".join(client.recv_chunks()) == BLOCK * 128
    assert client.recv_to_end() == b""
    client.close()
    server.stop()
    assert server.is_clean
