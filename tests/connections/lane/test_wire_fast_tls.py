"""TLS on the fast path changes only times for clients and apps."""

import os
import socket
import ssl
import threading

import pytest
from harness import apps
from harness.client import Truncated

import aserve.connections.service
from aserve._cparsers import ffi, lib
from aserve.connections.lane.wire_fast import end_session
from aserve.tls.sessions import OwnContext, why_no_library

pytestmark = [
    pytest.mark.any_parser,
    pytest.mark.skipif(bool(why_no_library()), reason=f"no library: {why_no_library()}"),
]
one_way = pytest.mark.one_way
OF_A_WAY = ("REMOTE_PORT", "SERVER_PORT", "wsgi.early_hints")
BODY = b"".join(b"%07d\n" % number for number in range(400_000))


@pytest.fixture
def serve_tls(start_server, tls_settings):
    """Start servers with TLS: serve_tls(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: start_server(app, is_checked=False, **{**tls_settings, **settings})


def in_form(how, path):
    """Return an app that answers `/` with the body in this form, and other paths with a few octets."""
    path.write_bytes(BODY)

    def app(environ, start_response):
        if environ["PATH_INFO"] != "/":
            return apps.hello(environ, start_response)
        write = start_response("200 OK", [("Content-Length", str(len(BODY)))])
        if how == "list":
            return [BODY]
        if how == "file":
            return environ["wsgi.file_wrapper"](open(path, "rb"))
        pieces = (BODY[start : start + 50_000] for start in range(0, len(BODY), 50_000))
        if how == "generator":
            return pieces
        for piece in pieces:
            write(piece)
        return []

    return app


@pytest.mark.also_inline
@pytest.mark.parametrize("how", ["list", "generator", "write", "file"])
def test_a_slow_reader_gets_every_octet(serve_tls, raw_client, tmp_path, how):
    """Records refused by a socket are neither lost nor overtaken, and no other client waits for them."""
    server = serve_tls(in_form(how, tmp_path / "body"))
    client, other = raw_client(server, receive_buffer_bytes=8192), raw_client(server)
    assert client.fetch("/first").status == 200
    client.request()
    for _ in range(3):
        assert other.fetch("/other").body == b"hello\n"
    client.recv_head()
    assert client.recv_exactly(len(BODY)) == BODY
    assert client.fetch("/last").body == b"hello\n"


@one_way
@pytest.mark.parametrize("how", ["list", "file"])
def test_a_large_body_stays_in_the_lane(serve_tls, raw_client, tmp_path, how):
    """The pump encrypts a large body, and the connection does not leave the lane for the body."""
    server = serve_tls(in_form(how, tmp_path / "body"), threads=8, lane="auto")
    client = raw_client(server)
    for _ in range(3):
        assert client.fetch().body == BODY
        assert client.fetch("/other").body == b"hello\n" and server.statistics().connections_in_lane == 1


@one_way
@pytest.mark.parametrize("how", ["list", "file"])
def test_a_client_that_stops_reading_leaves_the_pump(serve_tls, raw_client, tmp_path, wait_until, how):
    """The event loop sends the rest behind the records of the pump, with the loop's time-outs, and the client gets every octet."""
    server = serve_tls(in_form(how, tmp_path / "body"), threads=8, lane="auto", write_seconds=60.0)
    client = raw_client(server, receive_buffer_bytes=8192)
    assert client.fetch("/first").status == 200
    client.request()
    wait_until(lambda: server.statistics().connections_in_lane == 0)
    client.recv_head()
    assert client.recv_exactly(len(BODY)) == BODY
    assert client.fetch("/last").body == b"hello\n"


@one_way
def test_a_client_that_does_not_read_over_tls_is_cut_off(serve_tls, raw_client, tmp_path, wait_until):
    """Records that wait in a session are no progress for --write-timeout."""
    server = serve_tls(in_form("list", tmp_path / "body"), threads=8, lane="auto", write_seconds=2.0)
    client = raw_client(server, receive_buffer_bytes=8192)
    client.request()
    wait_until(lambda: server.statistics().connections_open == 0)


@one_way
def test_a_file_that_ends_early_over_tls_is_cut(serve_tls, raw_client, tmp_path):
    """The client sees that octets of the file are missing."""
    server = serve_tls(in_form("file", tmp_path / "body"), threads=8)
    client = raw_client(server, receive_buffer_bytes=8192)
    client.request()
    client.recv_head()
    os.truncate(tmp_path / "body", 10)
    with pytest.raises(Truncated):
        client.recv_exactly(len(BODY))


@one_way
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_the_environ_is_the_same_as_on_the_event_loop(serve_tls, raw_client, version):
    """Each name and each value, but for ports, and the type of a method of C's."""

    def environ_of(lane):
        client = raw_client(serve_tls(apps.environ_json, lane=lane, threads=8, tls_min=version))
        found = []
        for _ in range(3):
            environ = client.fetch("/a%20b?c=d", "X-Field: e", "Cookie: f=g").json()
            found.append({name: value for name, value in environ.items() if name not in OF_A_WAY})
        assert found[0] == found[1] == found[2]
        return found[0]

    in_lane = environ_of("auto")
    assert in_lane == environ_of("off")
    assert in_lane["HTTPS"] == "on" and in_lane["SSL_PROTOCOL"].startswith("TLSv1.") and in_lane["SSL_CIPHER"]


@one_way
def test_a_piece_is_not_kept_for_the_next(serve_tls, raw_client):
    """PEP 3333: the client has each piece before the app is asked for the next, whatever the socket takes."""
    may_go_on = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", str(2 * len(BODY)))])
        yield BODY
        may_go_on.wait()
        yield BODY

    client = raw_client(serve_tls(app, threads=8), receive_buffer_bytes=8192)
    client.request()
    client.recv_head()
    try:
        assert client.recv_exactly(len(BODY)) == BODY
    finally:
        may_go_on.set()
    assert client.recv_exactly(len(BODY)) == BODY


@one_way
def test_a_connection_comes_back_to_the_lane(serve_tls, raw_client, wait_until):
    """The session stays: a request that needs the event loop does not keep its client there."""
    server = serve_tls(threads=8, lane="auto")
    client = raw_client(server)
    for _ in range(2):
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2)  # pipelined
        assert [client.recv_response().status for _ in range(2)] == [200, 200]

        def is_back():
            return client.fetch().status == 200 and server.statistics().connections_in_lane == 1

        wait_until(is_back)


@one_way
def test_a_forked_child_does_not_touch_sessions(serve_tls, raw_client):
    """A forked child of the app has copies of all sessions, and sends nothing to their clients."""

    def app(environ, start_response):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        return apps.hello(environ, start_response)

    client = raw_client(serve_tls(app, threads=8))
    for _ in range(5):
        assert client.fetch().body == b"hello\n"


@one_way
def test_a_drain_closes_kept_connections_with_an_alert(serve_tls, raw_client):
    """RFC 8446 6.1: a client without a request hears of the end, and sees no cut."""
    server = serve_tls(threads=8)
    client = raw_client(server)
    assert client.fetch().status == 200
    server.begin_drain()
    assert client.recv_to_end() == b""


@one_way
def test_a_handshake_behind_the_last_accept_stays_on_the_loop(serve_tls, raw_client, tls_settings):
    """With several names the loop shakes hands; the lane takes no connection any more, and the session stays the event loop's."""
    server = serve_tls(threads=8, sni=["b.example={certificate}:{key}".format(**tls_settings)])
    server.call(lambda: server.server._listening.lane.stop_accepting())
    client = raw_client(server)
    for _ in range(2):
        assert client.fetch().body == b"hello\n"
    assert server.statistics().connections_in_lane == 0


@one_way
@pytest.mark.also_inline
def test_a_handshake_is_the_lane_s(serve_tls, raw_client, wait_until):
    """Before the first request the connection is there; the environ has what was agreed, and the client's address."""
    names = "SSL_PROTOCOL", "SSL_CIPHER", "REMOTE_ADDR", "REMOTE_PORT"

    def app(environ, start_response):
        start_response("200 OK", [])
        return [" ".join(environ[name] for name in names).encode()]

    server = serve_tls(app)
    client = raw_client(server)
    wait_until(lambda: server.statistics().connections_in_lane == 1)
    host, port = client.sock.getsockname()
    assert client.fetch().body.decode().split() == [client.sock.version(), client.sock.cipher()[0], host, str(port)]


@one_way
def test_a_new_certificate_is_used_at_once(serve_tls, raw_client):
    """The next handshake has it; a kept connection goes on."""
    server = serve_tls()
    kept = raw_client(server)
    before = server.server._listening.lane.set.listeners[0].context
    server.call(server.server.reload_certificates)
    assert raw_client(server).fetch().status == kept.fetch().status == 200
    assert server.server._listening.lane.set.listeners[0].context != before


@one_way
@pytest.mark.provokes("internal error", "is not callable")
def test_a_fault_behind_a_handshake_loses_one_connection(serve_tls, raw_client, wait_until, monkeypatch, caplog):
    """A bug in aserve closes it, with a line in the log."""
    server = serve_tls()
    monkeypatch.setattr(aserve.connections.service, "describe_client", None)
    assert raw_client(server).recv_to_end() == b""
    wait_until(lambda: "internal error" in caplog.text)
    monkeypatch.undo()
    assert raw_client(server).fetch().status == 200


@one_way
@pytest.mark.parametrize("octets", [b"", b"\x16\x03"])
def test_a_drain_lets_handshakes_go_on(serve_tls, raw_client, wait_until, octets):
    """The event loop has them from then on."""
    server = serve_tls(threads=8)
    with socket.create_connection(server.address[:2], 20) as client:
        client.sendall(octets)
        wait_until(lambda: server.statistics().connections_in_lane == 1)
        server.begin_drain()
        wait_until(lambda: not server.server._listening or server.statistics().connections_in_lane == 0)


def test_a_session_whose_connection_is_dropped_is_freed(localhost):
    """Once; a connection without TLS has none."""
    like = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    like.minimum_version = ssl.TLSVersion.TLSv1_2
    context = OwnContext(like, str(localhost.certificate), str(localhost.key), "DEFAULT", [])
    table = ffi.new("tls_session *[]", 8)
    set = ffi.new("lane *", {"sessions": table, "conns_cap": 8})
    table[3] = lib.tls_begin(context.struct)
    for _ in range(2):
        end_session(set, 3)
        assert table[3] == ffi.NULL
