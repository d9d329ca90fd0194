"""uwsgi over real sockets: pings, silence and the log, sockets of every kind, protocols side by side."""

import asyncio
import json
import os
import socket
import struct
import sys

import pytest
from harness import apps, sidecars
from harness.rules import rule

from aserve.server import server as server_module

pytestmark = [pytest.mark.one_way, pytest.mark.c_and_python]

HOUR = 3600.0
PING = b"\x64\0\0\0"
BASE = {"REQUEST_METHOD": "GET", "PATH_INFO": "/a", "REQUEST_URI": "/a", "SERVER_PROTOCOL": "HTTP/1.1"}


def packet(modifier1=0, body=b"", **vars):
    """A request's packet; a body's length is added."""
    vars = {**BASE, **({"CONTENT_LENGTH": str(len(body))} if body else {}), **vars}
    return sidecars.uwsgi(vars, body, modifier1)


@pytest.fixture(params=["auto", "off"])
def start(request, start_server):
    """Start a server with and without the fast lane."""
    return lambda app, **settings: start_server(app, lane=request.param, **settings)


@pytest.fixture(params=["uwsgi://127.0.0.1:0", "uwsgi://unix:{}/s", "uwsgi://unix:@aserve-test-{}"])
def bind(request, tmp_path):
    """A bind of every kind."""
    if "@" in request.param and sys.platform != "linux":
        pytest.skip("abstract sockets are Linux's")
    return request.param.format(os.getpid() if "@" in request.param else tmp_path)


def test_a_request_is_answered_as_http(start, raw_client, bind):
    """A request is answered as HTTP, with a length or not, never chunked; then the connection closes."""
    server = start(apps.environ_json, bind=bind)
    client = raw_client(server)
    client.send(packet(REMOTE_ADDR="198.51.100.1", REMOTE_USER="ada", HTTPS="on", mine="x"))
    reply = client.recv_response()
    environ = reply.json()
    assert (reply.status, reply.framing, reply.get("Connection")) == (200, "length", None)
    assert environ["REMOTE_ADDR"] == "198.51.100.1" and environ["REMOTE_USER"] == "ada" and environ["mine"] == "x"
    assert environ["wsgi.url_scheme"] == "https" and environ["SERVER_NAME"] and environ["SERVER_PORT"].isdigit()
    assert client.recv_to_end() == b""
    server.wait_until_idle()


def test_a_body_in_pieces(start, raw_client):
    """The app gets its body, however the octets come."""
    server = start(apps.echo, bind="uwsgi://127.0.0.1:0")
    body = b"x" * 300_000
    raw = packet(body=body, REQUEST_METHOD="POST")
    client = raw_client(server)
    for piece in (raw[:1], raw[1:3], raw[3:50], raw[50:-200_000], raw[-200_000:-1]):
        client.send(piece)
    client.send(raw[-1:])
    assert client.recv_response().body == body


def test_no_chunks_and_no_interim_responses(start, raw_client):
    """A body of unknown length ends with the connection; 103 is not for a front server."""
    server = start(apps.early_hints, bind="uwsgi://127.0.0.1:0")
    octets = raw_client(server).ask(packet())
    assert octets.startswith(b"HTTP/1.1 200 OK\r\n") and octets.endswith(b"\r\n\r\nfinal")
    streaming = start(apps.Streamer(lambda: iter([b"a", b"b"])), bind="uwsgi://127.0.0.1:0")
    octets = raw_client(streaming).ask(packet())
    assert octets.endswith(b"\r\n\r\nab") and b"hunked" not in octets and b"Connection" not in octets


@rule("RFC 9110 9.3.2", "no body in the response to HEAD", "none over uwsgi, too")
def test_head_has_no_body(start, raw_client):
    server = start(apps.hello, bind="uwsgi://127.0.0.1:0")
    octets = raw_client(server).ask(packet(REQUEST_METHOD="HEAD"))
    assert octets.endswith(b"\r\n\r\n") and b"Content-Length: 6\r\n" in octets


@rule(
    'uwsgi "Protocol.rst"',
    "vars of the front server's say how long the body is",
    "CONTENT_LENGTH does, and nothing beside it",
)
@pytest.mark.parametrize("body", [b"", b"12345"])
def test_no_second_content_length(start, raw_client, body):
    """HTTP_CONTENT_LENGTH and HTTP_CONTENT_TYPE, which nginx sends as well, are not in the environ, nor obeyed."""
    server = start(apps.environ_json, bind="uwsgi://127.0.0.1:0")
    client = raw_client(server)
    others = {"HTTP_CONTENT_LENGTH": "999", "HTTP_CONTENT_TYPE": "text/wrong", "HTTP_PROXY": "http://wrong"}
    client.send(packet(body=body, CONTENT_TYPE="text/right", **others))
    environ = client.recv_response().json()
    assert not set(others) & set(environ) and environ["CONTENT_TYPE"] == "text/right"
    assert environ.get("CONTENT_LENGTH", "") == ("5" if body else "")


