"""A connection's time in the lane, and its way out: what a response needs, it gets."""

from __future__ import annotations

import os
import threading

import apps
import pytest

BLOCK = b"0123456789abcdef" * 4096  # 64 KiB


def app(environ, start_response):
    """Answer in the way that the path names."""
    path = environ["PATH_INFO"]
    if path == "/fails":
        raise ValueError("meant to fail")
    if path == "/closes":
        start_response("200 OK", apps.PLAIN)
        return ClosingList([b"closed"])
    if path == "/pieces":
        start_response("200 OK", apps.PLAIN)
        return iter([b"a" * 10, b"", b"b" * 300_000, b"c"])
    if path == "/hints":
        environ["wsgi.early_hints"]([("Link", "</style.css>")])
    write = start_response("200 OK", apps.PLAIN)
    if path == "/write":
        write(b"written ")
        write(b"twice ")
        return [b"and returned"]
    if path == "/large":
        return [BLOCK * 48]
    if path == "/rather-large":
        return [BLOCK + b"x"]
    if path == "/write-large":
        write(b"written ")
        return [BLOCK + b"x"]
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    return [environ["REMOTE_ADDR"].encode(), b" ", environ["wsgi.input"].read()]


class ClosingList(list):
    """A list with a close(), which is called."""

    count = 0

    def close(self):
        type(self).count += 1


def content_of_this_file():
    with open(__file__, "rb") as file:
        return file.read()


@pytest.mark.also_inline
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", b"127.0.0.1 "),
        ("/pieces", b"a" * 10 + b"b" * 300_000 + b"c"),
        ("/write", b"written twice and returned"),
        ("/large", BLOCK * 48),
        ("/rather-large", BLOCK + b"x"),
        ("/write-large", b"written " + BLOCK + b"x"),
        ("/file", content_of_this_file()),
        ("/closes", b"closed"),
    ],
)
def test_a_response_of_any_form(start_server, raw_client, path, body):
    """Whatever the response needs, it arrives whole, and the connection goes on."""
    client = raw_client(start_server(app, is_checked=False))
    for _ in range(3):
        assert client.fetch("/").body == b"127.0.0.1 "
        assert client.fetch(path).body == body
    assert client.fetch(path, "Connection: close").body == body
    assert client.recv_to_end() == b""


@pytest.mark.also_inline
def test_early_hints(start_server, raw_client):
    """A 103 response comes before the app has returned, and the final one behind it."""
    client = raw_client(start_server(app, is_checked=False))
    for _ in range(2):
        client.request("/hints")
        assert client.recv_response().status == 103
        assert client.recv_response().body == b"127.0.0.1 "


@pytest.mark.also_inline
def test_an_app_that_fails(start_server, raw_client):
    """Its client gets a 500, and the connection goes on."""
    client = raw_client(start_server(app, is_checked=False))
    for _ in range(2):
        assert client.fetch("/fails").status == 500
        assert client.fetch("/").status == 200


@pytest.mark.also_inline
def test_a_reader_that_is_slow(start_server, raw_client):
    """What does not fit the socket's buffer follows when the client reads, and nothing is lost."""
    client = raw_client(start_server(app, is_checked=False), receive_buffer_bytes=4096)
    for _ in range(2):
        for _ in range(8):
            client.request("/rather-large")
            assert client.recv_response().body == BLOCK + b"x"
        client.request("/large")
        assert client.recv_response().body == BLOCK * 48


def test_an_app_that_closes_the_connection(start_server, raw_client):
    """The server closes for its own reasons only after the response has been read, whatever has been sent meanwhile."""

    def old_app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        return iter([BLOCK])

    client = raw_client(start_server(old_app))
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")  # no length, no chunks: it must close
    head = client.recv_head()
    assert head.get("Connection") == "close"
    assert client.recv_to_end() == BLOCK


def test_clients_that_leave_meanwhile(start_server, raw_client, wait_until):
    """A client that is gone when the response is ready does no harm, and its descriptor is free again."""
    gate = apps.Gate(app)
    server = start_server(gate, is_checked=False)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for path in ("/", "/pieces", "/write", "/large", "/file"):
        for end in ("close", "reset"):
            client = raw_client(server)
            client.request(path)
            gate.wait_entered()
            getattr(client, end)()
            gate.open()
    server.wait_until_idle()
    if before:
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)


def test_many_connections_at_once(start_server, raw_client):
    """Responses find their connections, however many there are and whoever leaves the lane."""
    server = start_server(app, is_checked=False)
    wrong = []

    def ask(number):
        client = raw_client(server)
        for turn in range(40):
            text = f"{number}-{turn}".encode()
            body = client.fetch("/", method="POST", body=text).body
            if body != b"127.0.0.1 " + text:
                wrong.append((text, body))
            if turn == number:
                client.fetch("/pieces")

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []
