"""TLS on real sockets: features that are off, and clients that speak no TLS, or bad TLS."""

import contextlib
import os
import select
import shutil
import socket
import ssl

import pytest
from harness.tls_clients import SECONDS, MemorySocket

pytestmark = [pytest.mark.any_parser]
also_inline = pytest.mark.also_inline
one_way = pytest.mark.one_way
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


# Features that are off


def probe(server, version=0x0303, suites=(), versions=(), compression=b"\0", record_version=0x0301):
    """Say hello by hand; return ("alert", number), ("hello", version, suite, compression) or ("closed",).

    Clients of today cannot offer these features: their libraries have forgotten them.
    """

    def vector(octets, length_octet_count):
        return len(octets).to_bytes(length_octet_count, "big") + octets

    def extension(kind, octets):
        return kind.to_bytes(2, "big") + vector(octets, 2)

    extensions = extension(10, vector(bytes.fromhex("001d00170018"), 2))  # groups
    extensions += extension(11, vector(b"\0", 1))  # points
    extensions += extension(13, vector(bytes.fromhex("0403050306030804080508060401050106010203020102020101"), 2))
    extensions += extension(0xFF01, b"\0")  # RFC 5746: renegotiation, if any, is to be secure
    if versions:
        extensions += extension(43, vector(b"".join(number.to_bytes(2, "big") for number in versions), 1))
        extensions += extension(51, vector(bytes.fromhex("001d") + vector(os.urandom(32), 2), 2))
    hello = version.to_bytes(2, "big") + os.urandom(32) + vector(b"", 1)
    hello += vector(b"".join(suite.to_bytes(2, "big") for suite in suites), 2)
    hello += vector(compression, 1) + vector(extensions, 2)
    record = b"\x16" + record_version.to_bytes(2, "big") + vector(b"\x01" + vector(hello, 3), 2)
    with socket.create_connection(server.address, SECONDS) as sock:
        sock.sendall(record)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while len(received) < 5 or len(received) < 5 + int.from_bytes(received[3:5], "big"):
                piece = sock.recv(1 << 16)
                if not piece:
                    return ("closed",)
                received += piece
    if received[0] == 21:
        return ("alert", received[6])
    assert received[0] == 22 and received[5] == 2, received[:20]
    body = received[9:]
    position = 35 + body[34]
    suite, chosen = int.from_bytes(body[position : position + 2], "big"), int.from_bytes(body[:2], "big")
    if b"\x00\x2b\x00\x02\x03\x04" in body:
        chosen = 0x0304
    return ("hello", chosen, suite, body[position + 2])


GOOD = {0xC02B: "ECDHE-ECDSA-AES128-GCM", 0xC02C: "ECDHE-ECDSA-AES256-GCM", 0xCCA9: "ECDHE-ECDSA-CHACHA20"}
PROTOCOL_VERSION, HANDSHAKE_FAILURE, INAPPROPRIATE_FALLBACK = 70, 40, 86


@one_way
def test_what_is_on(serve_tls):
    """Each active suite is taken alone; of several the first of ours; without compression."""
    server = serve_tls()
    for suite in GOOD:
        assert probe(server, suites=[suite]) == ("hello", 0x0303, suite, 0)
        assert probe(server, suites=[0xC009, 0x002F, suite]) == ("hello", 0x0303, suite, 0)
    assert probe(server, suites=[0xCCA9, 0xC02B, 0xC02C]) == ("hello", 0x0303, 0xC02C, 0)
    assert probe(server, suites=[0xC02B], compression=b"\x01\0") == ("hello", 0x0303, 0xC02B, 0)
    for suite in (0x1301, 0x1302, 0x1303):
        assert probe(server, suites=[suite], versions=[0x0304]) == ("hello", 0x0304, suite, 0)


@one_way
def test_old_versions_are_not_spoken(serve_tls):
    """RFC 8996, RFC 7568, RFC 6176: SSL 2 and 3, TLS 1.0 and 1.1 are not spoken, whatever else is offered."""
    server = serve_tls()
    for version in (0x0302, 0x0301, 0x0300):
        suites = [*GOOD, 0xC009, 0xC00A, 0x002F, 0x0035]
        # OpenSSL tells no more of SSL 3 than a failed handshake.
        expected = PROTOCOL_VERSION if version > 0x0300 else HANDSHAKE_FAILURE
        assert probe(server, version, suites) == ("alert", expected), hex(version)
        assert probe(server, suites=suites, versions=[version]) == ("alert", PROTOCOL_VERSION), hex(version)
    assert probe(server, 0x0200, GOOD, record_version=0x0200) == ("closed",)
    with socket.create_connection(server.address, SECONDS) as sock:
        sock.sendall(bytes.fromhex("802e0103010015000000100100800700c00300800600400200800400800000") + bytes(17))
        assert sock.recv(1) == b""


WEAK = {
    0x0000: "NULL-NULL", 0x0002: "RSA-NULL-SHA", 0x003B: "RSA-NULL-SHA256", 0xC006: "ECDHE-ECDSA-NULL",
    0x0018: "DH-anon-RC4", 0x0034: "DH-anon-AES", 0x00A6: "DH-anon-GCM", 0xC018: "ECDH-anon-AES",
    0x0003: "EXPORT-RC4", 0x0008: "EXPORT-DES", 0x0014: "EXPORT-DHE", 0x0009: "DES",
    0x0004: "RC4-MD5", 0x0005: "RC4-SHA", 0xC007: "ECDHE-ECDSA-RC4", 0xC011: "ECDHE-RSA-RC4",
    0x000A: "3DES", 0x0016: "DHE-3DES", 0xC008: "ECDHE-ECDSA-3DES",
    0x002F: "AES128-CBC", 0x0035: "AES256-CBC", 0x003C: "AES128-CBC-SHA256", 0x0041: "CAMELLIA", 0x0096: "SEED",
    0xC009: "ECDHE-ECDSA-AES128-CBC", 0xC00A: "ECDHE-ECDSA-AES256-CBC", 0xC023: "ECDHE-ECDSA-AES128-CBC-SHA256",
    0xC024: "ECDHE-ECDSA-AES256-CBC-SHA384", 0xC013: "ECDHE-RSA-AES128-CBC",
    0x009C: "RSA-AES128-GCM", 0x009D: "RSA-AES256-GCM", 0x009E: "DHE-AES128-GCM", 0xC02D: "ECDH-AES128-GCM",
    0xC0AC: "ECDHE-ECDSA-AES128-CCM", 0xC0AE: "ECDHE-ECDSA-AES128-CCM8", 0x00A8: "PSK", 0xC02F: "needs RSA",
}  # fmt: skip


@one_way
def test_weak_suites_are_not_taken(serve_tls):
    """RFC 9325 4.1, 4.2: without encryption, authentication, forward secrecy or AEAD there is no connection."""
    server = serve_tls()
    for suite, name in WEAK.items():
        assert probe(server, suites=[suite]) == ("alert", HANDSHAKE_FAILURE), name
    assert probe(server, suites=list(WEAK)) == ("alert", HANDSHAKE_FAILURE)
    server.wait_until_idle()


@one_way
def test_a_forced_downgrade_is_told(serve_tls):
    """RFC 7507: a client forced back to an older version is told."""
    assert probe(serve_tls(), suites=[0xC02B, 0x5600]) == ("alert", INAPPROPRIATE_FALLBACK)


@one_way
def test_only_tls_1_3(serve_tls):
    server = serve_tls(tls_min="1.3")
    assert probe(server, suites=GOOD) == ("alert", PROTOCOL_VERSION)
    assert probe(server, suites=[0x1301], versions=[0x0304])[:2] == ("hello", 0x0304)


