"""RPC over real sockets: with a real uWSGI in both directions, through nginx, and by --route over HTTP."""

import asyncio
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse

import pytest
from harness import sidecars
from harness.front import Page, free_port, replaced
from harness.interpreter import has_module
from harness.waiting import PATIENCE_SECONDS, wait_until

from aserve import rpc

BIG = 200_000

# The same file is an app for aserve and for uWSGI: it offers functions, and calls remote ones when asked.
APP = """
import urllib.parse
import uwsgi

def hello(*arguments):
    return b"hello " + b",".join(arguments)

def raw(text):
    return b"HTTP/1.1 201 Created\\r\\nX-Text: " + text + b"\\r\\nContent-Length: 3\\r\\n\\r\\nabc"

def fail(*arguments):
    raise LookupError

def join(*arguments):
    return b"|".join(reversed(arguments))

def big(count):
    return b"x" * int(count)

for function in (hello, raw, fail, join, big):
    uwsgi.register_rpc(function.__name__, function)

def app(environ, start_response):
    words = [urllib.parse.unquote_to_bytes(word) for word in environ["QUERY_STRING"].split("&")]
    result = uwsgi.rpc(*words) if len(words) > 1 else b"app"
    start_response("200 OK" if result is not None else "502 Bad Gateway", [])
    return [result or b"none"]
"""

needs_uwsgi = pytest.mark.skipif(not has_module("pyuwsgi"), reason="there is no uWSGI here (pyuwsgi; CPython on Linux)")
needs_nginx = pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx here")


@pytest.fixture
def app_file(tmp_path):
    path = tmp_path / "rpc_app.py"
    path.write_text(APP)
    return path


@pytest.fixture
def start_program(tmp_path):
    """Start programs with a log; each is ended."""
    running = []

    def start(*words, cwd=tmp_path):
        log_path = tmp_path / f"log-{len(running)}"
        with open(log_path, "wb") as log:
            running.append(subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return log_path

    yield start
    for process in running:
        process.kill()
        process.wait(PATIENCE_SECONDS)


@pytest.fixture
def uwsgi_server(start_program, app_file):
    """A real uWSGI with the functions: (its uwsgi address, its HTTP port)."""
    log_path = start_program(
        sys.executable, "-c", "import sys, pyuwsgi; pyuwsgi.run(sys.argv[1:])",
        "--socket", "127.0.0.1:0", "--http-socket", "127.0.0.1:0", "--wsgi-file", str(app_file), "--callable", "app",
        "--buffer-size", "65535", "--need-app",
    )  # fmt: skip

    def ports():
        log = log_path.read_text()
        return "spawned uWSGI" in log and re.findall(r"bound to TCP address 127\.0\.0\.1:(\d+)", log)

    # uWSGI numbers its sockets by kind, not by flag: ask which speaks HTTP. The second, as a rule; the other thinks over HTTP for four seconds.
    first, second = wait_until(ports, 20, log_path.read_text)
    http_port, uwsgi_port = (second, first) if fetch(second, "/") else (first, second)
    return f"127.0.0.1:{uwsgi_port}", int(http_port)


def fetch(port, target):
    """Return a response to GET as octets; empty if there is none."""
    with socket.create_connection(("127.0.0.1", int(port)), PATIENCE_SECONDS) as sock:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
        octets = b""
        with contextlib.suppress(ConnectionError):
            while piece := sock.recv(65536):
                octets += piece
    return octets


@pytest.fixture
def aserve_server(start_process, app_file):
    """`aserve` with the functions: start(*flags) -> (its uwsgi address, its process)."""

    def start(*flags):
        process = start_process(f"{app_file}:app", "--bind", "uwsgi://127.0.0.1:0", *flags)
        port = process.wait_for_log(r"uwsgi://127\.0\.0\.1:(\d+)")[1]
        return f"127.0.0.1:{port}", process

    return start


def query(address, *words):
    return "/?" + "&".join(urllib.parse.quote(word, safe="") for word in (address, *words))


def check_calls(address):
    """Call the functions at an address with both clients."""
    for call in (rpc.call_blocking, lambda *words: asyncio.run(rpc.call(*words))):
        assert call(address, "hello", "a", b"\xff\x00") == b"hello a,\xff\x00"
        assert call(address, "join", *map(str, range(254))) == b"|".join(b"%d" % n for n in reversed(range(254)))
        assert call(address, "hello", b"x" * 60000) == b"hello " + b"x" * 60000
        for count in (65535, 65536, BIG):
            assert call(address, "big", str(count)) == b"x" * count
        for name in ("fail", "other"):
            with pytest.raises(rpc.NoReply):
                call(address, name)


# Between aserve and uWSGI


@needs_uwsgi
def test_we_call_uwsgi(uwsgi_server):
    """Our clients get the same from uWSGI as its own."""
    check_calls(uwsgi_server[0])


@needs_uwsgi
def test_uwsgi_calls_us(uwsgi_server, aserve_server):
    """uWSGI's client gets the same from us as from uWSGI: the result, of any length, or None."""
    address, _ = aserve_server()
    _, http_port = uwsgi_server

    def call(*words):
        return fetch(http_port, query(address, *words)).partition(b"\r\n\r\n")

    assert call("hello", "a", "b\xff")[2] == b"hello a,b\xc3\xbf"
    assert call("big", str(BIG))[2] == b"x" * BIG
    assert call("fail")[0].startswith(b"HTTP/1.1 502 ") and call("other")[0].startswith(b"HTTP/1.1 502 ")


@needs_uwsgi
def test_our_module_calls_uwsgi(uwsgi_server, aserve_server):
    """An app of uWSGI runs unchanged: `uwsgi.rpc` calls the real uWSGI."""
    address, _ = uwsgi_server
    _, process = aserve_server()
    port = process.address[1]
    assert fetch(port, query(address, "hello", "a")).endswith(b"\r\n\r\nhello a")
    assert fetch(port, query(address, "fail")).startswith(b"HTTP/1.1 502 ")
    assert process.wait_for_log("WARNING +uwsgi.rpc: ")


def test_we_call_ourselves(aserve_server):
    """Both clients against our own server."""
    check_calls(aserve_server()[0])


# Our server


@pytest.fixture
def functions(monkeypatch):
    """Functions of this process."""
    monkeypatch.setattr(rpc.registry, "_functions", {})
    rpc.register("join", lambda *arguments: b"|".join(reversed(arguments)))
    rpc.register("big", lambda count: b"x" * int(count))
    rpc.register("raw", lambda text: b"HTTP/1.1 201 Created\r\nX-Text: %b\r\n\r\nabc" % text)
    rpc.register("guard", lambda path: b"break 403" if path.startswith(b"/private") else b"next")
    rpc.register("cut", lambda: b"break")


def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"app"]


