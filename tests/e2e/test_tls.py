"""TLS on real sockets: curl, openssl and Python as clients, handmade ClientHellos for what must be off."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import types

import pytest
from harness import apps
from harness.certificates import MemoryClient

import aserve
from aserve import cli
from aserve._cparsers import lib
from aserve.settings import Config, parse_bind, read_toml

pytestmark = [pytest.mark.any_parser]
also_inline = pytest.mark.also_inline
one_way = pytest.mark.one_way
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

SECONDS = 20  # that a client process may take


@pytest.fixture
def serve(start_server, tls_settings):
    """Start servers with TLS: serve(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: start_server(app, **{**tls_settings, **settings})


def curl(server, authority, *flags, check=True):
    """Return what curl prints; with check=False its exit status."""
    command = ["curl", "-sS", "--max-time", str(SECONDS), "--cacert", authority.certificate, *flags]
    if not flags or not str(flags[-1]).startswith("http"):
        command.append(server.url)
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=SECONDS * 2)
    if not check:
        return done.returncode
    assert done.returncode == 0, done.stderr
    return done.stdout


def s_client(server, authority, *flags, steps):
    """Run openssl s_client; each step is what it is given, and then awaited. Return all since the last step."""
    host, port = server.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", str(authority.certificate), *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        timer = threading.Timer(SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            for octets, mark in steps:
                process.stdin.write(octets)
                process.stdin.flush()
                seen = b""
                while mark not in seen:
                    piece = os.read(process.stdout.fileno(), 1 << 16)
                    assert piece, f"no {mark!r} in {seen!r}"
                    seen += piece
            process.stdin.close()
            return seen + process.stdout.read()
        finally:
            timer.cancel()
            process.kill()


# Clients


@needs_curl
@pytest.mark.parametrize("flags", [[], ["--tls-max", "1.2"], ["--http1.0"], ["--no-alpn"]])
def test_curl(serve, authority, flags):
    """curl is served, with HTTP/1.1 by ALPN and without."""
    what = "\n%{http_code} %{http_version} %{scheme}"
    assert curl(serve(), authority, "-w", what, *flags).decode().lower().startswith("hello\n\n200 1.")


@one_way
@needs_curl
@pytest.mark.parametrize("flags", [["--tlsv1.0", "--tls-max", "1.1"], ["--http2-prior-knowledge", "--tls-max", "1.0"]])
def test_curl_with_an_old_version(serve, authority, flags):
    """RFC 8996: a client that is too old is not served."""
    assert curl(serve(), authority, *flags, "--ciphers", "ALL:@SECLEVEL=0", check=False) == 35


@one_way
@needs_curl
def test_server_names(serve, authority):
    """Each name has its certificate, as curl checks."""
    issued = {name: authority.issue(name) for name in ("a.test", "*.b.test")}
    sni = [f"{name}={files.certificate}:{files.key}" for name, files in issued.items()]
    server = serve(sni=sni)
    port = server.address[1]
    for name, status in {"a.test": 0, "x.b.test": 0, "b.test": 60, "c.test": 60}.items():
        url = f"https://{name}:{port}/"
        assert curl(server, authority, "--resolve", f"{name}:{port}:127.0.0.1", url, check=False) == status, name


@one_way
@needs_curl
def test_client_certificates(serve, authority):
    """The app sees who the client is; one without a certificate is not served."""
    client = authority.issue(subject="/O=Test/CN=somebody")
    server = serve(apps.environ_json, client_ca=authority.certificate, client_certificate="required")
    named = ["--cert", client.certificate, "--key", client.key]
    text = curl(server, authority, *named).decode()
    for part in (
        '"wsgi.url_scheme": "https"', '"HTTPS": "on"', f'"SERVER_PORT": "{server.address[1]}"',
        '"SSL_PROTOCOL": "TLSv1.3"', '"SSL_CLIENT_VERIFY": "SUCCESS"', '"SSL_CLIENT_S_DN": "CN=somebody,O=Test"',
        '"SSL_CLIENT_I_DN": "CN=aserve', '"SSL_CLIENT_CERT": "-----BEGIN CERTIFICATE-----',
    ):  # fmt: skip
        assert part in text, part
    assert curl(server, authority, check=False) in (35, 56)  # in TLS 1.3 curl learns of it when it reads
    assert curl(server, authority, "--tls-max", "1.2", check=False) in (35, 56)


