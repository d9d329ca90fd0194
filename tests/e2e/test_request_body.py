"""Request bodies: buffered and spooled before the app is called, or live with --body stream."""

import os
import socket

import pytest
from harness import apps
from harness.rules import rule

MIB = 1 << 20
BLOCK = bytes(range(256)) * 256  # 64 KiB


def send_body(client, size, is_chunked, path="/"):
    """Send a POST with a body of `size` octets in blocks; return count_body's answer."""
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\n"
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    client.send(f"{head}{framing}\r\n\r\n".encode())
    for start in range(0, size, len(BLOCK)):
        block = BLOCK[: size - start]
        client.send(b"%x\r\n%b\r\n" % (len(block), block) if is_chunked else block)
    if is_chunked:
        client.send(b"0\r\n\r\n")
    checksum = (size // 256) * sum(range(256)) + sum(range(size % 256))
    return b"%d %d" % (size, checksum & 0xFFFFFFFF)


def temporary_files():
    """Return this process's open temporary files."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass  # the descriptor of the listing itself
    return [name for name in names if "aserve-body-" in name or "(deleted)" in name]


@pytest.mark.long_on_pypy
@pytest.mark.also_inline
@pytest.mark.c_and_python
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("body", ["buffer", "stream"])
@pytest.mark.parametrize("size", [1, 65536, 5 * MIB + 17])
def test_bodies_arrive_whole_however_framed(start_server, raw_client, way, is_chunked, body, size):
    """A body arrives whole, whatever its framing and size, and the connection stays usable."""
    if body == "stream" and not way.threads:
        pytest.skip("--body stream needs threads")
    client = raw_client(start_server(apps.count_body, body=body))
    for _ in range(2):
        expected = send_body(client, size, is_chunked)
        assert client.recv_response().body == expected


@pytest.mark.also_inline
@pytest.mark.c_and_python
@pytest.mark.parametrize("is_chunked", [False, True])
def test_large_bodies_are_spooled(start_server, raw_client, wait_until, tmp_path, monkeypatch, is_chunked):
    """A body over --body-memory waits in a file without a name, gone with the response."""
    seen = []

    def app(environ, start_response):
        seen.append((len(temporary_files()), os.listdir(tmp_path)))
        return apps.count_body(environ, start_response)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = temporary_files()
    server = start_server(app, body_memory_bytes=100_000)
    client = raw_client(server)
    expected = send_body(client, 300_000, is_chunked)
    assert client.recv_response().body == expected
    wait_until(lambda: temporary_files() == before)  # the client may finish reading before its worker
    expected = send_body(client, 50_000, is_chunked)
    assert client.recv_response().body == expected
    server.stop()
    assert seen == [(len(before) + 1, []), (len(before), [])]
    assert temporary_files() == before


@pytest.mark.parametrize("end", ["vanish", "too large", "malformed", "behind another"])
def test_spool_files_of_failed_uploads(start_server, raw_client, wait_until, end):
    """A failed upload leaves no file behind, at once and without the collector."""
    gate = apps.Gate(apps.count_body)
    before = temporary_files()
    settings = {"lane": "off"} if end == "behind another" else {}  # the lane does not read ahead
    client = raw_client(start_server(gate, body_memory_bytes=1000, max_body_bytes=1_000_000, **settings))
    if end == "behind another":
        client.request("/first")
        gate.wait_entered()
        send_body(client, 100_000, False)
        client.request("/third")
    else:
        client.send(b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n" + BLOCK + b"\r\n")
    wait_until(lambda: len(temporary_files()) == len(before) + 1)
    if end == "too large":
        client.send(b"f0000\r\n" + BLOCK * 15 + b"\r\n")
    elif end == "malformed":
        client.send(b"what?\r\n")
    else:
        client.reset()
    wait_until(lambda: temporary_files() == before)
    gate.open(3)


def test_app_waits_for_the_whole_body(start_server, raw_client):
    """A slow upload holds no worker: with one thread, other clients are served in between."""
    app = apps.Recorder(apps.count_body)
    server = start_server(app, threads=1)
    slow = [raw_client(server) for _ in range(8)]
    for client in slow:
        client.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab")
    assert raw_client(server).fetch(method="POST", body=b"cd").body == b"2 199"
    assert app.count == 1
    for client in slow:
        client.send(b"cd")
        assert client.recv_response().body == b"4 394"


# --body stream


def test_live_body_is_read_while_it_comes(start_server, raw_client):
    """With --body stream the app reads a beginning while the client still sends."""

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"ready"
        while True:
            line = environ["wsgi.input"].readline()
            if not line:
                return
            yield line.upper()

    client = raw_client(start_server(app, body="stream"))
    client.request("/", "Transfer-Encoding: chunked", method="POST")
    assert client.recv_head().status == 200
    chunks = client.recv_chunks()
    assert next(chunks) == b"ready"
    for word in (b"one\n", b"two\n", b"three\n"):
        client.send(b"%x\r\n%b\r\n" % (len(word), word))
        assert next(chunks) == word.upper()
    client.send(b"0\r\n\r\n")
    assert next(chunks, None) is None
    client.request("/", "Content-Length: 1", method="POST")
    client.send(b"x")
    assert client.recv_response().body == b"readyX"


@pytest.mark.parametrize(
    ("reads", "results"),
    [
        ("read;read", ["one\ntwo", ""]),
        ("read(-1);read", ["one\ntwo", ""]),
        ("read(None);read(5)", ["one\ntwo", ""]),
        ("read(0);read(5);read(10000)", ["", "one\nt", "wo"]),
        ("readline;readline;readline", ["one\n", "two", ""]),
        ("readline(2);readline(-1);read", ["on", "e\n", "two"]),
        ("readlines;read", [["one\n", "two"], ""]),
        ("readlines(1);read", [["one\n"], "two"]),
        ("iter;read", [["one\n", "two"], ""]),
        ("next;read", ["one\n", "two"]),
    ],
)
def test_reading_a_live_body(start_server, raw_client, reads, results):
    """A live body is read like any other, octet by octet on arrival."""
    client = raw_client(start_server(apps.read_as_told, body="stream"))
    for _ in range(2):
        client.send(f"POST /?{reads} HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\n".encode())
        for octet in b"one\ntwo":
            client.send(bytes([octet]))
        assert client.recv_response().json() == results


@pytest.mark.parametrize("is_chunked", [False, True])
def test_live_body_slows_the_client_down(start_server, raw_client, is_chunked):
    """While the app does not read, the server does not read from the client; then the whole body arrives."""
    gate = apps.Gate(apps.count_body)
    server = start_server(gate, body="stream", body_memory_bytes=65536)
    client = raw_client(server)
    size = 32 * MIB
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    client.request("/", framing, method="POST")
    gate.wait_entered()
    client.sock.settimeout(0.5)
    data = b"x" * MIB
    piece = memoryview(b"%x\r\n%b\r\n" % (MIB, data) if is_chunked else data)
    rest = piece
    sent_count = 0
    try:
        while sent_count < 32:
            rest = rest[client.sock.send(rest) :]
            if not rest:
                rest, sent_count = piece, sent_count + 1
    except socket.timeout:  # before 3.10 not yet the same as TimeoutError
        pass  # the kernel's buffers are full
    assert sent_count < 20
    assert server.statistics().bodies_memory_bytes <= 65536 + (1 << 18)  # and one read of the event loop
    gate.open()
    client.sock.settimeout(30)
    client.send(rest)
    for _ in range(31 - sent_count):
        client.send(piece)
    if is_chunked:
        client.send(b"0\r\n\r\n")
    assert client.recv_response().body == b"%d %d" % (size, (size * ord("x")) & 0xFFFFFFFF)
    gate.open()
    assert client.fetch(method="POST", body=b"a").body == b"1 97"


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\n12345", b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"]
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_live_client_vanishes(start_server, raw_client, caplog, framing, is_reset):
    """A reader of a body without completion meets ClientDisconnected, a ConnectionError."""
    errors = []

    def app(environ, start_response):
        assert environ["wsgi.input"].read(5) == b"12345"
        client.reset() if is_reset else client.close()
        try:
            environ["wsgi.input"].read()
        except ConnectionError as exc:
            errors.append(exc)
            raise

    server = start_server(app, body="stream")
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: test\r\n" + framing)
    server.stop_when(lambda: errors)
    assert type(errors[0]).__name__ == "ClientDisconnected"
    assert "raised" not in caplog.text  # the client's doing, not the app's error


@rule(
    "RFC 9110 15.5.14",
    "413 for a body that is too large",
    "with --body stream, too, unless the app has answered already",
)
@pytest.mark.parametrize(
    ("chunks", "status"), [(b"b\r\n12345678901\r\n0\r\n\r\n", 413), (b"5\r\n12345\r\n0x5\r\n", 400)]
)
@pytest.mark.parametrize("is_lazy", [False, True])
def test_live_body_refused(start_server, raw_client, caplog, chunks, status, is_lazy):
    """An app that lets the error of a refused live body pass leaves the answer to aserve: that of a buffered body."""

    def lazily(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield environ["wsgi.input"].read()

    server = start_server(lazily if is_lazy else apps.echo, body="stream", max_body_bytes=10)
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.send(chunks)
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection")) == (status, "close")
    assert client.recv_to_end() == b""
    server.stop()
    assert "raised" not in caplog.text