@pytest.mark.also_inline
@pytest.mark.parametrize(
    ("packet", "reply"),
    [
        (b"\xad\x0c\x00\x00\x04\x00join\x01\x00a\x01\x00b", b"\xad\x03\x00\x00b|a"),
        (b"\xad\x0c\x00\x01\x04\x00join\x01\x00a\x01\x00b", b"b|a"),
        (b"\xad\x0e\x00\x00\x04\x00join\x01\x00a\x00\x00\x01\x00b", b"\xad\x03\x00\x00b|a"),
        (b"\xad\x07\x00\x00\x05\x00other", b""),
        (b"\xad\x00\x00\x00", b""),
        (b"\xad\x06\x00\x00\x05\x00othe", b""),
        (
            b"\xad\x16\x00\x02\x09\x00PATH_INFO\x09\x00/join/a/b",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: application/binary\r\n\r\nb|a",
        ),
        (
            b"\xad\x2c\x00\x02\x0e\x00REQUEST_METHOD\x04\x00HEAD\x09\x00PATH_INFO\x09\x00/join/a/b",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: application/binary\r\n\r\n",
        ),
    ],
)
def test_each_packet_gets_its_reply(start_server, raw_client, functions, packet, reply):
    """A packet gets its reply, whole and split, and the connection closes."""
    server = start_server(app, bind="uwsgi://127.0.0.1:0")
    for pieces in ([packet], [packet[i : i + 1] for i in range(len(packet))]):
        client = raw_client(server)
        for piece in pieces:
            client.send(piece)
        received = b""
        while data := client.sock.recv(65536):
            received += data
        assert received == reply


@pytest.mark.one_way
async def test_calls_run_side_by_side(start_server, functions):
    """Slow functions run in the workers, several at once: each ends when all have begun."""
    all_inside = threading.Barrier(8)

    def slow():
        all_inside.wait(30)
        return b"done"

    rpc.register("slow", slow)
    server = start_server(app, bind="uwsgi://127.0.0.1:0")
    address = "%s:%d" % server.address
    assert await asyncio.gather(*(rpc.call(address, "slow") for _ in range(8))) == [b"done"] * 8


@pytest.mark.one_way
def test_over_a_unix_socket(start_server, functions, tmp_path):
    """The server may listen on a path."""
    start_server(app, bind=f"uwsgi://unix:{tmp_path}/s")
    assert rpc.call_blocking(f"{tmp_path}/s", "big", str(BIG)) == b"x" * BIG


@pytest.mark.one_way
def test_off_unless_registered(start_server, monkeypatch, caplog):
    """Without functions a call is refused, and the log has a line."""
    monkeypatch.setattr(rpc.registry, "_functions", {})
    server = start_server(app, bind="uwsgi://127.0.0.1:0")
    with pytest.raises(rpc.NoReply):
        rpc.call_blocking("%s:%d" % server.address, "system", "id")
    assert "no RPC function is registered" in caplog.text


# Routes


