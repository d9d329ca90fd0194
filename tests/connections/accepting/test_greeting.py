"""Connections that learn their client first: from credentials, or the PROXY protocol."""

import os
import socket

import pytest
from harness.fakes import FakeTransport, Harness

from aserve.connections.accepting.acceptor import protocol_factory
from aserve.connections.accepting.greeting import THROTTLE_SECONDS, Greeting, LogThrottle, identify_by
from aserve.connections.loop.wire_loop import LoopWire
from aserve.proxies import peers as peers_module
from aserve.proxies.peers import Peers
from aserve.proxies.trust import needs_identity
from aserve.settings import parse_bind

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
V1 = b"PROXY TCP4 203.0.113.7 198.51.100.2 4711 443\r\n"
V2_LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
V2_UNIX = b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8" + bytes(216)
V2_TLS = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14"
    + bytes([203, 0, 113, 7, 198, 51, 100, 2, 18, 103, 1, 187])
    + b"\x20\0\5\1\0\0\0\0"
)
PROXY = ("10.0.0.1", 5000)


def app(environ, start_response):
    """Answer with the client, and the client's server address."""
    start_response("200 OK", [])
    names = ("REMOTE_ADDR", "REMOTE_PORT", "wsgi.url_scheme", "SERVER_PORT", "HTTPS")
    return [" ".join(str(environ.get(name)) or "-" for name in names).encode()]


class Listener:
    """A harness of one listener, whose time goes on only when told to."""

    def __init__(self, bind, proxies):
        self.harness = Harness(app)
        peers = self.harness.service.peers = Peers(proxies.split(",")) if proxies else None
        if peers is not None and needs_identity(parse_bind(bind), peers):
            self.harness.service.identify = identify_by(peers)
        self.harness.loop.time = lambda: self.now
        self.now = 100.0
        self.new = protocol_factory(self.harness.service, parse_bind(bind))

    def connect(self, peername=PROXY):
        _, transport = self.harness.connect(self.new(), peername=peername)
        return transport

    def answer(self, transport):
        """Let the app answer; return its words, or nothing."""
        self.harness.executor.run()
        return transport.received().partition(b"\r\n\r\n")[2].decode()


@pytest.fixture
def listen():
    """Make a listener: listen(bind, proxies)."""
    made = []

    def make(bind="proxy+http://127.0.0.1:80", proxies="10.0.0.0/8"):
        made.append(Listener(bind, proxies))
        return made[-1]

    yield make
    for listener in made:
        listener.harness.dispose()


@pytest.mark.parametrize(
    ("bind", "proxies", "kind"),
    [
        ("127.0.0.1:80", "", LoopWire),
        ("127.0.0.1:80", "10.0.0.1", LoopWire),
        ("unix:/a", "unix", LoopWire),
        ("unix:/a", "unix:uid=0", LoopWire),
        ("proxy+http://unix:/a", "unix", Greeting),
        ("proxy+http://127.0.0.1:80", "10.0.0.1", Greeting),
    ],
)
def test_only_a_header_needs_a_greeting(listen, bind, proxies, kind):
    """Only where a header comes first, a greeting stands before the wire."""
    assert type(listen(bind, proxies).new()) is kind


# Credentials


@pytest.mark.skipif(peers_module.SO_PEERCRED is None, reason="only Linux tells who is at the other end")
@pytest.mark.parametrize(("uid", "is_believed"), [(os.geteuid(), True), (os.geteuid() + 1, False)])
def test_the_other_end_of_a_unix_socket(listen, uid, is_believed):
    """A client of a unix socket is known by the credentials of its process."""
    transport = listen("unix:/a", f"unix:uid={uid}").connect("")
    assert transport.protocol.connection.is_believed is is_believed


# The header


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (V1, "203.0.113.7 4711 http 443 None"),
        (V2_TLS, "203.0.113.7 4711 https 443 on"),
        (V2_UNIX, "- - http 80 None"),
        (V2_LOCAL, "10.0.0.1 5000 http 80 None"),
        (b"PROXY UNKNOWN\r\n", "10.0.0.1 5000 http 80 None"),
        (b"PROXY TCP6 2001:db8::1 ::1 1 8443\r\n", "2001:db8::1 1 http 8443 None"),
    ],
)
def test_the_client_is_announced(listen, header, says):
    """Requests are of the client in the header, however the octets come."""
    listener = listen()
    for size in (len(header + GET), len(header), 1):
        transport = listener.connect()
        octets = header + GET
        for start in range(0, len(octets), size):
            transport.protocol.data_received(octets[start : start + size])
        assert listener.answer(transport) == says
        transport.protocol.data_received(GET + GET)
        assert listener.answer(transport).startswith(says)
    transport = listener.connect()
    transport.protocol.data_received(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + GET)
    assert listener.answer(transport) == "192.0.2.1 1 http 2 None"  # nothing of the earlier requests is left


@pytest.mark.parametrize(
    ("header", "is_believed"),
    [
        (V1, False),
        (V2_UNIX, False),
        (b"PROXY UNKNOWN\r\n", False),
        (b"PROXY TCP4 10.0.0.2 198.51.100.2 1 2\r\n", True),
        (V2_LOCAL, True),  # the proxy's own word
    ],
)
@pytest.mark.parametrize("proxies", ["10.0.0.0/8", "10.0.0.0/8,*,unix"])
def test_whose_word_the_fields_are(listen, header, is_believed, proxies):
    """Behind a header, fields are the word of the named client: believed only if the client is a proxy, too."""
    transport = listen(proxies=proxies).connect()
    transport.protocol.data_received(header)
    assert transport.protocol.connection.is_believed is is_believed