def test_modifier_30_takes_script_name_off(start, raw_client):
    server = start(apps.environ_json, bind="uwsgi://127.0.0.1:0")
    client = raw_client(server)
    client.send(packet(30, SCRIPT_NAME="/app", PATH_INFO="/app/x%41"))
    environ = client.recv_response().json()
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", "/x%41")


def test_a_ping_gets_an_empty_warning(start, raw_client):
    server = start(apps.hello, bind="uwsgi://127.0.0.1:0")
    assert raw_client(server).ask(PING) == b"\x64\0\0\1"


def test_a_ping_of_an_overloaded_server(start, raw_client, wait_until):
    """A ping tells that requests wait too long for a worker, while they do."""
    gate = apps.Gate()
    server = start(gate, bind="uwsgi://127.0.0.1:0", threads=1, healthcheck_max_wait_seconds=0.05)
    clients = [raw_client(server) for _ in range(2)]
    for client in clients:
        client.send(packet())
    gate.wait_entered()
    wait_until(lambda: raw_client(server).ask(PING)[4:].startswith(b"requests wait for 0."))
    gate.open(len(clients))
    assert {client.recv_response().status for client in clients} == {200}
    assert raw_client(server).ask(PING) == b"\x64\0\0\1"


class DelayUntilTold:
    """The module asyncio, whose sleep of an hour lasts until the test ends it."""

    def __init__(self):
        self.is_over = False

    def __getattr__(self, name):
        return getattr(asyncio, name)

    async def sleep(self, seconds):
        while seconds == HOUR and not self.is_over:
            await asyncio.sleep(0.001)
        await asyncio.sleep(seconds % HOUR)


def test_a_ping_within_the_drain_delay(start, raw_client, monkeypatch):
    """With --drain-delay a new connection learns of the drain, too, and a client without the news is served."""
    delay = DelayUntilTold()
    monkeypatch.setattr(server_module, "asyncio", delay)
    server = start(apps.hello, bind=["uwsgi://127.0.0.1:0", "127.0.0.1:0"], drain_delay_seconds=HOUR)
    server.begin_drain()
    assert raw_client(server).ask(PING) == b"\x64\x08\0\1draining"
    client = raw_client(server.server.addresses[1])
    assert client.fetch().body == b"hello\n"
    client.close()  # or the drain would linger for it
    assert server.address
    delay.is_over = True
    server.stop()
    assert server.is_clean


def test_a_ping_while_draining(start, raw_client):
    """A connection from before the drain learns of the drain, and a request on it is served."""
    gate = apps.Gate()
    server = start(gate, bind="uwsgi://127.0.0.1:0")
    running, monitor, late = raw_client(server), raw_client(server), raw_client(server)
    running.send(packet())
    gate.wait_entered()
    for client in (monitor, late):
        client.send(PING[:1] if client is monitor else packet()[:1])
    server.wait_until_receiving()
    server.begin_drain()
    monitor.send(PING[1:])
    assert monitor.recv_to_end() == b"\x64\x08\0\1draining"
    late.send(packet()[1:])
    gate.open(2)
    assert [client.recv_response().status for client in (running, late)] == [200, 200]
    server.stop()
    assert server.is_clean


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP or TLS spoken to a uwsgi socket"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "HTTP or TLS spoken to a uwsgi socket"),
        (b"\x16\0\0\0", "modifier1 22 (code evaluation) is not served"),
        (b"\x05\0\0\0", "modifier1 5 (PSGI (Perl)) is not served"),
        (b"\x62\0\0\0", "modifier1 98 (reload) is not served"),
        (b"\0\0\0\0", "the packet has no vars"),
        (b"\0\x04\0\0\xff\xff\0\0", "reaches past its packet"),
    ],
)
def test_an_unserved_packet_is_closed_in_silence(start, raw_client, caplog, octets, text):
    """An unserved packet is closed without an octet, with one line in the log that names the listener."""
    server = start(apps.hello, bind="uwsgi://127.0.0.1:0")
    assert raw_client(server).ask(octets) == b""
    lines = [record.getMessage() for record in caplog.records if text in record.getMessage()]
    assert len(lines) == 1 and lines[0].startswith(f"{server.url}: ")


@pytest.mark.parametrize(
    ("settings", "vars", "setting"),
    [
        ({"max_head_bytes": 8192}, {"HTTP_COOKIE": "x" * 9000}, "--max-head"),
        ({"max_fields": 1}, {f"HTTP_{number}": "" for number in range(80)}, "--max-fields"),
    ],
)
def test_a_limit_is_named_to_client_and_log(start, raw_client, caplog, settings, vars, setting):
    server = start(apps.hello, bind="uwsgi://127.0.0.1:0", max_request_line_bytes=4096, **settings)
    client = raw_client(server)
    client.send(packet(**vars))
    reply = client.recv_response()
    assert reply.status == 431 and f"{setting} raises it".encode() in reply.body
    assert f"{setting} raises it" in caplog.text
    assert raw_client(server).ask(packet()).endswith(b"hello\n")


