"""The client of a request: no word of a client is believed, every word of a named proxy is."""

import json
import os
import signal
import struct

import pytest
from harness import apps, sidecars

from aserve import rpc
from aserve.core.errors import BindError
from aserve.proxies import peers as peers_module

pytestmark = pytest.mark.long_on_pypy

FIELDS = [
    "Forwarded: for=1.2.3.4;host=evil;proto=https",
    "X-Forwarded-For: 1.2.3.4",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: evil",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Prefix: /evil",
    "X-Forwarded-Ssl: on",
    "X-Forwarded-User: root",
    "X-Real-IP: 1.2.3.4",
]
TWINS = [line.replace("-", "_", line.partition(":")[0].count("-")) for line in FIELDS[1:]]
ALL = "x-forwarded-for,x-forwarded-proto,x-forwarded-host,x-forwarded-port,x-forwarded-prefix"
V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([203, 0, 113, 8, 198, 51, 100, 2]) + struct.pack("!HH", 1234, 8443)
V1 = b"PROXY TCP4 203.0.113.7 198.51.100.2 4711 443\r\n"
GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"


def shown(environ):
    """Return the facts of client and server, in one line."""
    names = ("REMOTE_ADDR", "wsgi.url_scheme", "HTTP_HOST", "SERVER_PORT", "SCRIPT_NAME")
    return " ".join(environ.get(name) or "-" for name in names)


# Nobody is believed


@pytest.mark.plain
@pytest.mark.also_inline
@pytest.mark.parametrize("settings", [{}, {"trusted_proxies": "10.0.0.0/8, ::1, unix", "forwarded_fields": ALL}])
def test_nothing_of_a_client_is_believed(start_server, raw_client, caplog, settings):
    """Neither a proxy's field about the client nor the twin with underscores reaches the app."""
    server = start_server(apps.environ_json, **settings)
    client = raw_client(server)
    plain = client.fetch().json()
    for body in (b"", b"x=y"):
        environ = client.fetch(
            "/", *FIELDS, *TWINS, "X-Custom: kept", method="POST" if body else "GET", body=body
        ).json()
        names = {name for name in environ if name.startswith("HTTP_")}
        assert names == {"HTTP_HOST", "HTTP_X_CUSTOM"}
        assert shown(environ) == shown(plain) == f"127.0.0.1 http test {server.address[1]} -"
        assert environ["REMOTE_PORT"] == plain["REMOTE_PORT"] == str(client.sock.getsockname()[1])
        assert "HTTPS" not in environ
    said = [record.getMessage() for record in caplog.records if "(said once)" in record.getMessage()]
    assert all(server.url in text for text in said)
    removed, dropped = sorted(said, key=lambda text: "--trusted-proxies" not in text)
    assert "--trusted-proxies" in removed and "X_FORWARDED_FOR" in dropped.upper()


CLAIM, CLAIM_TWIN = "OIDC_CLAIM_sub: ada", "oidc-claim-sub: root"


@pytest.mark.also_inline
@pytest.mark.parametrize("lane", ["auto", "off"])
@pytest.mark.parametrize(
    ("proxies", "sent", "found"),
    [
        ("127.0.0.1", [CLAIM], "ada"),
        ("127.0.0.1", [CLAIM, CLAIM_TWIN], "ada"),
        ("127.0.0.1", [CLAIM_TWIN, "oidc-claim_sub: root", CLAIM_TWIN], None),
        ("10.0.0.1", [CLAIM], None),
        ("10.0.0.1", [CLAIM_TWIN, CLAIM], None),
    ],
)
def test_fields_with_underscores(start_server, raw_client, lane, proxies, sent, found):
    """Named fields reach the app from a trusted proxy alone, and their twins with hyphens from nobody at all."""
    settings = {"trusted_proxies": proxies, "underscore_fields": "oidc_claim_sub", "forwarded_fields": ALL}
    client = raw_client(start_server(apps.environ_json, lane=lane, **settings))
    for body in (b"", b"x=y"):
        environ = client.fetch(
            "/", *sent, "X_Other: 1", "X-Custom: kept", method="POST" if body else "GET", body=body
        ).json()
        assert environ.get("HTTP_OIDC_CLAIM_SUB") == found
        assert {name for name in environ if name.startswith("HTTP_")} - {"HTTP_OIDC_CLAIM_SUB"} == {
            "HTTP_HOST", "HTTP_X_CUSTOM",
        }  # fmt: skip


# Proxies are believed