@one_way
@needs_curl
def test_no_client_can_say_it_by_itself(serve, authority):
    """A header field does not become a variable of TLS."""
    text = curl(serve(apps.environ_json), authority, "-H", "SSL-Client-Verify: SUCCESS", "-H", "SSL_CLIENT_S_DN: x")
    assert b'"SSL_CLIENT_VERIFY": "NONE"' in text and b'"SSL_CLIENT_S_DN"' not in text


@one_way
@needs_curl
@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no unix sockets")
def test_unix_socket(serve, authority, tmp_path):
    """TLS on a unix socket, with settings of its own."""
    path = tmp_path / "s"
    other = authority.issue("other.test")
    server = serve(apps.environ_json, bind=f"https://unix:{path}?certificate={other.certificate}&key={other.key}")
    text = curl(server, authority, "--unix-socket", path, "https://other.test/")
    assert b'"SERVER_PORT": "443"' in text and b'"REMOTE_ADDR": ""' in text


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_resumed_session(serve, authority, tmp_path, version):
    """A session ticket is taken, with the client's certificate in it."""
    client = authority.issue(subject="/CN=somebody")
    server = serve(apps.environ_json, client_ca=authority.certificate, client_certificate="required")
    session = tmp_path / "session"
    flags = [version, "-cert", str(client.certificate), "-key", str(client.key), "-ign_eof"]
    request = [(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"SSL_CLIENT_S_DN")]
    assert b"\nNew, TLSv1" in s_client(server, authority, *flags, "-sess_out", str(session), steps=request)
    again = s_client(server, authority, *flags, "-sess_in", str(session), steps=request)
    assert b"\nReused, TLSv1" in again


@one_way
def test_renegotiation(serve, authority):
    """RFC 9325 3.5: a client's wish to begin again is refused."""
    server = serve()
    seen = s_client(server, authority, "-tls1_2", steps=[(b"", b"Verify return code"), (b"R\n", b"RENEGOTIATING")])
    assert b"no renegotiation" in seen


@one_way
def test_key_update(serve, authority):
    """RFC 8446 4.6.3: new keys are made when the client wants them, and requests go on."""
    steps = [(b"", b"Verify return code")]
    for _ in range(3):
        steps += [(b"K\n", b"KEYUPDATE"), (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"hello\n")]
    s_client(serve(), authority, "-tls1_3", steps=steps)


# What must be off


def probe(server, version=0x0303, suites=(), versions=(), compression=b"\0", record_version=0x0301):
    """
    Say hello by hand; return ("alert", number), ("hello", version, suite, compression) or ("closed",).

    Clients of today cannot offer what must be off: their libraries have forgotten it.
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
def test_what_is_on(serve):
    """Each suite that is on is taken alone; of several the first of ours; without compression."""
    server = serve()
    for suite in GOOD:
        assert probe(server, suites=[suite]) == ("hello", 0x0303, suite, 0)
        assert probe(server, suites=[0xC009, 0x002F, suite]) == ("hello", 0x0303, suite, 0)
    assert probe(server, suites=[0xCCA9, 0xC02B, 0xC02C]) == ("hello", 0x0303, 0xC02C, 0)
    assert probe(server, suites=[0xC02B], compression=b"\x01\0") == ("hello", 0x0303, 0xC02B, 0)
    for suite in (0x1301, 0x1302, 0x1303):
        assert probe(server, suites=[suite], versions=[0x0304]) == ("hello", 0x0304, suite, 0)


@one_way
def test_old_versions(serve):
    """RFC 8996, RFC 7568, RFC 6176: SSL 2 and 3, TLS 1.0 and 1.1 are not spoken, whatever else is offered."""
    server = serve()
    for version in (0x0302, 0x0301, 0x0300):
        suites = [*GOOD, 0xC009, 0xC00A, 0x002F, 0x0035]
        # Of SSL 3 OpenSSL says only that it failed: that alert is all that it knows.
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
def test_weak_suites(serve):
    """RFC 9325 4.1, 4.2: without encryption, authentication, forward secrecy or AEAD there is no connection."""
    server = serve()
    for suite, name in WEAK.items():
        assert probe(server, suites=[suite]) == ("alert", HANDSHAKE_FAILURE), name
    assert probe(server, suites=list(WEAK)) == ("alert", HANDSHAKE_FAILURE)
    server.wait_until_idle()


@one_way
def test_downgrade(serve):
    """RFC 7507: a client that was pushed back to an older version is told."""
    assert probe(serve(), suites=[0xC02B, 0x5600]) == ("alert", INAPPROPRIATE_FALLBACK)


@one_way
def test_only_tls_1_3(serve):
    """--tls-min 1.3 is that."""
    server = serve(tls_min="1.3")
    assert probe(server, suites=GOOD) == ("alert", PROTOCOL_VERSION)
    assert probe(server, suites=[0x1301], versions=[0x0304])[:2] == ("hello", 0x0304)


@one_way
def test_http_2_only(serve, authority):
    """RFC 7301 3.2: a client that offers only h2 gets the alert no_application_protocol."""
    server = serve()
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        MemorySocket(server, authority, protocols=["h2"])
    assert MemorySocket(server, authority, protocols=["h2", "http/1.1"]).alpn == "http/1.1"


@one_way
def test_why_a_handshake_failed(serve, authority, tmp_path, caplog, raw_client):
    """The log says what was wrong, in the words that docs/tls.md explains."""
    server = serve(client_ca=authority.certificate, client_certificate="required")
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


# The same as without TLS, on each way of serving


class MemorySocket:
    """A client that can close one direction, and keeps what has come from the socket."""

    def __init__(self, server, authority, sock=None, **settings):
        self._client = MemoryClient(authority, **settings)
        self.sock = sock or socket.create_connection(server.address, SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        try:
            while not self._client.shake_hands():
                self._send()
                self._recv()
            self._send()
        except BaseException:
            self.sock.close()
            raise

    @property
    def alpn(self):
        self.sock.close()
        return self._client.session.selected_alpn_protocol()

    def send(self, octets):
        self._client.session.write(octets)
        self._send()

    def close(self):
        self.sock.close()

    def read_to_end(self):
        """Return all that comes, up to the closure alert."""
        octets = bytearray()
        while True:
            try:
                piece = self._client.read()
            except ssl.SSLWantReadError:
                self._recv()
                continue
            if not piece:
                return octets
            octets += piece

    def _send(self):
        self.sock.sendall(self._client.outgoing.read())

    def _recv(self):
        piece = self.sock.recv(1 << 16)
        assert piece, "closed without a closure alert"
        self.received += piece
        self._client.incoming.write(piece)


def mixed(environ, start_response):
    """Answer /KIND in one of the forms that a response may have."""
    kind = environ["PATH_INFO"][1:]
    if kind == "file":
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    start_response("200 OK", [("Content-Length", "500000")] if kind == "pieces" else [])
    return {"small": [b"x"], "large": [bytes(1 << 20)], "pieces": (bytes(5000) for _ in range(100))}[kind]


@also_inline
def test_only_records(serve, authority):
    """Whatever the form of a response, and whoever sends it, all that is on the wire is records of TLS."""
    client = MemorySocket(serve(mixed), authority)
    kinds = ["small", "large", "file", "pieces"] * 3 + ["small"] * 50
    for number, kind in enumerate(kinds):
        close = "Connection: close\r\n" if number == len(kinds) - 1 else ""
        client.send(f"GET /{kind} HTTP/1.1\r\nHost: a\r\n{close}\r\n".encode())
    octets = client.read_to_end()
    client.sock.close()
    size = os.path.getsize(__file__)
    assert len(octets) > 3 * ((1 << 20) + 500_000 + size) and octets.count(b"HTTP/1.1 200 OK\r\n") == len(kinds)
    position = 0
    while position < len(client.received):
        assert client.received[position] in (20, 21, 22, 23) and client.received[position + 1] == 3
        position += 5 + int.from_bytes(client.received[position + 3 : position + 5], "big")
    assert position == len(client.received)


@also_inline
def test_kept_alive(serve, raw_client, tmp_path):
    """Requests follow one another on a connection: small, large, files, uploads, refused bodies and all."""
    body = os.urandom(3 << 20)
    client = raw_client(serve(apps.echo, body_memory_bytes=1 << 20))
    for _ in range(2):
        assert client.fetch(method="POST", body=b"small").body == b"small"
        assert client.fetch(method="POST", body=body).body == body
    client = raw_client(serve(mixed))
    for kind, size in {"small": 1, "large": 1 << 20, "file": os.path.getsize(__file__), "pieces": 500_000}.items():
        for _ in range(2):
            assert len(client.fetch(f"/{kind}").body) == size


@also_inline
def test_pipelined(serve, raw_client):
    """Pipelined requests are answered in order."""
    client = raw_client(serve(apps.environ_json))
    for number in range(100):
        client.request(f"/{number}")
    for number in range(100):
        assert client.recv_response().json()["PATH_INFO"] == f"/{number}"


def test_client_that_closes_its_side(serve, authority):
    """RFC 8446 6.1: a client that has said that it sends no more is still answered, and then the server closes, too."""
    gate = apps.Gate()
    server = serve(gate)
    client = MemorySocket(server, authority)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    gate.wait_entered()
    with pytest.raises(ssl.SSLWantReadError):
        client._client.session.unwrap()
    client._send()
    client.sock.shutdown(socket.SHUT_WR)
    gate.open(1)
    octets = b""
    while piece := client.sock.recv(1 << 16):
        octets += piece
    client.sock.close()
    assert len(octets) > 150  # records: this client cannot read them any more, but they came
    server.wait_until_idle()


def test_slow_reader(serve, raw_client):
    """A client that reads slowly gets everything; of a file and a large body not much is held for it."""
    for kind, size in {"large": 1 << 20, "file": os.path.getsize(__file__), "pieces": 500_000}.items():
        client = raw_client(serve(mixed), receive_buffer_bytes=4096)
        client.request(f"/{kind}")
        length = int(client.recv_head().get("Content-Length"))
        assert length == size
        for _ in range(10):
            client.recv_exactly(1000)
            time.sleep(0.002)
        client.recv_exactly(length - 10_000)


@also_inline
def test_client_that_vanishes(serve, raw_client):
    """A client that is gone within a handshake, a request or a response leaves nothing behind."""
    server = serve(mixed)
    for kind in ("large", "file", "pieces"):
        client = raw_client(server, receive_buffer_bytes=4096)
        client.request(f"/{kind}")
        client.recv_exactly(2000)
        client.reset()
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n")
    client.reset()
    for octets in (b"", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01"):
        sock = socket.create_connection(server.address, SECONDS)
        sock.sendall(octets)
        sock.close()
    server.wait_until_idle()


@also_inline
def test_truncation_is_seen(serve, raw_client):
    """What breaks off ends without a closure alert; what is complete with one, even where only the end says so."""
    client = raw_client(serve(apps.raises_mid_stream))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    with pytest.raises(client.Truncated) as caught:
        client.recv_response()
    assert caught.value.is_reset
    client = raw_client(serve(apps.lazy_generator))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.recv_response().body == b"made late"
    assert client.is_closed() and not client.is_reset


def test_refused_upload(serve, raw_client):
    """An answer that comes before the upload ends is not lost."""
    client = raw_client(serve(apps.echo, max_body_bytes=1000))
    client.request("/", f"Content-Length: {1 << 30}", method="POST")
    with contextlib.suppress(OSError):
        for _ in range(10):
            client.send(bytes(10_000))
    assert client.recv_response().status == 413


def test_drain(serve, raw_client, authority):
    """What runs is finished, with a closure alert; what is idle is closed; what has just come is still served."""
    gate = apps.Gate()
    server = serve(gate)
    busy, idle, new = raw_client(server), raw_client(server), MemorySocket(server, authority)
    begun = socket.create_connection(server.address, SECONDS)
    gate.open(1)
    idle.fetch()
    gate.wait_entered()
    busy.request()
    gate.wait_entered()
    server.wait_until_known(4)
    server.begin_drain()
    assert idle.is_closed() and not idle.is_reset
    gate.open(3)
    assert busy.recv_response().get("Connection") == "close"
    assert busy.recv_to_end() == b""
    new.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"\r\nConnection: close\r\n" in new.read_to_end()
    late = MemorySocket(server, authority, sock=begun)
    late.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert late.read_to_end().startswith(b"HTTP/1.1 200 OK")
    for client in (busy, idle, new, late):
        client.close()
    server.stop()
    assert server.is_clean


@pytest.mark.both_loops
async def test_queued_when_the_drain_begins(tls_settings, authority):
    """A client that the kernel has queued is served, too, in TLS."""

    async def run():
        async with aserve.Server(apps.hello, **tls_settings, threads=1) as server:
            address = server.addresses[0]
            sock = socket.create_connection(address, SECONDS)
            thread = threading.Thread(target=talk, args=(address, sock), daemon=True)
            thread.start()
            assert await server.drain()
            thread.join(SECONDS)

    def talk(address, sock):
        client = MemorySocket(types.SimpleNamespace(address=address), authority, sock=sock)
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answers.append(client.read_to_end())
        client.close()

    answers = []
    await run()
    assert answers[0].endswith(b"\r\n\r\nhello\n")


@one_way
def test_the_lane_is_not_taken(serve, raw_client):
    """The lane, which sends and receives octets as they are, has no part in it."""
    server = serve(lane="auto", threads=8, bind=["https://127.0.0.1:0", "127.0.0.1:0"])
    with contextlib.closing(raw_client(server)) as client:
        assert client.fetch().status == 200
        assert server.statistics().connections_in_lane == 0 and server.statistics().connections_open == 1
    with contextlib.closing(raw_client(server.server.addresses[1])) as client:
        assert client.fetch().status == 200
        assert server.statistics().connections_in_lane == lib.lane_available()


@one_way
@needs_curl
def test_behind_a_trusted_proxy(serve, authority):
    """Fields of a proxy that speaks TLS to us are believed as they are without."""
    fields = ["-H", "X-Forwarded-For: 203.0.113.9", "-H", "X-Forwarded-Proto: http"]
    text = curl(serve(apps.environ_json), authority, *fields)
    assert b'"REMOTE_ADDR": "127.0.0.1"' in text and b'"wsgi.url_scheme": "https"' in text
    assert b"HTTP_X_FORWARDED" not in text
    text = curl(serve(apps.environ_json, trusted_proxies="127.0.0.1"), authority, *fields)
    assert b'"REMOTE_ADDR": "203.0.113.9"' in text and b'"wsgi.url_scheme": "http"' in text
    assert b'"HTTPS"' not in text


# Who does not speak TLS, or not well


def test_plain_http(serve, raw_client, caplog):
    """Plain HTTP is told so, once, in the log and to the client."""
    server = serve()
    client = raw_client(server.address)
    reply = client.fetch()
    assert reply.status == 400 and b"https://" in reply.body
    assert client.is_closed()
    client.close()
    assert caplog.text.count("HTTP without TLS came to a TLS port") == 1
    server.wait_until_idle()


def test_handshakes_take_their_time(serve, caplog):
    """Those that do not end are cut."""
    server = serve(head_seconds=0.1)
    socks = [socket.create_connection(server.address, SECONDS) for _ in range(3)]
    socks[1].sendall(b"\x16\x03")
    socks[2].sendall(b"\x16\x03\x01\x00\xc8\x01")
    for sock in socks:
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
        sock.close()
    server.wait_until_idle()
    assert caplog.text.count("--head-timeout") == 2


def test_broken_records_are_nobody_elses(serve, authority, raw_client, caplog):
    """A client's garbage ends its own connection, and no other."""
    server = serve()
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


