"""WebSockets on streams (RFC 8441): the app has a socket as over HTTP/1.1, and knows nothing of frames."""

import contextlib
import ssl

import h2.events
import pytest
from h2.errors import ErrorCodes
from harness import apps
from harness.http2 import request
from harness.http2_client import HTTP2Client
from harness.http2_websockets import Tunnel, asking
from harness.waiting import wait_until
from harness.websockets import SWITCHING, Switching

one_way = pytest.mark.one_way
MB = 1 << 20


@pytest.fixture
def ask(start_server, tls_settings, authority):
    """Start a server with this app, and ask for a WebSocket: ask(app, *fields) -> Tunnel, server."""
    made = []

    def start(app, fields=None, ends=False, **settings):
        server = start_server(app, is_checked=False, **{"http2": "auto", **tls_settings, **settings})
        made.append(Tunnel(server, authority, fields or asking(), ends))
        return made[-1], server

    yield start
    for client in made:
        client.close()


def count(server):
    return server.statistics().connections_websocket


def test_octets_both_ways(ask):
    """The stream becomes the app's socket, and ends with it."""
    app = Switching()
    client, server = ask(app, asking(b"/a?b", b"websocket", (b"sec-websocket-version", b"13"), (b"origin", b"x")))
    assert client.status == 200 and not [
        name for name in ("Upgrade", "Connection", "Sec-Websocket-Accept") if client.head.get(name)
    ]
    for octets in (b"\0", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 1000):
        client.send(octets)
        assert client.recv_exactly(len(octets)) == octets
    assert count(server) == 1
    client.end_sending()
    assert client.recv_to_end() == b""
    wait_until(lambda: not count(server))
    (environ,) = app.environs
    assert (
        environ["SERVER_PROTOCOL"] == "HTTP/2.0" and environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"] == "/a"
    )
    assert environ["HTTP_UPGRADE"] == "websocket" and environ["HTTP_SEC_WEBSOCKET_VERSION"] == "13"
    assert environ["HTTP_SEC_WEBSOCKET_KEY"] and environ["HTTP_ORIGIN"] == "x" and environ["HTTP_HOST"] == "a"


