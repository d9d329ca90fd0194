"""HTTP/2 without TLS (--http2 h2c): the operator's proxies may begin with HTTP/2."""

import contextlib
import json
import signal

import httpx
import pytest
from harness import apps
from harness.http2 import request
from harness.http2_client import CleartextClient
from harness.http2_frames import PREFACE, SETTINGS, frame
from harness.tls_clients import SECONDS

pytestmark = [pytest.mark.any_parser]

FRONTS = {
    "haproxy": """\
frontend front
    mode http
    bind :80
    option forwardfor
    default_backend app
backend app
    mode http
    server app {address} proto h2
""",
    "caddy": """\
:80 {
    reverse_proxy h2c://{address}
}
""",
    "apache": """\
<VirtualHost *:80>
    ProxyPass "/" "h2c://{address}/"
</VirtualHost>
""",
}


def serve(start_server, trusted="127.0.0.1", **settings):
    """Start a server that tells its environ."""
    return start_server(apps.environ_json, http2="h2c", trusted_proxies=trusted, **settings)


@pytest.mark.also_inline
def test_a_trusted_client(start_server):
    """A trusted client may begin with HTTP/2, or with HTTP/1.1; its word on its own client counts in both."""
    server = serve(start_server)
    for http2 in (True, False):
        with httpx.Client(http1=not http2, http2=http2, base_url=server.url, timeout=SECONDS) as client:
            for _ in range(3):
                found = client.get("/a?b", headers={"X-Forwarded-For": "203.0.113.7"}).json()
                assert found["SERVER_PROTOCOL"] == ("HTTP/2.0" if http2 else "HTTP/1.1")
                assert found["REMOTE_ADDR"] == "203.0.113.7" and found["wsgi.url_scheme"] == "http"
            assert client.post("/", content=b"x" * 300_000).json()["CONTENT_LENGTH"] == "300000"


@pytest.mark.also_inline
@pytest.mark.parametrize("is_first", [True, False])
def test_others_get_a_505(start_server, raw_client, is_first):
    """An untrusted peer gets a 505, and so does a trusted peer after a request."""
    server = serve(start_server, "203.0.113.1" if is_first else "127.0.0.1")
    client = raw_client(server)
    if not is_first:
        assert client.fetch().status == 200
    client.send(PREFACE)
    response = client.recv_response()
    assert response.status == 505 and b"--http2 h2c" in response.body


def test_a_preface_in_pieces(start_server, raw_client):
    """The server's settings come once the preface is whole, however slow."""
    client = raw_client(serve(start_server))
    for octet in PREFACE:
        client.send(bytes([octet]))
    client.send(frame(SETTINGS, 0, 0))
    assert client.recv_exactly(9)[3] == SETTINGS


@pytest.mark.one_way
@pytest.mark.parametrize("name", [*FRONTS])
def test_real_proxies_speak_http_2_to_aserve(start_server, fronts, name):
    """HAProxy, Caddy and Apache speak h2c to aserve, and HTTP/1.1 to their clients."""
    server = serve(start_server)
    front = getattr(fronts, name)(FRONTS[name].replace("{address}", "%s:%d" % server.address))
    for _ in range(3):
        status, _, body = front.fetch("/a", "POST", b"x" * 100_000)
        found = json.loads(body)
        assert status == 200 and found["SERVER_PROTOCOL"] == "HTTP/2.0" and found["CONTENT_LENGTH"] == "100000"
        assert found["PATH_INFO"] == "/a" and found["REMOTE_ADDR"] == "127.0.0.1"


@pytest.mark.one_way
def test_a_unix_socket(start_server, tmp_path):
    """Each peer of a unix socket is trusted, if the setting says so."""
    path = str(tmp_path / "s")
    serve(start_server, "unix", bind=f"unix:{path}")
    with httpx.Client(transport=httpx.HTTPTransport(uds=path, http1=False, http2=True), timeout=SECONDS) as client:
        assert client.get("http://a/").json()["SERVER_PROTOCOL"] == "HTTP/2.0"


def test_a_reload_ends_connections_that_idle(start_workers):
    """A proxy's connection gets its last answer, GOAWAY and the end: no other process could go on with its state."""
    process = start_workers("--workers", "1", "--http2", "h2c", "--trusted-proxies", "127.0.0.1", app="one")
    process.wait_for_workers(1)
    with contextlib.closing(CleartextClient(process.address)) as client:
        assert client.bodies(client.ask(request(b"GET", b"/")))[0].startswith(b"one")
        process.write_app("two")
        process.signal(signal.SIGHUP)
        client.recv_to_end()
        assert [code for _, code in client.goaways] == [0, 0]
    with contextlib.closing(CleartextClient(process.address)) as client:
        assert client.bodies(client.ask(request(b"GET", b"/")))[0].startswith(b"two")