# Certificates that change


def put(source, certificate, key):
    """Copy a certificate and key over others, each at once."""
    for path, name in ((certificate, "certificate"), (key, "key")):
        temporary = path.with_suffix(".new")
        shutil.copy(getattr(source, name), temporary)
        os.replace(temporary, path)


@pytest.fixture
def files(localhost, tmp_path):
    """Return the paths of a certificate and its key that may be changed."""
    paths = tmp_path / "used.pem", tmp_path / "used.key"
    put(localhost, *paths)
    return paths


def serial_of(server, authority):
    """Return the serial number of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    sock = socket.create_connection(server.address, SECONDS)
    with context.wrap_socket(sock, server_hostname="localhost") as secure:
        return secure.getpeercert()["serialNumber"]


def test_reload_under_load(serve, authority, localhost, files, raw_client):
    """While certificates change, good and bad, no request fails, on old connections and new."""
    server = serve(certificate=files[0], key=files[1])
    others = [authority.issue("localhost", "127.0.0.1") for _ in range(3)]
    is_over = threading.Event()
    counts, faults = [0] * 4, []

    def load(number):
        try:
            old = raw_client(server)
            while not is_over.is_set():
                new = raw_client(server)
                for client in (old, new):
                    assert client.fetch().body == b"hello\n"
                    counts[number] += 1
                new.close()
            assert old.fetch().body == b"hello\n"
            old.close()
        except BaseException as exc:
            faults.append(exc)

    threads = [threading.Thread(target=load, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    serials = set()
    for number in range(12):
        put(others[number % 3], *files)
        if number % 4 == 3:
            files[1].write_text("broken")
        assert server.call(server.server.reload_certificates) == (number % 4 != 3)
        serials.add(serial_of(server, authority))
        floor = sum(counts) + 8
        deadline = time.monotonic() + SECONDS
        while sum(counts) < floor and not faults and time.monotonic() < deadline:
            time.sleep(0.002)
    is_over.set()
    for thread in threads:
        thread.join(SECONDS)
    assert not faults and all(counts)
    assert len(serials) == 3


def test_reload_by_signal_and_by_change(start_process, authority, files, wait_until):
    """SIGHUP loads anew at once, and a change of the files by itself; a mistake leaves all as it is."""
    process = start_process(
        "hello", f"--bind=https://127.0.0.1:0?certificate={files[0]}&key={files[1]}", "--log-level=info"
    )
    server = types.SimpleNamespace(address=("127.0.0.1", int(process.wait_for_log(r"https://127.0.0.1:(\d+)\n")[1])))
    first = serial_of(server, authority)
    put(authority.issue("localhost", "127.0.0.1"), *files)
    process.signal(signal.SIGHUP)
    process.wait_for_log("certificates loaded anew")
    second = serial_of(server, authority)
    put(authority.issue("localhost", "127.0.0.1"), *files)
    third = wait_until(lambda: {serial_of(server, authority)} - {second}, SECONDS).pop()
    assert len({first, second, third}) == 3
    files[1].unlink()
    process.signal(signal.SIGHUP)
    process.wait_for_log(r"ERROR +TLS: cannot read the key .*; going on with what was loaded before")
    assert serial_of(server, authority) == third
    process.signal()
    assert process.wait() == 0
    assert "Traceback" not in process.log


@needs_curl
@pytest.mark.checkout
def test_the_page(start_process, tmp_path):
    """What docs/tls.md says first works as it stands; its other blocks are understood."""
    page = (pathlib.Path(__file__).parent.parent.parent / "docs/tls.md").read_text()
    shell = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    make, serve, fetch = shell[0].splitlines()
    subprocess.run(make, shell=True, cwd=tmp_path, check=True, capture_output=True, timeout=SECONDS)
    process = start_process("hello", *serve.replace(":8443", ":0").split()[1:])
    port = process.wait_for_log(r"https://127.0.0.1:(\d+)")[1]
    command = fetch.replace("8443", port).split()
    assert subprocess.check_output([*command, "--max-time", str(SECONDS)], cwd=tmp_path) == b"hello\n"
    (tmp_path / "pyproject.toml").write_text(re.search(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1])
    assert [option for bind in Config.from_sources({}, {}, read_toml(str(tmp_path / "pyproject.toml"))).bind
            for option in parse_bind(bind).options][-1] == ("tls-min", "1.3")  # fmt: skip
    for line in "".join(shell[1:]).splitlines():
        words = cli._parse_args(shlex.split(line)[1:])
        assert all(parse_bind(bind).protocol == "https" for bind in words["bind"])
        Config(**words)


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
@pytest.mark.parametrize("path", ["/", "/file?30000"])
def test_wrk(start_process, localhost, path):
    """A second of wrk: many connections, not one error."""
    process = start_process(
        "site", "--bind=https://127.0.0.1:0", f"--certificate={localhost.certificate}", f"--key={localhost.key}"
    )
    url = process.wait_for_log(r"https://[\d.:]+")[0]
    command = ["wrk", "--duration", "1", "--threads", "1", "--connections", "16", url + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "Socket errors" not in done.stdout and "Non-2xx" not in done.stdout, done.stdout
    assert int(re.search(r"(\d+) requests in", done.stdout)[1]) > 20
    process.signal()
    assert process.wait() == 0
    assert "Traceback" not in process.log and "TLS failed" not in process.log
