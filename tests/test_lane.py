"""The fast lane: the same behaviour as one by one, whatever arrives and whatever leaves."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

HELLO = b"My Own Hello World!"


def uwsgi(path="/", body=b"", modifier1=0, **vars):
    """Return a uwsgi packet and its body."""
    vars = {"REQUEST_METHOD": "POST" if body else "GET", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)), **vars}
    data = b"".join(
        struct.pack("<H", len(part)) + part.encode() for pair in vars.items() for part in pair
    )  # fmt: skip
    return struct.pack("<BHB", modifier1, len(data), 0) + data + body


def scgi(path="/", body=b"", **vars):
    """Return an SCGI request."""
    vars = {
        "CONTENT_LENGTH": str(len(body)),
        "SCGI": "1",
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": path,
        **vars,
    }
    data = b"".join(part.encode() + b"\0" for pair in vars.items() for part in pair)
    return b"%d:%b," % (len(data), data) + body


ENCODERS = {"uwsgi": uwsgi, "scgi": scgi}


def app(environ, start_response):
    """Answer in the way that the path names."""
    path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
    headers = [("Content-Type", "text/plain")]
    if path == "/pieces":
        start_response("200 OK", headers)
        return iter([b"a" * 10, b"", b"b" * 300_000, b"c"])
    if path == "/write":
        write = start_response("200 OK", headers)
        write(b"written ")
        write(b"twice ")
        return [b"and returned"]
    if path == "/large":
        start_response("200 OK", headers)
        return [b"x" * 3_000_000]
    if path == "/file":
        start_response("200 OK", headers)
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/fails":
        raise ValueError("meant to fail")
    if path == "/dies":
        start_response("200 OK", [*headers, ("Content-Length", "100")])
        return iter([b"short"])
    start_response("200 OK", headers)
    return [body or HELLO]


@pytest.fixture(params=["auto", "off"])
def lane(request):
    """With the lane and without."""
    return request.param


@pytest.fixture(params=ENCODERS)
def ask(request, lane, start_server, tmp_path):
    """ask(path, body, pieces=...) -> everything that comes back until the end."""
    encode = ENCODERS[request.param]
    address = str(tmp_path / "socket")
    ask.server = start_server(app, is_checked=False, bind=f"{request.param}://unix:{address}", lane=lane)

    def ask_once(path="/", body=b"", cut=0, **vars):
        octets = encode(path, body, **vars)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(address)
            if cut:
                client.sendall(octets[:cut])
                ask.server.wait_until_known(1)
            client.sendall(octets[cut:])
            return recv_all(client)

    return ask_once


def recv_all(client):
    """Return what comes until the end."""
    reply = b""
    while True:
        data = client.recv(1 << 16)
        if not data:
            return reply
        reply += data


def body_of(reply):
    """Return the body of a response, whose status must be 200."""
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] in (b"HTTP/1.1 200 OK", b"Status: 200 OK"), head
    assert b"transfer-encoding" not in head.lower()
    return body


@pytest.mark.one_way
@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/", b"", HELLO),
        ("/", b"echo me", b"echo me"),
        ("/", b"0123456789" * 20_000, b"0123456789" * 20_000),  # more than one read
        ("/pieces", b"", b"a" * 10 + b"b" * 300_000 + b"c"),
        ("/write", b"", b"written twice and returned"),
        ("/large", b"", b"x" * 3_000_000),
    ],
)
def test_answers(ask, path, body, expected):
    """Whatever leaves in one go, in pieces or is too large for the lane arrives whole."""
    assert body_of(ask(path, body)) == expected


@pytest.mark.one_way
@pytest.mark.parametrize("cut", [1, 30, -1])
def test_requests_in_two_halves(ask, cut):
    """A request that is not complete at the first read is served when it is."""
    assert body_of(ask("/", b"the body", cut)) == b"the body"


@pytest.mark.one_way
def test_files(ask):
    """A file is sent as it is."""
    with open(__file__, "rb") as file:
        assert body_of(ask("/file")) == file.read()


@pytest.mark.one_way
def test_failures(ask):
    """An app that raises gets its 500; a body that ends early closes the connection before its length."""
    assert b"500 Internal Server Error" in ask("/fails").split(b"\r\n")[0]
    assert body_of(ask("/dies")) in (b"", b"short")
    assert body_of(ask()) == HELLO


@pytest.mark.one_way
def test_head(ask):
    """HEAD has no body."""
    assert body_of(ask(REQUEST_METHOD="HEAD")) == b""


@pytest.mark.one_way
def test_many_at_once(start_server, tmp_path, lane, wait_until):
    """More connections than a batch holds are all answered, and nothing stays open."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    replies = []

    def many():
        for number in range(50):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(5)
                client.connect(address)
                client.sendall(uwsgi("/", b"%d" % number))
                replies.append((number, recv_all(client)))

    many()
    server.wait_until_idle()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    threads = [threading.Thread(target=many, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 550
    assert all(body_of(reply) == b"%d" % number for number, reply in replies)
    server.wait_until_idle()
    if before is not None:
        # Some of the 8 workers are new; a loop may have made a descriptor for itself meanwhile.
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)


@pytest.mark.one_way
def test_a_drain_answers_who_has_connected(start_server, tmp_path, lane):
    """What stands in the accept queue when the server begins to drain is served."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.settimeout(5)
        client.connect(address)
        client.sendall(uwsgi())
        server.begin_drain()
        assert body_of(recv_all(client)) == HELLO


@pytest.mark.one_way
def test_clients_that_leave(start_server, tmp_path, lane):
    """A front server that leaves before its answer, or before its request, does no harm."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    for octets in (b"", uwsgi()[:7], uwsgi("/large"), uwsgi("/pieces"), uwsgi("/", b"x" * 300_000)[:-1]):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)
            client.sendall(octets)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(address)
        client.sendall(uwsgi())
        assert body_of(recv_all(client)) == HELLO
    server.wait_until_idle()
