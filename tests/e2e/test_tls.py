"""TLS on real sockets: curl, openssl and Python as clients, and the same behaviour as without TLS."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import threading
import time
import types

import pytest
from harness import apps
from harness.interpreter import first_on_pypy, later_on_pypy
from harness.tls_clients import SECONDS, MemorySocket, curl, s_client

import aserve
from aserve.command import flags
from aserve.features import Config
from aserve.settings import parse_bind, read_toml

pytestmark = [pytest.mark.any_parser]
also_inline = pytest.mark.also_inline
one_way = pytest.mark.one_way
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


# Clients


@needs_curl
@pytest.mark.parametrize("flags", first_on_pypy([[], ["--tls-max", "1.2"], ["--http1.0"], ["--no-alpn"]]))
def test_curl_is_served_over_tls(serve_tls, authority, flags):
    """curl is served, with HTTP/1.1 by ALPN and without."""
    what = "\n%{http_code} %{http_version} %{scheme}"
    assert curl(serve_tls(http2="off"), authority, "-w", what, *flags).decode().lower().startswith("hello\n\n200 1.")


@pytest.mark.long_on_pypy
@one_way
@needs_curl
def test_each_name_has_its_certificate(serve_tls, authority):
    issued = {name: authority.issue(name) for name in ("a.test", "*.b.test")}
    sni = [f"{name}={files.certificate}:{files.key}" for name, files in issued.items()]
    server = serve_tls(sni=sni)
    port = server.address[1]
    for name, status in {"a.test": 0, "x.b.test": 0, "b.test": 60, "c.test": 60}.items():
        url = f"https://{name}:{port}/"
        assert curl(server, authority, "--resolve", f"{name}:{port}:127.0.0.1", url, check=False) == status, name


@one_way
@needs_curl
def test_the_app_sees_client_certificates(serve_tls, authority):
    """The app sees the client's identity; a client without a certificate is not served."""
    client = authority.issue(subject="/O=Test/CN=somebody")
    server = serve_tls(apps.environ_json, client_ca=authority.certificate, client_certificate="required")
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
def test_no_client_can_say_it_by_itself(serve_tls, authority):
    """A header field does not become a variable of TLS."""
    text = curl(serve_tls(apps.environ_json), authority, "-H", "SSL-Client-Verify: SUCCESS", "-H", "SSL_CLIENT_S_DN: x")
    assert b'"SSL_CLIENT_VERIFY": "NONE"' in text and b'"SSL_CLIENT_S_DN"' not in text


@one_way
@needs_curl
@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no unix sockets")
def test_tls_on_a_unix_socket(serve_tls, authority, tmp_path):
    path = tmp_path / "s"
    other = authority.issue("other.test")
    server = serve_tls(apps.environ_json, bind=f"https://unix:{path}?certificate={other.certificate}&key={other.key}")
    text = curl(server, authority, "--unix-socket", path, "https://other.test/")
    assert b'"SERVER_PORT": "443"' in text and b'"REMOTE_ADDR": ""' in text


@pytest.mark.parametrize("version", [later_on_pypy("-tls1_2"), "-tls1_3"])
def test_a_session_ticket_is_taken(serve_tls, authority, tmp_path, version):
    client = authority.issue(subject="/CN=somebody")
    server = serve_tls(apps.environ_json, client_ca=authority.certificate, client_certificate="required")
    session = tmp_path / "session"
    flags = [version, "-cert", str(client.certificate), "-key", str(client.key), "-ign_eof"]
    request = [(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"SSL_CLIENT_S_DN")]
    assert b"\nNew, TLSv1" in s_client(server, authority, *flags, "-sess_out", str(session), steps=request)
    again = s_client(server, authority, *flags, "-sess_in", str(session), steps=request)
    assert b"\nReused, TLSv1" in again


@one_way
def test_renegotiation_is_refused_always(serve_tls, authority):
    """RFC 9325 3.5: a client's wish to begin again is refused."""
    server = serve_tls()
    seen = s_client(server, authority, "-tls1_2", steps=[(b"", b"Verify return code"), (b"R\n", b"RENEGOTIATING")])
    assert b"no renegotiation" in seen


@one_way
def test_a_key_update_is_obeyed(serve_tls, authority):
    """RFC 8446 4.6.3: new keys are made at the client's wish, and requests go on."""
    steps = [(b"", b"Verify return code")]
    for _ in range(3):
        steps += [(b"K\n", b"KEYUPDATE"), (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"hello\n")]
    s_client(serve_tls(), authority, "-tls1_3", steps=steps)


# The same as without TLS, on each way of serving


def mixed(environ, start_response):
    """Answer /KIND in one form of a response."""
    kind = environ["PATH_INFO"][1:]
    if kind == "file":
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    start_response("200 OK", [("Content-Length", "500000")] if kind == "pieces" else [])
    return {"small": [b"x"], "large": [bytes(1 << 20)], "pieces": (bytes(5000) for _ in range(100))}[kind]


@also_inline
def test_only_records_are_on_the_wire(serve_tls, authority):
    """Whatever the form of a response, and its sender, the wire has only records of TLS."""
    client = MemorySocket(serve_tls(mixed), authority)
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
def test_requests_follow_on_one_connection(serve_tls, raw_client, tmp_path):
    """Requests follow one another on a connection: small, large, files, uploads, refused bodies and all."""
    body = os.urandom(3 << 20)
    client = raw_client(serve_tls(apps.echo, body_memory_bytes=1 << 20))
    for _ in range(2):
        assert client.fetch(method="POST", body=b"small").body == b"small"
        assert client.fetch(method="POST", body=body).body == body
    client = raw_client(serve_tls(mixed))
    for kind, size in {"small": 1, "large": 1 << 20, "file": os.path.getsize(__file__), "pieces": 500_000}.items():
        for _ in range(2):
            assert len(client.fetch(f"/{kind}").body) == size