@pytest.mark.parametrize(
    ("peername", "who"),
    [
        (("203.0.113.7", 1), "203.0.113.7"),
        ("", f"a unix socket's peer with uid={os.geteuid()} and gid={os.getegid()}"),
    ],
)
def test_only_proxies_may_connect(listen, caplog, peername, who):
    """A client that is no proxy is closed before a word, and logged."""
    listener = listen()
    transport = listener.connect(peername)
    assert transport.calls == ["close"] and transport.received() == b""
    assert f"closed: {who}: only a peer in --trusted-proxies" in caplog.text
    transport.protocol.data_received(V1 + GET)  # was on its way
    assert listener.answer(transport) == ""


def test_a_platform_without_credentials(listen, caplog, monkeypatch):
    """Where the kernel does not tell the client, neither does the log."""
    monkeypatch.setattr(peers_module, "SO_PEERCRED", None)
    listen().connect("")
    assert "closed: a unix socket: only" in caplog.text


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (GET, "it began with b'GET / HTTP/1' and no PROXY protocol header"),
        (b"PROXY TCP4 1 2 3 4\r\n" + GET, "bad address"),
        (V2_TLS[:-1] + b"\0\0", None),
    ],
)
def test_a_bad_header(listen, caplog, octets, reason):
    """A wrong header closes the connection; no request behind it is looked at."""
    listener = listen()
    transport = listener.connect()
    transport.protocol.data_received(octets)
    if reason is None:  # a good header with a bad request behind: the request is answered
        assert transport.received().startswith(b"HTTP/1.1 400 ")
        return
    assert transport.calls == ["close"] and listener.answer(transport) == "" and listener.harness.executor.jobs == []
    assert reason in caplog.text and "10.0.0.1" in caplog.text


@pytest.mark.parametrize(("octets", "is_told"), [(b"", False), (V1[:20], True), (V1, False)])
def test_a_connection_that_ends(listen, caplog, octets, is_told):
    """A health check that only connects is no fault; half a header is."""
    transport = listen().connect()
    if octets:
        transport.protocol.data_received(octets)
    transport.protocol.eof_received()
    assert "close" in transport.calls
    assert ("within the PROXY protocol header" in caplog.text) is is_told


def test_no_header_in_time(listen, caplog):
    """A header has the time of a request's head, however it drips."""
    listener = listen()
    transport = listener.connect()
    seconds = int(listener.harness.config.head_seconds)
    for second in range(seconds):
        transport.protocol.data_received(V1[second : second + 1])
        transport.protocol.on_second()
    assert not transport.is_closing()
    transport.protocol.on_second()
    assert transport.calls == ["close"] and "--head-timeout" in caplog.text


def test_time_after_the_header(listen):
    """Behind the header, the usual times count from its end."""
    listener = listen()
    transport = listener.connect()
    for _ in range(20):
        transport.protocol.on_second()
    transport.protocol.data_received(V1)
    for _ in range(int(listener.harness.config.head_seconds)):
        transport.protocol.on_second()
    assert not transport.is_closing()
    transport.protocol.on_second()
    assert transport.calls == ["close"]


def test_a_drain_closes_a_connection_without_its_header(listen, caplog):
    listener = listen()
    transport = listener.connect()
    listener.harness.service.is_draining = True
    transport.protocol.drain()
    for _ in range(3):
        assert transport.calls == []
        transport.protocol.on_second()
    assert transport.calls == ["close"] and caplog.text == ""


def test_a_header_under_way_in_a_drain(listen):
    """A partly received header has the time of a request's head in a drain."""
    listener = listen()
    transport = listener.connect()
    transport.protocol.data_received(V1[:5])
    listener.harness.service.is_draining = True
    for _ in range(int(listener.harness.config.head_seconds)):
        transport.protocol.on_second()
    transport.protocol.data_received(V1[5:] + GET)
    assert listener.answer(transport).startswith("203.0.113.7 ")


def test_a_flood_makes_few_lines(listen, caplog):
    """The first failure is told at once, later ones are counted."""
    listener = listen()
    for _ in range(5):
        listener.connect(("203.0.113.7", 1))
    assert caplog.text.count("\n") == 1
    listener.now += THROTTLE_SECONDS
    listener.connect(("203.0.113.8", 1))
    assert caplog.text.count("\n") == 2 and "(4 more since the last such line)" in caplog.text
    listener.now += THROTTLE_SECONDS
    LogThrottle(listener.harness.service).warn("x", "y")
    assert caplog.text.endswith("closed: x: y\n")  # each listener counts its own


def test_a_proxy_that_has_gone(listen):
    """A reset connection, with its address unknown to the transport, is closed: it is no unix socket's peer."""
    listener = listen()
    with socket.socket() as sock:
        greeting, transport = listener.new(), FakeTransport(peername=None)
        listener.harness.transports.append(transport)
        transport.extra["socket"] = sock
        transport.connect(greeting)
    assert transport.calls == ["close"]


def test_a_connection_that_is_lost_within_the_header(listen, caplog):
    """A connection lost within the header is counted no more, and octets on their way are dropped."""
    listener = listen()
    transport = listener.connect()
    assert transport.protocol in listener.harness.service.connections
    transport.protocol.data_received(V1[:9])
    transport.protocol.connection_lost(None)
    transport.protocol.data_received(V1[9:])
    assert not listener.harness.service.connections and caplog.text == ""


def test_the_end_of_a_server(listen):
    """A silent connection is cut off with the rest."""
    transport = listen().connect()
    transport.protocol.abort()
    assert transport.calls == ["abort"]
