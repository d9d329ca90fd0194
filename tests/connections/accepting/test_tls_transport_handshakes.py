"""Handshakes that fail, or never end: the client is told why where possible, the log has a line, nothing is left."""

import random
import socket
import ssl

import pytest
from harness.tls_lines import GET

from aserve.connections.accepting.tls_transport import TLSTransport


def test_plain_http_is_answered_in_http(new_line, log):
    """HTTP without TLS is answered in HTTP, since no TLS was sent; one line says so."""
    line = new_line()
    line.transport.data_received(GET)
    answer = line.raw.received()
    assert answer.startswith(b"HTTP/1.1 400 ") and b"https://" in answer and b"Connection: close" in answer
    assert line.raw.calls == ["write_eof"]
    assert [record.getMessage() for record in log.records] == ["203.0.113.7: HTTP without TLS came to a TLS port"]
    line.transport.data_received(GET)
    assert not line.raw.received()
    assert not line.transport.eof_received()


@pytest.mark.parametrize("octets", [b"\x80\x2e\x01\x03\x01", b"\x00", b"\x16\x02", b"\x15\x03\x03\x00\x02\x01\x00"])
def test_neither_protocol_is_closed_in_silence(new_line, log, octets):
    """Octets of neither protocol are closed without a word; so is a ClientHello of SSL 2."""
    line = new_line()
    line.transport.data_received(octets)
    assert line.raw.calls == ["close"] and not line.raw.received()
    assert "what came to a TLS port is not TLS" in log.text


def test_http_2_only(new_line, log):
    """RFC 7301 3.2: a client that offers no HTTP/1 gets the alert no_application_protocol."""
    line = new_line(client={"protocols": ["h2", "x\ny"]})
    line.client.shake_hands()
    line.pump()
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        line.client.shake_hands()
    assert line.raw.calls == ["write_eof"]
    assert "speaks only 'h2', 'x\\ny'" in log.text
    line.sent = b""


@pytest.mark.parametrize("offered", [["h2", "http/1.1"], ["http/1.0"]])
def test_http_1_among_others(new_line, offered):
    """A client that offers HTTP/1 among others gets HTTP/1."""
    line = new_line(client={"protocols": offered}).shake_hands()
    assert line.client.session.selected_alpn_protocol() == offered[-1]


def test_no_version_in_common(new_line, log):
    """The client gets the alert before the connection ends, and the log a line."""
    line = new_line(tls_min="1.3", client={"maximum_version": ssl.TLSVersion.TLSv1_2})
    line.client.shake_hands()
    line.pump()
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        line.client.shake_hands()
    assert "TLS handshake failed: unsupported protocol" in log.text
    assert line.raw.calls == ["write_eof"] and not line.transport.is_closing()
    line.raw.lose()
    assert not line.harness.service.connections


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("seed", range(60))
def test_changed_octets_raise_nothing(new_line, authority, seed):
    """Octets changed on their way, at any time, in any pieces, raise nothing and end somewhere."""
    dice = random.Random(seed)
    line = new_line()
    spoilt_flight, flight = dice.randrange(4), 0  # ClientHello, Finished, a request, the next
    for _ in range(6):
        if not line.transport.is_closing():
            try:
                if line.client.shake_hands():
                    line.client.session.write(GET)
            except ssl.SSLError:
                break
        octets = bytearray(line.client.outgoing.read())
        if octets:
            for _ in range(dice.choice((1, 1, 5)) if flight == spoilt_flight else 0):
                octets[dice.randrange(len(octets))] = dice.randrange(256)
            flight += 1
        while octets:
            count = dice.choice((1, 5, 100, len(octets)))
            line.transport.data_received(bytes(octets[:count]))
            del octets[:count]
        line.harness.executor.run()
        line.client.incoming.write(line.raw.received())
    line.transport.eof_received()
    line.raw.lose()
    assert not line.harness.service.connections


def test_refused_client_that_stays(new_line):
    """A refused client is read for two seconds more, and then closed."""
    line = new_line()
    line.transport.data_received(GET)
    line.raw.received()
    for _ in range(2):
        line.transport.data_received(bytes(1 << 20))
        line.transport.on_second()
    assert "close" not in line.raw.calls
    line.transport.on_second()
    assert line.raw.calls[-1] == "close"


def test_refused_where_nothing_can_be_half_closed(new_line):
    """Where the socket cannot be closed one way, both ways are closed."""
    line = new_line()
    line.raw.can_half_close = False
    line.transport.data_received(GET)
    assert line.raw.calls == ["close"]


