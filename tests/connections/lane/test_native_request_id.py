"""Names of plain requests, received or made by C: the app has the name, and the response tells it where Python does."""

import json
import re
import socket

import pytest
from harness import apps, sidecars
from harness.plain import engine_of
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

NAME = rb"[0-9a-f]{32}"
NAMING = {"request_id_header": "X-Request-ID"}
PACKET = sidecars.uwsgi(
    {"REQUEST_METHOD": "GET", "REQUEST_URI": "/", "PATH_INFO": "/", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "a"}
)
FIELDS = [
    "", "Accept: a\r\n", "X-Request-ID: abc\r\nAccept: a\r\n", "Accept: a\r\nX-Request-ID: abc\r\n", "X-Request-ID: \r\n",
    "X-Request-ID: a b\r\n", "X-Request-ID: \xe9\r\n", f"X-Request-ID: {'x' * 128}\r\n", f"X-Request-ID: {'x' * 129}\r\n",
    "X-A: HTTP_X_REQUEST_ID\r\n", "X-Forwarded-For: 203.0.113.7\r\nX-Request-ID: abc\r\n", "X-Forwarded-For: 203.0.113.7\r\n",
]  # fmt: skip


def receive(client):
    octets = b""
    while piece := client.recv(1 << 16):
        octets += piece
    return re.sub(rb"Date: [^\r]*", b"Date: -", octets).replace(b"<method>", b"<Method>")


def ask(server, fields="", method="GET", path="/"):
    """Return the octets for a request with these fields."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n".encode("latin-1"))
        return receive(client)


def parts_of(octets):
    """Return the head of environ_json's response without its length and a made name, and the environ without ports of this run."""
    head, _, body = octets.partition(b"\r\n\r\n")
    environ = json.loads(body) if body else {}
    told = re.search(rb"X-Request-ID: (" + NAME + rb")\r\n", head)
    if told is not None:
        assert not environ or environ["HTTP_X_REQUEST_ID"].encode() == told[1]
        environ["HTTP_X_REQUEST_ID"] = "made"
    head = re.sub(rb"Content-Length: \d+", b"", re.sub(NAME, b"made", head))
    return head, {
        name: "a port" if name in ("REMOTE_PORT", "SERVER_PORT") else value for name, value in environ.items()
    }


@pytest.mark.parametrize("settings", [NAMING, {**NAMING, "trusted_proxies": "*"}])
def test_the_same_names(start_server, settings):
    """A received name is kept and told if possible; else a new name is the same for app and response."""
    in_c, in_python = (
        start_server(apps.environ_json, is_checked=False, native=native, **settings) for native in ("auto", "off")
    )
    ask(in_c, "X-Forwarded-For: 203.0.113.7\r\n")
    before = engine_of(in_c).plain_count
    for count, fields in enumerate(FIELDS * 2, 1):
        assert parts_of(ask(in_c, fields)) == parts_of(ask(in_python, fields)), fields
        assert (engine_of(in_c).plain_count - before, engine_of(in_c).promoted_count) == (count, 0)
    assert parts_of(ask(in_c, method="HEAD")) == parts_of(ask(in_python, method="HEAD"))


def test_no_two_are_the_same(start_server):
    """Each request of many has another name."""
    server = start_server(apps.hello, is_checked=False, native="auto", **NAMING)
    names = {re.search(rb"X-Request-ID: (" + NAME + rb")\r\n", ask(server))[1] for _ in range(50)}
    assert len(names) == 50 and engine_of(server).plain_count == 50


def test_a_name_that_came_twice(start_server):
    """Python joins a repeated name for the app, and tells the first."""
    fields = "X-Request-ID: a\r\nX-Request-ID: b\r\n"
    in_c, in_python = (
        start_server(apps.environ_json, is_checked=False, native=native, **NAMING) for native in ("auto", "off")
    )
    assert parts_of(ask(in_c, fields)) == parts_of(ask(in_python, fields))
    assert (engine_of(in_c).plain_count, engine_of(in_c).promoted_count) == (0, 1)


@pytest.mark.provokes("raised")
@pytest.mark.parametrize("app", [apps.written, apps.lazy_generator, apps.raises_mid_stream, apps.raises, apps.hello])
@pytest.mark.parametrize("fields", ["", "X-Request-ID: abc\r\n"])
def test_one_that_python_goes_on_with(start_server, app, fields):
    """A response that Python ends tells the name that C told the app."""
    seen, octets = [], []

    def look(environ, start_response):
        seen.append(environ["HTTP_X_REQUEST_ID"].encode())
        return app(environ, start_response)

    for native in ("auto", "off"):
        server = start_server(look, is_checked=False, native=native, **NAMING)
        answer = ask(server, fields)
        octets.append(answer.replace(seen[-1], b"its name"))
        assert octets[-1].count(b"X-Request-ID: its name\r\n") == 1
        if native == "auto":
            assert engine_of(server).promoted_count == (app not in (apps.hello, apps.lazy_generator))
    assert octets[0] == octets[1] and len(seen) == 2


def test_the_name_of_one_that_runs(start_server):
    """A watcher of running requests finds the app's name of the request."""
    gate = apps.Gate()
    seen = []

    def look(environ, start_response):
        seen.append(environ["HTTP_X_REQUEST_ID"])
        return gate(environ, start_response)

    server = start_server(look, is_checked=False, native="auto", **NAMING)
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        gate.wait_entered()
        [exchange] = server.call(lambda: server.server._listening.lane.exchanges)
        assert exchange.vars.endswith(f"\0HTTP_X_REQUEST_ID\0{seen[0]}")
        gate.open()
        assert f"X-Request-ID: {seen[0]}\r\n".encode() in receive(client)


def test_behind_a_front_server(start_server, tmp_path):
    """Requests over uwsgi have names, too."""
    received = []
    for native in ("auto", "off"):
        path = tmp_path / native
        server = start_server(apps.environ_json, is_checked=False, native=native, bind=f"uwsgi://unix:{path}", **NAMING)
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE_SECONDS)
                client.connect(str(path))
                client.sendall(PACKET)
                received.append(parts_of(receive(client)))
        if native == "auto":
            assert engine_of(server).plain_count == 2
    assert received[0][1]["HTTP_X_REQUEST_ID"] == "made" and received == received[:1] * 4