@one_way
def test_more_than_the_windows_hold(ask):
    """A slow reader on one side stops the sender on the other."""
    client, server = ask(Switching(lambda sock: sock.sendall(sock.recv(8 * MB) and bytes(8 * MB))))
    client.send(b"x" * (2 * MB // 10))
    assert client.recv_to_end() == bytes(8 * MB)
    wait_until(lambda: not count(server))


@one_way
def test_a_client_that_does_not_read(ask):
    """The client is cut off after --write-timeout, as over HTTP/1.1."""
    client, server = ask(Switching(lambda sock: sock.sendall(bytes(8 * MB))), write_seconds=1.0)
    assert client.status == 200
    wait_until(lambda: not count(server))


@one_way
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_client_that_leaves(ask, when):
    """A reset is the end that the app reads."""
    app = Switching(lambda sock: sock.recv(1))
    client, server = ask(app)
    app.began.acquire(timeout=30)
    if when == "before":
        client.cancel()
    else:
        client.close()
    assert app.ended.acquire(timeout=30)
    wait_until(lambda: not count(server))


@one_way
def test_a_client_that_leaves_before_its_request_begins(start_server, tls_settings, authority):
    """While too many requests of its connection run, a request for a WebSocket waits; the reset frees its sockets, and no app gets it."""
    gate = apps.Gate()
    server = start_server(gate, is_checked=False, http2="auto", max_streams=1, **tls_settings)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    events: list[object] = []
    with contextlib.closing(HTTP2Client(server.address, context=context, on_event=events.append)) as client:
        for fields in (request(), asking()):
            client.frames.reset_stream(client.ask(fields))
            client.flush()
            if fields[0][1] == b"GET":
                gate.wait_entered()
        stream = client.streams[client.ask(request())]
        client.frames.ping(b"in order")  # the answer: the server has acted on all before
        client.flush()
        while not any(isinstance(event, h2.events.PingAckReceived) for event in events):
            client.receive()
        wait_until(lambda: not count(server))
        gate.open(2)
        while not stream.is_over:
            client.receive()
    assert stream.is_ended and len(gate.paths) == 2


@one_way
def test_a_client_that_sends_nothing(ask):
    """The client has ended its side with the request."""
    client, _ = ask(Switching(lambda sock: sock.sendall(b"read: %d" % len(sock.recv(10)))), ends=True)
    assert client.status == 200 and client.recv_to_end() == b"read: 0"


@one_way
def test_octets_before_the_app_has_decided(ask):
    """Such octets wait for the decision."""

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        sock.sendall(SWITCHING)
        sock.sendall(sock.recv(100))
        sock.close()

    client, _ = ask(app)
    client.send(b"early")
    assert client.recv_to_end() == b"early"


@one_way
@pytest.mark.parametrize("settings", [{}, {"websockets": 1}])
def test_an_app_that_answers(ask, settings):
    """The app may answer as ever; further octets of the client mean nothing."""
    client, server = ask(Switching(), asking(b"/plain"), **settings)
    assert client.status == 200 and client.head.get("Content-Type") == "text/plain"
    client.send(b"no WebSocket")
    assert client.recv_to_end() == b"hello\n"
    wait_until(lambda: not count(server))


@one_way
@pytest.mark.parametrize(
    ("written", "status"),
    [(b"HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx", 403), (SWITCHING.replace(b"1.1 101", b"1.1 200"), 200)],
)
def test_a_handshake_that_is_refused(ask, written, status):
    """The app may write another status to its socket."""

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(written)

    client, _ = ask(app)
    client.recv_to_end()
    assert client.status == status


@one_way
@pytest.mark.parametrize(
    "written",
    [
        b"hello\r\n\r\n",
        b"HTTP/1.1 101 X\r\na b: c\r\n\r\n",
        b"HTTP/1.1 101 X\r\na: b\nc: d\r\n\r\n",
        b"HTTP/1.1 101 X\r\nte: x\r\n\r\n",
    ],
)
def test_a_handshake_that_is_none(ask, written, caplog):
    """No client gets the handshake: the stream is reset."""
    caplog.set_level("INFO")

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(written)
        environ["werkzeug.socket"].recv(1)

    client, server = ask(app)
    assert client.reset == ErrorCodes.INTERNAL_ERROR and "stream reset" in caplog.text
    wait_until(lambda: not count(server))


@one_way
@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (asking(protocol=b"connect-udp"), "status"),
        ([field for field in asking() if field[0] != b":path"], "reset"),
        ([(b":method", b"GET"), *asking()[1:]], "reset"),
    ],
)
def test_what_is_no_websocket(ask, fields, found):
    """Another protocol is refused as any CONNECT; a request against RFC 8441 has its stream reset."""
    client, _ = ask(Switching(), fields)
    if found == "status":
        assert 400 <= client.status < 600
    else:
        assert client.reset == ErrorCodes.PROTOCOL_ERROR


@one_way
@pytest.mark.parametrize("settings", [{"websockets": 0}, {"threads": 1}])
def test_none_are_offered(ask, settings):
    """The settings that turn WebSockets off do so here: the client is told, and its request is malformed."""
    client, _ = ask(apps.hello, **settings)
    assert not client.frames.remote_settings.enable_connect_protocol and client.reset == ErrorCodes.PROTOCOL_ERROR


@one_way
def test_a_drain_lets_the_app_say_its_last(ask):
    app = Switching(lambda sock: sock.sendall(b"bye" if not sock.recv(1) else b"?"))
    client, server = ask(app)
    app.began.acquire(timeout=30)
    server.stop()
    assert client.recv_to_end() == b"bye"