@pytest.mark.parametrize(
    ("count", "line_count"), [(0, 0), (1, 1), (100, 1), (None, 1)], ids=["silent", "octet", "part", "first-flight"]
)
def test_handshake_in_time(new_line, log, count, line_count):
    """A handshake beyond --head-timeout is cut; a silent client is not logged."""
    line = new_line(head_seconds=3)
    line.client.shake_hands()
    hello = line.client.outgoing.read()
    if count != 0:
        line.transport.data_received(hello[:count])
    for _ in range(3):
        line.transport.on_second()
    assert not line.raw.calls
    line.transport.on_second()
    assert line.raw.calls == ["abort"] and len(log.records) == line_count
    assert "--head-timeout" in log.text or not line_count
    line.sent += line.raw.received()


def test_client_leaves_in_the_handshake(new_line):
    """A client that hangs up is closed by the event loop."""
    line = new_line()
    line.client.shake_hands()
    line.pump()
    assert line.harness.service.connections == {line.transport}
    assert not line.transport.eof_received()
    line.raw.lose()
    assert not line.harness.service.connections


@pytest.mark.parametrize("count", [1, None], ids=["octet", "first-flight"])
def test_drain_in_the_handshake(new_line, log, count):
    """A handshake under way when a drain begins has its usual time, as a head without TLS; then the request has two seconds."""
    line = new_line(head_seconds=20)
    line.client.shake_hands()
    hello = line.client.outgoing.read()
    line.transport.data_received(hello[:count])
    line.harness.service.is_draining = True
    line.transport.drain()
    for _ in range(20):
        line.transport.on_second()
    line.transport.data_received(hello[count or len(hello) :])
    line.shake_hands()
    line.connection.on_second()
    octets, is_over = line.ask().answer()
    assert b"Connection: close" in octets and octets.endswith(b"/") and is_over


def test_drain_before_the_handshake(new_line, log):
    """A client without a handshake by then is closed, and not logged."""
    line = new_line()
    line.transport.on_second()
    line.harness.service.is_draining = True
    line.transport.drain()
    for _ in range(2):
        line.transport.on_second()
    assert not line.raw.calls
    line.transport.on_second()
    assert line.raw.calls == ["abort"] and not log.records


def test_unreadable_client_certificate(new_line, log, monkeypatch):
    """A certificate unreadable by Python is the client's fault."""

    def fail(session):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "meant so")

    monkeypatch.setattr("aserve.connections.service.describe_client", fail)
    line = new_line()
    while not line.client.shake_hands():
        line.pump()
    line.pump()
    assert line.raw.calls == ["abort"] and "cannot be read" in log.text


def test_a_unix_socket_has_its_name_in_the_log(new_line, log):
    line = new_line()
    line.raw.extra["peername"] = ""
    line.transport.connection_made(line.raw)
    line.transport.data_received(b"\x00")
    assert log.text.strip().endswith("unix socket: what came to a TLS port is not TLS")


def test_a_client_without_an_address(new_line):
    """A TCP client with an address unknown to the transport gets no handshake: it is no unix socket's peer."""
    line = new_line()
    transport = TLSTransport(line.harness.service)
    line.raw.extra["peername"] = None
    line.raw.calls.clear()
    with socket.socket() as sock:
        line.raw.extra["socket"] = sock
        line.raw.connect(transport)
    assert line.raw.calls == ["abort"]


# Clients that want a handshake alone


@pytest.fixture
def proof(authority):
    """Return the contexts by ALPN names, as an extension has them: one for the name proof.example."""
    issued = authority.issue("proof.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, issued))
    context.set_alpn_protocols(["proof/1"])
    return {"proof/1": lambda name: context if name == "proof.example" else None}


def proving(new_line, proof, name, protocols):
    line = new_line(client={"protocols": protocols, "server_name": name})
    line.harness.service.contexts = proof
    return line


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_but_a_handshake(new_line, proof, version):
    """The client gets the proof's certificate, and then the connection ends; no request is read."""
    line = proving(new_line, proof, "proof.example", ["proof/1"])
    line.client.context.maximum_version = version
    line.shake_hands()
    assert line.client.session.selected_alpn_protocol() == "proof/1" and line.client.peer_name == "proof.example"
    line.pump()
    assert line.raw.calls[-1] == "close" and line.connection is None


@pytest.mark.parametrize(
    ("name", "protocols"),
    [("localhost", ["proof/1"]), ("proof.example", ["proof/1", "other/1"])],
    ids=["name", "others"],
)
def test_no_such_handshake(new_line, proof, name, protocols, log):
    """A name without a context, and a client with further names, are refused as any client without HTTP."""
    line = proving(new_line, proof, name, protocols)
    line.client.shake_hands()
    line.pump()
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        line.client.shake_hands()
    assert "speaks only 'proof/1'" in log.text
    line.sent = b""


def test_http_beside_such_handshakes(new_line, proof):
    """All other clients are served as ever."""
    line = proving(new_line, proof, "localhost", ["http/1.1"]).shake_hands()
    assert line.ask().body() == b"/"