@pytest.mark.parametrize("size", [11, 300_000])
def test_a_body_over_the_limit(start, raw_client, size):
    """413, and the front server's rest of the body is taken."""
    server = start(apps.echo, bind="uwsgi://127.0.0.1:0", max_body_bytes=10)
    assert raw_client(server).ask(packet(body=b"x" * 10)).endswith(b"\r\n\r\n" + b"x" * 10)
    client = raw_client(server)
    client.send(packet(body=b"x" * size))
    assert client.recv_response().status == 413


@rule("RFC 9112 8", "an incomplete response is known as one", "over uwsgi a reset, which front servers pass on")
def test_a_cut_body_is_a_reset(start, raw_client):
    """An app that dies within its body causes a reset on TCP."""
    server = start(apps.raises_mid_stream, bind="uwsgi://127.0.0.1:0")
    client = raw_client(server)
    client.send(packet())
    with pytest.raises(client.Truncated) as caught:
        client.recv_to_end()
    assert caught.value.is_reset


def test_the_access_log(start, raw_client, tmp_path):
    """The log names the client of the front server."""
    server = start(apps.hello, bind=f"uwsgi://unix:{tmp_path}/s", access_log=str(tmp_path / "log"))
    raw_client(server).ask(packet(REMOTE_ADDR="198.51.100.1"))
    raw_client(server).ask(packet(REQUEST_URI=""))
    server.stop()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["198.51.100.1", "-"]
    assert all('"GET /a HTTP/1.1" 200 6' in line for line in lines)


def test_an_app_that_fails(start, raw_client, caplog):
    """Vars in any order, or missing, do not keep a failure from the log."""
    server = start(apps.raises, bind="uwsgi://127.0.0.1:0")
    for octets in (packet(), b"\0\x05\0\0\x01\0A\0\0"):
        assert raw_client(server).ask(octets).startswith(b"HTTP/1.1 500 ")
    assert "ValueError at GET /a" in caplog.text and "ValueError at - -" in caplog.text


def test_side_by_side(start, raw_client, tmp_path):
    binds = [f"uwsgi://unix:{tmp_path}/u", "scgi://127.0.0.1:0", "http://127.0.0.1:0"]
    server = start(apps.environ_json, bind=binds)
    uwsgi, scgi, http = server.server.addresses
    assert json.loads(raw_client(uwsgi).ask(packet()).partition(b"\r\n\r\n")[2])["PATH_INFO"] == "/a"
    octets = raw_client(scgi).ask(sidecars.scgi({"PATH_INFO": "/b"}))
    assert (
        octets.startswith(b"Status: 200 OK\r\n") and json.loads(octets.partition(b"\r\n\r\n")[2])["PATH_INFO"] == "/b"
    )
    assert raw_client(http).fetch("/c").json()["PATH_INFO"] == "/c"
    assert server.server.urls[0] == binds[0] and server.server.urls[1].startswith("scgi://127.0.0.1:")


def test_the_rights_of_a_socket(start, raw_client, tmp_path):
    """--unix-mode, --unix-owner and --unix-group set the rights of the file."""
    path = tmp_path / "s"
    server = start(
        apps.hello, bind=f"uwsgi://unix:{path}", unix_mode="600", unix_owner=os.getuid(), unix_group=str(os.getgid())
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert raw_client(server).ask(packet()).endswith(b"hello\n")
    server.stop()
    assert not path.exists()


@pytest.mark.long_on_pypy
def test_a_server_that_was_killed(start_process, raw_client, tmp_path):
    """The file left by a killed server is replaced by the next server."""
    path = str(tmp_path / "s")
    process = start_process("hello", "--bind", f"uwsgi://unix:{path}")
    process.process.kill()
    process.wait()
    assert os.path.exists(path)
    process = start_process("hello", "--bind", f"uwsgi://unix:{path}")
    assert raw_client(path).ask(packet()).endswith(b"hello\n")
    process.signal()
    assert process.wait() == 0 and not os.path.exists(path)


def test_a_front_server_that_leaves(start, raw_client):
    """Half a packet, half a body, or none at all: the connection ends, and nothing is left."""
    server = start(apps.echo, bind="uwsgi://127.0.0.1:0")
    raw = packet(body=b"hello")
    for count in (0, 2, 30, len(raw) - 2):
        client = raw_client(server)
        client.send(raw[:count])
        client.end_sending()
        assert client.recv_to_end() == b""
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    server.wait_until_idle()