@pytest.mark.plain
@pytest.mark.parametrize("proxies", [None, "127.0.0.1"])
def test_ipv4_on_a_socket_of_both_families(start_server, raw_client, proxies):
    """A client of IPv4 has an IPv4 address on [::] as well: for the app, and among proxies."""
    try:
        server = start_server(apps.environ_json, bind="[::]:0", trusted_proxies=proxies or (), forwarded_fields=ALL)
    except BindError:
        pytest.skip("there is no IPv6 here")
    try:
        client = raw_client(("127.0.0.1", server.address[1]))
    except ConnectionRefusedError:
        pytest.skip("net.ipv6.bindv6only is set here")
    environ = client.fetch("/", "X-Forwarded-For: 203.0.113.7").json()
    assert environ["REMOTE_ADDR"] == ("203.0.113.7" if proxies else "127.0.0.1")


@pytest.mark.plain
@pytest.mark.also_inline
def test_a_proxy_is_believed(start_server, raw_client):
    """Each request on a proxy's connection has one client; a request without fields is the proxy's."""
    server = start_server(apps.environ_json, trusted_proxies="127.0.0.0/8", forwarded_fields=ALL)
    client = raw_client(server)
    port = server.address[1]
    for number in range(3):
        address = f"203.0.113.{number}"
        environ = client.fetch(
            f"/x{number}", f"X-Forwarded-For: 1.2.3.4, {address}, 127.0.0.2", "X-Forwarded-Proto: https",
            "X-Forwarded-Host: www.example", "X-Forwarded-Prefix: /app", "Forwarded: for=1.2.3.4",
        ).json()  # fmt: skip
        assert shown(environ) == f"{address} https www.example 443 /app"
        assert environ["HTTPS"] == "on" and environ["PATH_INFO"] == f"/x{number}"
        assert environ["HTTP_X_FORWARDED_FOR"] == f"{address}, 127.0.0.2" and "HTTP_FORWARDED" not in environ
        assert shown(client.fetch().json()) == f"127.0.0.1 http test {port} -"


def test_pipelined_clients_are_not_confused(start_server, raw_client):
    server = start_server(apps.environ_json, trusted_proxies="127.0.0.1")
    client = raw_client(server)
    addresses = [f"203.0.113.{number}" for number in range(1, 13)]
    for address in addresses:
        client.request("/", f"X-Forwarded-For: {address}")
        client.request("/")
    for address in addresses:
        assert client.recv_response().json()["REMOTE_ADDR"] == address
        assert client.recv_response().json()["REMOTE_ADDR"] == "127.0.0.1"


@pytest.mark.plain
@pytest.mark.parametrize("body", ["buffer", "stream"])
def test_with_a_body(start_server, raw_client, body):
    """A request with a body is believed like another, whichever way the body comes."""

    def app(environ, start_response):
        data = environ["wsgi.input"].read()
        start_response("200 OK", apps.PLAIN)
        return [environ["REMOTE_ADDR"].encode(), b" ", environ["wsgi.url_scheme"].encode(), b" ", data]

    server = start_server(app, trusted_proxies="*", forwarded_fields="forwarded", body=body)
    client = raw_client(server)
    for number in range(3):
        field = f'Forwarded: for="[2001:db8::{number + 1}]:80";proto=https'
        reply = client.fetch("/", field, method="POST", body=b"hello")
        assert reply.body == f"2001:db8::{number + 1} https hello".encode()
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nForwarded: for=203.0.113.7\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    )
    client.send(b"0\r\n\r\n")
    assert client.recv_response().body == b"203.0.113.7 http hello"


@pytest.mark.also_inline
def test_a_proxy_s_fault(start_server, raw_client):
    """A proxy's unreadable field is a 400 with the reason, and the connection goes on."""
    server = start_server(apps.environ_json, trusted_proxies="127.0.0.1")
    client = raw_client(server)
    reply = client.fetch("/", "X-Forwarded-For: 203.0.113.7, nonsense")
    assert reply.status == 400 and b"X-Forwarded-For" in reply.body and b"'nonsense'" in reply.body
    assert client.fetch("/", "X-Forwarded-For: nonsense, 203.0.113.7").json()["REMOTE_ADDR"] == "203.0.113.7"


def test_the_access_log(start_server, raw_client, tmp_path):
    """The log shows the believed client, also of a request unseen by the app."""
    path = tmp_path / "access.log"
    server = start_server(apps.hello, trusted_proxies="127.0.0.1", access_log=str(path), max_body_bytes=10)
    client = raw_client(server)
    for number in range(3):
        client.fetch("/", f"X-Forwarded-For: 1.2.3.4, 203.0.113.{number}")
    client.fetch("/")
    assert client.fetch("/", "X-Forwarded-For: nonsense").status == 400
    assert client.fetch("/", "X-Forwarded-For: 203.0.113.9", method="POST", body=b"x" * 11).status == 413
    server.stop()
    # A worker notes the exchange when the response is out: the line of the next may be earlier.
    lines = sorted((line.split()[0], line.split('"')[2].split()[0]) for line in path.read_text().splitlines())
    assert lines == [
        ("127.0.0.1", "200"),
        ("127.0.0.1", "400"),
        ("203.0.113.0", "200"),
        ("203.0.113.1", "200"),
        ("203.0.113.2", "200"),
        ("203.0.113.9", "413"),
    ]