@also_inline
def test_pipelined_requests_are_answered_in_order(serve_tls, raw_client):
    client = raw_client(serve_tls(apps.environ_json))
    for number in range(100):
        client.request(f"/{number}")
    for number in range(100):
        assert client.recv_response().json()["PATH_INFO"] == f"/{number}"


def test_client_that_closes_its_side(serve_tls, authority):
    """RFC 8446 6.1: a client that has announced its last octet is still answered, and then the server closes, too."""
    gate = apps.Gate()
    server = serve_tls(gate)
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


def test_a_slow_reader_gets_everything(serve_tls, raw_client):
    """A slow reader gets everything; little of a file or large body is held for it."""
    for kind, size in {"large": 1 << 20, "file": os.path.getsize(__file__), "pieces": 500_000}.items():
        client = raw_client(serve_tls(mixed), receive_buffer_bytes=4096)
        client.request(f"/{kind}")
        length = int(client.recv_head().get("Content-Length"))
        assert length == size
        for _ in range(10):
            client.recv_exactly(1000)
            time.sleep(0.002)
        client.recv_exactly(length - 10_000)


@also_inline
def test_client_that_vanishes(serve_tls, raw_client):
    """A client that vanishes within a handshake, a request or a response leaves nothing behind."""
    server = serve_tls(mixed)
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
def test_truncation_is_seen(serve_tls, raw_client):
    """A broken-off response ends without a closure alert; a complete one with an alert, even where only the end says so."""
    client = raw_client(serve_tls(apps.raises_mid_stream))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    with pytest.raises(client.Truncated) as caught:
        client.recv_response()
    assert caught.value.is_reset
    client = raw_client(serve_tls(apps.lazy_generator))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.recv_response().body == b"made late"
    assert client.is_closed() and not client.is_reset


def test_an_early_refusal_is_not_lost(serve_tls, raw_client):
    client = raw_client(serve_tls(apps.echo, max_body_bytes=1000))
    client.request("/", f"Content-Length: {1 << 30}", method="POST")
    with contextlib.suppress(OSError):
        for _ in range(10):
            client.send(bytes(10_000))
    assert client.recv_response().status == 413


def test_a_drain_finishes_what_runs(serve_tls, raw_client, authority):
    """A running request is finished, with a closure alert; idle connections are closed; a request just received is still served."""
    gate = apps.Gate()
    server = serve_tls(gate)
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
    """A client in the kernel's queue is served, too, in TLS."""

    def talk(address, sock):
        client = MemorySocket(types.SimpleNamespace(address=address), authority, sock=sock)
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answers.append(client.read_to_end())
        client.close()

    answers = []
    async with aserve.Server(apps.hello, **tls_settings, threads=1) as server:
        address = server.addresses[0]
        sock = socket.create_connection(address, SECONDS)
        thread = threading.Thread(target=talk, args=(address, sock), daemon=True)
        thread.start()
        assert await server.drain()
        thread.join(SECONDS)
    assert answers[0].endswith(b"\r\n\r\nhello\n")


@one_way
@needs_curl
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_behind_a_trusted_proxy(serve_tls, authority, version):
    """Fields of a proxy that speaks TLS to us are believed as without TLS."""
    fields = [version, "-H", "X-Forwarded-For: 203.0.113.9", "-H", "X-Forwarded-Proto: http"]
    text = curl(serve_tls(apps.environ_json), authority, *fields)
    assert b'"REMOTE_ADDR": "127.0.0.1"' in text and b'"wsgi.url_scheme": "https"' in text
    assert b"HTTP_X_FORWARDED" not in text
    text = curl(serve_tls(apps.environ_json, trusted_proxies="127.0.0.1"), authority, *fields)
    assert b'"REMOTE_ADDR": "203.0.113.9"' in text and b'"wsgi.url_scheme": "http"' in text
    assert b'"HTTPS"' not in text


# The command, by the page


@pytest.mark.long_on_pypy
@needs_curl
@pytest.mark.checkout
def test_the_page_works_as_it_stands(start_process, tmp_path):
    """The first commands of docs/tls.md work as they stand; its other blocks are understood."""
    page = (pathlib.Path(__file__).parent.parent.parent / "docs/tls.md").read_text()
    shell = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    make, serve, fetch = shell[0].splitlines()
    subprocess.run(make, shell=True, cwd=tmp_path, check=True, capture_output=True, timeout=SECONDS)
    process = start_process("hello", *serve.replace(":8443", ":0").split()[2:])
    port = process.wait_for_log(r"https://127.0.0.1:(\d+)")[1]
    command = fetch.replace("8443", port).split()
    assert subprocess.check_output([*command, "--max-time", str(SECONDS)], cwd=tmp_path) == b"hello\n"
    (tmp_path / "pyproject.toml").write_text(re.search(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1])
    assert [option for bind in Config.from_sources({}, {}, read_toml(str(tmp_path / "pyproject.toml"))).bind
            for option in parse_bind(bind).options][-1] == ("tls-min", "1.3")  # fmt: skip
    for line in "".join(shell[1:]).splitlines():
        words = flags.parse_args(shlex.split(line)[1:])
        assert all(parse_bind(bind).protocol == "https" for bind in words["bind"])
        Config(**{name: value for name, value in words.items() if name != "app"})
