"""Fields of proxies about their client, in C beside Python: the same environs, octets and lines."""

import json
import re
import socket

import pytest
from harness import apps
from harness.plain import engine_of
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

FOR = "X-Forwarded-For: 192.0.2.1\r\n"
SENT = [
    "", FOR, f"Accept: a\r\n{FOR}Cookie: a=b\r\n", "X-Real-IP: a\r\n", "Forwarded: for=a\r\nX-Forwarded-Proto: https\r\n", "X-Forwarded: \r\n",
    f"{FOR}{FOR}", "X-A: X-Forwarded-For\r\n", f"X_Under: a\r\n{FOR}", "x_under: b\r\nAccept: a\r\n",
]  # fmt: skip


def ask(server, fields):
    """Return the octets for a request with these fields, without parts that differ by chance."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n".encode("latin-1"))
        octets = b""
        while piece := client.recv(1 << 16):
            octets += piece
    return re.sub(rb"Date: [^\r]*", b"Date: -", octets).replace(b"<method>", b"<Method>")


def environ_of(server, fields):
    """Return the head of environ_json's response and the environ, whose order is no promise, without ports of this run."""
    head, _, body = ask(server, fields).partition(b"\r\n\r\n")
    environ = json.loads(body)
    own = {"REMOTE_PORT", "SERVER_PORT"}
    return re.sub(rb"Content-Length: \d+", b"", head), {
        name: "a port" if name in own and len(value) == 5 else value for name, value in environ.items()
    }


def lines_of(caplog, word):
    return [record.getMessage() for record in caplog.records if word in record.getMessage()]


def test_nobody_is_believed(start_server):
    """The app sees none of the fields, whether C or Python takes them away."""
    in_c, in_python = (start_server(apps.environ_json, is_checked=False, native=native) for native in ("auto", "off"))
    for fields in [FOR, "X_Under: a\r\n"]:  # single lines come once
        ask(in_c, fields), ask(in_python, fields)
    for count, fields in enumerate(SENT, 1):
        assert environ_of(in_c, fields) == environ_of(in_python, fields)
        assert (engine_of(in_c).plain_count, engine_of(in_c).promoted_count) == (count, 0)


@pytest.mark.parametrize(
    ("fields", "word"), [(FOR, "X-Forwarded-For came"), ("X_Under: a\r\n", "dropped the field X_Under")]
)
def test_what_is_said_once(start_server, caplog, fields, word):
    """The first request has its line from Python; the next ones are plain."""
    caplog.set_level("INFO", "aserve")
    server = start_server(apps.hello, is_checked=False, native="auto")
    counts = []
    for _ in range(3):
        assert b"200 OK" in ask(server, fields)
        counts.append(engine_of(server).plain_count)
    assert counts == [0, 1, 2] and len(lines_of(caplog, word)) == 1


TRUSTING = {"trusted_proxies": "127.0.0.1, 198.51.100.0/24, 2001:db8::/64"}
ALL = "x-forwarded-for, x-forwarded-proto, x-forwarded-host, x-forwarded-port, x-forwarded-prefix, x-forwarded-user"
NGINX = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n"
TOLD = [
    *SENT, NGINX, f"{NGINX}Accept: a\r\nCookie: a=b\r\n", NGINX.replace("7", "8"), "X-Forwarded-Proto: wss\r\n",
    "X-Forwarded-For: 203.0.113.7, 198.51.100.1\r\n", f"{FOR}X-Forwarded-For: 2001:db8::1\r\n", "X-Forwarded-For: [2001:db8:1::1]:80\r\n",
    "X-Forwarded-For: 203.0.113.7:4711\r\n", "X-Forwarded-For: unknown\r\n", "X-Forwarded-For: \r\n", "X-Real-IP: 203.0.113.9\r\n",
    "X-Forwarded-Host: b.example\r\n", "X-Forwarded-Host: [::1]:80\r\nX-Forwarded-Port: 81\r\n", "X-Forwarded-Port: 8443\r\n",
    f"{NGINX}X-Forwarded-Port: 443\r\n", "X-Forwarded-Port: 80\r\nX-Forwarded-Prefix: /app\r\n", "X-Forwarded-Prefix: /\r\n",
    "X-Forwarded-User: me\r\nX-Forwarded-Ssl: on\r\n", 'Forwarded: for="[2001:db8:1::1]:1";proto=https;host=c.example, for=198.51.100.1\r\n',
]  # fmt: skip
MALFORMED = [
    "X-Forwarded-For: not an address\r\n",
    "X-Forwarded-Proto: gopher\r\n",
    "X-Forwarded-Host: a b\r\n",
    "X-Forwarded-Port: 0\r\n",
    "Forwarded: for\r\n",
]


@pytest.mark.parametrize(
    "settings",
    [
        TRUSTING,
        {**TRUSTING, "forwarded_fields": ALL},
        {"trusted_proxies": "*", "forwarded_fields": ALL, "trusted_hops": 2},
        {**TRUSTING, "forwarded_fields": "forwarded"},
        {**TRUSTING, "forwarded_fields": "x-real-ip, x-forwarded-host"},
    ],
)
def test_a_proxy_is_believed(start_server, settings):
    """The app sees the named client; C learns each client's changes once, and Python refuses malformed fields."""
    in_c, in_python = (
        start_server(apps.environ_json, is_checked=False, native=native, **settings) for native in ("auto", "off")
    )
    ask(in_c, "X_Under: a\r\n")
    plain = 0
    for fields in [*TOLD, *MALFORMED] * 2:
        octets = ask(in_python, fields)
        is_refused = octets.startswith(b"HTTP/1.1 400")
        plain += not is_refused
        if is_refused:
            assert ask(in_c, fields) == octets
        else:
            assert environ_of(in_c, fields) == environ_of(in_python, fields)
        assert engine_of(in_c).plain_count == plain
    assert 0 < engine_of(in_c).promoted_count < plain