@pytest.mark.one_way
@pytest.mark.skipif(peers_module.SO_PEERCRED is None, reason="only Linux tells who is at the other end")
@pytest.mark.parametrize(
    ("proxies", "is_believed"),
    [
        ("127.0.0.1", False),
        ("unix", True),
        (f"unix:uid={os.geteuid()}", True),
        (f"unix:gid={os.getegid()}", True),
        (f"unix:uid={os.geteuid() + 1},unix:gid={os.getegid() + 1}", False),
    ],
)
def test_a_unix_socket(start_server, raw_client, tmp_path, proxies, is_believed):
    """A peer on a unix socket is believed if all are, or by user or group."""
    server = start_server(apps.environ_json, bind=f"unix:{tmp_path}/a.sock", trusted_proxies=proxies)
    client = raw_client(server)
    for _ in range(2):
        environ = client.fetch("/", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https").json()
        assert environ["REMOTE_ADDR"] == ("203.0.113.7" if is_believed else "")
        assert environ["wsgi.url_scheme"] == ("https" if is_believed else "http")


@pytest.mark.one_way
def test_a_front_server_is_believed_word_for_word(start_server, raw_client):
    """Over uwsgi no field is taken out: the front server's configuration decides."""
    vars = {"REQUEST_METHOD": "GET", "REMOTE_ADDR": "203.0.113.7", "HTTP_X_FORWARDED_FOR": "1.2.3.4", "PATH_INFO": "/"}
    for settings in ({}, {"trusted_proxies": "*"}):
        client = raw_client(start_server(apps.environ_json, bind="uwsgi://127.0.0.1:0", **settings))
        client.send(sidecars.uwsgi(vars))
        environ = json.loads(client.recv_to_end().partition(b"\r\n\r\n")[2])
        assert (environ["REMOTE_ADDR"], environ["HTTP_X_FORWARDED_FOR"]) == ("203.0.113.7", "1.2.3.4")


def test_routes_see_the_announced_client(start_server, raw_client, monkeypatch):
    """A route's function sees the client, too."""
    monkeypatch.setattr(rpc.registry, "_functions", {})
    rpc.register("who", lambda address: b"you are " + address)
    server = start_server(apps.hello, trusted_proxies="127.0.0.1", route=["^/who rpc who:${REMOTE_ADDR}"])
    client = raw_client(server)
    assert client.fetch("/who", "X-Forwarded-For: 203.0.113.7").body == b"you are 203.0.113.7"
    assert client.fetch("/who", "X-Forwarded-For: 203.0.113.8", method="POST", body=b"x").body == b"you are 203.0.113.8"


# The PROXY protocol


@pytest.fixture
def proxied(start_server):
    """Start a server listening for balancers: proxied(app=environ_json, proxies="127.0.0.1", **settings)."""

    def start(app=apps.environ_json, proxies="127.0.0.1", **settings):
        return start_server(app, bind="proxy+http://127.0.0.1:0", trusted_proxies=proxies, **settings)

    return start


@pytest.mark.also_inline
@pytest.mark.parametrize(
    ("header", "says"), [(V1, ("203.0.113.7", "4711", "443")), (V2, ("203.0.113.8", "1234", "8443"))]
)
def test_a_balancer_announces_the_client(proxied, raw_client, header, says):
    """All requests of the connection are the announced client's; fields are the client's word."""
    server = proxied()
    client = raw_client(server)
    client.send(header)
    for fields in ((), FIELDS, ()):
        environ = client.fetch("/", *fields).json()
        assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"], environ["SERVER_PORT"]) == says
        assert "HTTP_X_FORWARDED_FOR" not in environ and environ["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize("header", [V1, V2])
def test_a_header_in_any_pieces(proxied, raw_client, header):
    """The header may come octet by octet, or together with the requests behind."""
    server = proxied()
    client = raw_client(server)
    for position in range(len(header)):
        client.send(header[position : position + 1])
    assert client.fetch().json()["REMOTE_ADDR"].startswith("203.0.113.")
    client = raw_client(server)
    client.send(header + GET + GET)
    for _ in range(2):
        assert client.recv_response().json()["REMOTE_ADDR"].startswith("203.0.113.")


def test_a_proxy_behind_a_balancer(proxied, raw_client):
    """An announced client known as a proxy is believed by the fields."""
    client = raw_client(proxied(proxies="127.0.0.1, 203.0.113.7"))
    client.send(V1)
    environ = client.fetch("/", "X-Forwarded-For: 1.2.3.4, 198.51.100.1", "X-Forwarded-Proto: https").json()
    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == ("198.51.100.1", "https")


@pytest.mark.parametrize(
    "octets",
    [GET, b"\x16\x03\x01\x02\0", V1[:-2] + b"\n" + GET, V1.replace(b"TCP4", b"TCP6") + GET, V2[:12] + b"\x31" + V2[13:],
     b"PROXY " + b"x" * 200, V2[:14] + b"\xff\xff"],
)  # fmt: skip
def test_what_is_no_header(proxied, raw_client, caplog, octets):
    """Anything else is closed without an answer, with one line in the log."""
    server = proxied(apps.raises)
    client = raw_client(server)
    client.send(octets)
    assert client.is_closed()
    assert caplog.text.count("closed: 127.0.0.1: ") == 1 and "raised" not in caplog.text


def test_others_are_refused(proxied, raw_client, caplog):
    """A peer unknown as proxy is not heard at all."""
    server = proxied(apps.raises, proxies="10.0.0.1")
    for _ in range(5):
        assert raw_client(server).is_closed()
    assert caplog.text.count("--trusted-proxies may connect here") == 1 and "raised" not in caplog.text


@pytest.mark.one_way
def test_a_header_that_does_not_come(proxied, raw_client, caplog):
    """A header has the time of a request's head; a listener without headers works as ever."""
    server = proxied(head_seconds=5)
    server.hold_clock()
    silent, half = raw_client(server), raw_client(server)
    half.send(V1[:10])
    server.wait_until_known(2)
    for _ in range(2):
        server.call(lambda: None)  # the loop has been round, and has read the octets
    server.pass_seconds(6)
    assert silent.is_closed() and half.is_closed()
    assert "--head-timeout" in caplog.text


@pytest.mark.one_way
def test_side_by_side(start_server, raw_client, tmp_path):
    """The header is a listener's own affair: more listeners of the server know nothing of headers."""
    server = start_server(
        apps.environ_json,
        bind=["proxy+http://127.0.0.1:0", "127.0.0.1:0", f"proxy+http://unix:{tmp_path}/a.sock"],
        trusted_proxies="127.0.0.1, unix",
    )
    assert server.server.urls[0].startswith("proxy+http://127.0.0.1:")
    for address, header in zip(server.server.addresses, (V1, b"", V2)):
        client = raw_client(address)
        client.send(header)
        assert client.fetch().json()["REMOTE_ADDR"] == {V1: "203.0.113.7", b"": "127.0.0.1", V2: "203.0.113.8"}[header]
        client.close()


@pytest.mark.one_way
def test_the_access_log_of_announced_clients(proxied, raw_client, tmp_path):
    """The log shows the announced client, also of a refused request."""
    path = tmp_path / "access.log"
    server = proxied(access_log=str(path))
    client = raw_client(server)
    client.send(V1)
    client.fetch()
    client.send(b"NONSENSE\r\n\r\n")
    assert client.recv_response().status == 400
    server.stop()
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["203.0.113.7"] * 2


@pytest.mark.one_way
def test_a_drain_closes_connections_without_header(proxied, raw_client):
    """A drain finishes a running request, and closes a connection without a header."""
    gate = apps.Gate()
    server = proxied(gate)
    silent, busy = raw_client(server), raw_client(server)
    server.wait_until_known(2)
    busy.send(V1 + GET)
    gate.wait_entered()
    server.begin_drain()
    server.pass_seconds_until(lambda: not silent.is_quiet())
    assert silent.is_closed()
    gate.open()
    assert busy.recv_response().status == 200 and busy.is_closed()


# Without an address


@pytest.mark.plain
@pytest.mark.parametrize("flags", [[], ["--lane", "off"]])
def test_a_client_that_has_gone_before_it_is_accepted(start_process, raw_client, tmp_path, flags):
    """A client with a reset in the kernel's queue has no address any more: the request does not reach the app."""
    process = start_process("hello", "--access-log", "log", *flags)
    process.signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    for octets in (GET, GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"):
        client = raw_client(process)
        client.send(octets)
        client.reset()
    process.signal(signal.SIGCONT)
    raw_client(process).fetch()
    process.signal()
    assert process.wait() == 0
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert line.startswith("127.0.0.1 ")