@one_way
def test_http_2_only(serve_tls, authority):
    """RFC 7301 3.2: a client that offers only h2, where there is none, gets the alert no_application_protocol."""
    server = serve_tls(http2="off")
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        MemorySocket(server, authority, protocols=["h2"])
    assert MemorySocket(server, authority, protocols=["h2", "http/1.1"]).alpn == "http/1.1"


@one_way
def test_why_a_handshake_failed(serve_tls, authority, tmp_path, caplog, raw_client):
    """The log tells the fault, in the words of docs/tls.md."""
    server = serve_tls(client_ca=authority.certificate, client_certificate="required")
    assert probe(server, suites=[0xC02F]) == ("alert", HANDSHAKE_FAILURE)
    assert probe(server, 0x0302, GOOD) == ("alert", PROTOCOL_VERSION)
    stranger = type(authority)(tmp_path / "other", "another").issue(subject="/CN=stranger")
    for believed, issued in ((authority, None), (authority, stranger), (None, None)):
        context = ssl.create_default_context(cafile=believed and str(believed.certificate))
        if issued is not None:
            context.load_cert_chain(*map(str, issued))
        with (
            contextlib.suppress(ssl.SSLError, ConnectionError),
            contextlib.closing(raw_client(server, context=context)) as client,
        ):
            client.is_closed()  # in TLS 1.3 a client learns of it when it reads
    server.wait_until_idle()
    for why in (
        "no shared cipher", "unsupported protocol", "peer did not return a certificate", "certificate verify failed",
        "tlsv1 alert unknown ca",
    ):  # fmt: skip
        assert caplog.text.count(f"TLS handshake failed: {why}") == 1, why


# Clients that speak no TLS, or bad TLS


def test_plain_http_is_told_so_once(serve_tls, raw_client, caplog):
    server = serve_tls()
    client = raw_client(server.address)
    reply = client.fetch()
    assert reply.status == 400 and b"https://" in reply.body
    assert client.is_closed()
    client.close()
    assert caplog.text.count("HTTP without TLS came to a TLS port") == 1
    server.wait_until_idle()


def test_handshakes_take_their_time(serve_tls, caplog):
    """Endless handshakes are cut."""
    server = serve_tls(head_seconds=5)
    server.hold_clock()
    socks = [socket.create_connection(server.address, SECONDS) for _ in range(3)]
    socks[1].sendall(b"\x16\x03")
    socks[2].sendall(b"\x16\x03\x01\x00\xc8\x01")
    server.wait_until_known(3)
    for _ in range(2):
        server.call(lambda: None)  # the loop has been round, and has read the octets
    for sock in socks:
        # A second may pass before the event loop has all of them.
        server.pass_seconds_until(lambda sock=sock: select.select([sock], [], [], 0)[0])
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
        sock.close()
    server.wait_until_idle()
    assert caplog.text.count("--head-timeout") == 2


def test_broken_records_are_nobody_elses(serve_tls, authority, raw_client, caplog):
    """A client's garbage ends its own connection, and no other."""
    server = serve_tls()
    good = raw_client(server)
    for _ in range(5):
        bad = MemorySocket(server, authority)
        bad.sock.sendall(b"\x17\x03\x03\x00\x40" + os.urandom(64))
        with contextlib.suppress(ConnectionResetError):
            while bad.sock.recv(1 << 16):
                pass
        bad.sock.close()
        worse = socket.create_connection(server.address, SECONDS)
        worse.sendall(b"\x16\x03\x01\x00\x40" + bytes(64))
        with contextlib.suppress(ConnectionResetError):
            while worse.recv(1 << 16):
                pass
        worse.close()
        # In parts, so that the server has to wait for more: there a stale error would show.
        for part in (b"GET / HT", b"TP/1.1\r\nHost: a\r\n", b"\r\n"):
            good.send(part)
        assert good.recv_response().status == 200
    assert caplog.text.count("TLS failed") == caplog.text.count("TLS handshake failed") == 5