@pytest.mark.also_inline
def test_a_route_answers_over_http(start_server, raw_client, functions):
    """A route answers over HTTP in the connection's own form: keep-alive, HEAD, pipelined requests."""
    routes = [
        "rpcret guard:${PATH_INFO}",
        "^/rpc rpc join:one two three",
        "^/raw/(.*) rpcraw raw:$1",
        "^/big rpc:big 200000",
    ]
    server = start_server(app, route=routes)
    client = raw_client(server)
    for _ in range(2):
        reply = client.fetch("/rpc")
        assert (reply.status, reply.body, reply.framing) == (200, b"three|two|one", "length")
        assert client.fetch("/rpc", method="HEAD").get("Content-Length") == "13"
        assert client.fetch("/rpc", method="POST", body=b"x" * 100).body == b"three|two|one"
        assert client.fetch("/raw/a%20b").get("X-Text") == "a b"
        assert client.fetch("/big").body == b"x" * BIG
        assert client.fetch("/private/x").status == 403
        assert client.fetch("/other").body == b"app"
    for target in ("/rpc", "/other", "/rpc"):
        client.request(target)
    assert [client.recv_response().body for _ in range(3)] == [b"three|two|one", b"app", b"three|two|one"]


@pytest.mark.also_inline
def test_break_closes_without_a_response(start_server, raw_client, functions):
    client = raw_client(start_server(app, route="^/cut rpcret cut"))
    client.request("/cut")
    with pytest.raises(client.Truncated) as caught:
        client.recv_head()
    assert caught.value.octets == b""


@pytest.mark.one_way
def test_route_over_uwsgi(start_server, raw_client, functions):
    """A route is for requests of the uwsgi protocol, too."""
    server = start_server(app, bind="uwsgi://127.0.0.1:0", route="^/rpc rpc join:a ${REQUEST_METHOD}")
    vars = {"REQUEST_METHOD": "GET", "PATH_INFO": "/rpc", "REQUEST_URI": "/rpc", "SERVER_PROTOCOL": "HTTP/1.1"}
    client = raw_client(server)
    client.send(sidecars.uwsgi(vars))
    assert client.recv_response().body == b"GET|a"


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    "flags",
    [
        ["--route", "^/rpc", "rpc join:one two ${REQUEST_URI}"],
        ["--route", "^/rpc rpc:join one two ${REQUEST_URI}"],
        ["--route=^/rpc rpc join:one two ${REQUEST_URI}"],
        ["--route", "^/never", "rpc:fail", "--route", "rpc join:one two ${REQUEST_URI}"],
    ],
)
def test_route_on_the_command_line(aserve_server, flags):
    """Pattern and action may be two arguments or one; without a pattern, every request matches."""
    _, process = aserve_server(*flags)
    assert fetch(process.address[1], "/rpc?x").endswith(b"\r\n\r\n/rpc?x|two|one")


@pytest.mark.long_on_pypy
def test_route_in_the_environment(start_process, app_file):
    """A variable holds one route on each line."""
    route = "^/a rpc:join 1 2\n^/b rpc:join 3 4\n"
    process = start_process(f"{app_file}:app", ASERVE_ROUTE=route)
    assert fetch(process.address[1], "/b").endswith(b"\r\n\r\n4|3")
    assert fetch(process.address[1], "/c").endswith(b"app")


# Through nginx

NGINX = """
error_log stderr;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {locations}
    }}
}}
"""


@pytest.mark.long_on_pypy
@pytest.mark.checkout
@needs_nginx
def test_nginx_calls_functions_by_path(aserve_server, start_program, raw_client, tmp_path):
    """nginx, by docs/rpc.md, calls by path, and by its parameters read as an array."""
    address, _ = aserve_server()
    port = free_port()
    locations = Page("rpc").block("Behind nginx", "nginx").replace("127.0.0.1:3031", address)
    # The page's function takes a name; ours, which answers by itself, a text.
    locations = replaced(locations, {"location = /hello": "location = /trick", "hello $arg_name": "raw $arg_text"})
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, port=port, locations=locations))
    directives = "daemon off; master_process off;"
    log_path = start_program("nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", directives)

    def is_up():
        with contextlib.suppress(OSError):
            return fetch(port, "/hello/up")

    assert wait_until(is_up, 30, log_path.read_text)
    client = raw_client(("127.0.0.1", port))
    reply = client.fetch("/hello/a/b%20c", "Accept: text/plain")
    assert (reply.status, reply.body, reply.get("Content-Type")) == (200, b"hello a,b c", "text/plain")
    assert client.fetch("/hello/a", "Accept: text/html, */*").get("Content-Type") == "application/binary"
    assert client.fetch(f"/big/{BIG}").body == b"x" * BIG
    assert client.fetch("/hello/a", method="HEAD").get("Content-Length") == "7"
    assert client.fetch("/other").status == 404
    assert client.fetch("/").status == 500
    assert client.fetch("/fail").status == 500
    reply = client.fetch("/trick?text=hi", "X-Field: not sent")
    assert (reply.status, reply.body, reply.get("X-Text")) == (201, b"abc", "hi")