@pytest.mark.parametrize("settings", [{"environ_as": "uwsgi"}, {**TRUSTING, "environ_as": "gunicorn"}])
def test_kept_fields_reach_the_app_unchanged(start_server, settings):
    """Where an extension keeps the fields, the app sees them unchanged, from C as from Python, which joins repeated ones."""
    in_c, in_python = (
        start_server(apps.environ_json, is_checked=False, native=native, **settings) for native in ("auto", "off")
    )
    ask(in_c, "X_Under: a\r\n")
    plain = 0
    for fields in TOLD * 2:
        head, environ = environ_of(in_python, fields)
        assert environ_of(in_c, fields) == (head, environ)
        plain += fields.count("X-Forwarded-For:") < 2
        assert engine_of(in_c).plain_count == plain
        sent = [line.partition(": ")[::2] for line in fields.splitlines() if line.startswith("X-Forwarded-")]
        for name, value in sent:
            assert value in environ["HTTP_" + name.upper().replace("-", "_")]


def test_one_that_is_not_believed(start_server, caplog):
    """The app does not see the fields, and the log says so once, for all requests."""
    caplog.set_level("INFO", "aserve")
    settings = {"trusted_proxies": "192.0.2.0/24", "forwarded_fields": ALL}
    in_c, in_python = (
        start_server(apps.environ_json, is_checked=False, native=native, **settings) for native in ("auto", "off")
    )
    for count, fields in enumerate([NGINX, NGINX, *MALFORMED]):
        assert environ_of(in_c, fields) == environ_of(in_python, fields)
        assert engine_of(in_c).plain_count == count
    assert len(lines_of(caplog, "which is not in --trusted-proxies")) == 2  # one of each server


def test_long_words_are_read_by_python(start_server):
    server = start_server(apps.environ_json, is_checked=False, native="auto", **TRUSTING)
    for spaces in range(440, 456):  # 512 octets are kept, with names and Host
        fields = f"X-Forwarded-For: 203.0.113.7,{' ' * spaces}203.0.113.7\r\n"
        assert environ_of(server, fields)[1]["REMOTE_ADDR"] == "203.0.113.7"
    counts = engine_of(server).plain_count, engine_of(server).promoted_count
    assert sum(counts) == 16 and all(counts)
    fields = f"X-Forwarded-For: {', '.join(['203.0.113.7'] * 50)}\r\n"
    assert environ_of(server, fields)[1]["REMOTE_ADDR"] == "203.0.113.7"
    assert (engine_of(server).plain_count, engine_of(server).promoted_count) == (counts[0], counts[1] + 1)


@pytest.mark.provokes("raised")
@pytest.mark.parametrize("app", [apps.written, apps.raises_mid_stream, apps.raises, apps.started_twice])
def test_one_that_python_goes_on_with(start_server, app):
    """Facts told by C to the app are found by Python in the exchange."""
    seen = []

    def look(environ, start_response):
        seen.append((environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ["HTTP_HOST"]))
        return app(environ, start_response)

    octets = []
    for native in ("auto", "off"):
        server = start_server(look, is_checked=False, native=native, **TRUSTING)
        octets.append([ask(server, NGINX), ask(server, NGINX)])
        if native == "auto":
            assert engine_of(server).promoted_count == 2
    assert octets[0] == octets[1] and seen == [("203.0.113.7", "https", "a.example")] * 4


def test_the_client_of_one_that_runs(start_server, wait_until):
    """A watcher of running requests finds the client named by the proxy, once."""
    gate = apps.Gate()
    server = start_server(gate, is_checked=False, native="auto", **TRUSTING)
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: a\r\n{NGINX}Connection: close\r\n\r\n".encode())
        gate.wait_entered()
        [exchange] = server.call(lambda: server.server._listening.lane.exchanges)
        assert exchange.client.remote_addr == "203.0.113.7" and exchange.client.base_environ["HTTPS"] == "on"
        assert exchange.vars.count("HTTP_X_FORWARDED_FOR") == 1 and list(exchange.forwarded) == [
            "HTTP_X_FORWARDED_FOR",
            "HTTP_X_FORWARDED_PROTO",
        ]
        gate.open()
        assert b"200 OK" in client.recv(1 << 16)


def test_many_clients_keep_memory_bounded(start_server):
    """However many the clients, the kept facts are bounded, and each client is its own."""
    server = start_server(apps.environ_json, is_checked=False, native="auto", **TRUSTING)
    asked = 1100
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        reader = client.makefile("rb")
        for number in [*range(asked), 0]:
            addr = f"203.0.{number % 250}.{number // 250}"
            client.sendall(f"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {addr}\r\n\r\n".encode())
            size = 0
            while line := reader.readline().strip():
                if line.startswith(b"Content-Length: "):
                    size = int(line.split()[1])
            assert json.loads(reader.read(size))["REMOTE_ADDR"] == addr
    assert engine_of(server).plain_count == asked + 1


def test_what_is_the_same_for_many_clients(start_server):
    """The fields of a browser behind a proxy are read once, though its address and the request's name differ."""
    cookies = []

    def app(environ, start_response):
        cookies.append(environ["HTTP_COOKIE"])
        return apps.hello(environ, start_response)

    server = start_server(app, is_checked=False, native="auto", request_id_header="X-Request-ID", **TRUSTING)
    for number in range(4):
        assert b"200 OK" in ask(
            server, f"X-Forwarded-For: 203.0.113.{number}\r\nX-Request-ID: {number}\r\nCookie: session=abcdef\r\n"
        )
    assert cookies[2] is cookies[3] and engine_of(server).plain_count == 4
