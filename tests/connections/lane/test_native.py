"""Plain requests in C beside the Python twin: the same octets, whichever way a request takes."""

import asyncio
import gc
import os
import re
import socket
import threading
import time
import weakref

import pytest
from harness import apps, http2
from harness.plain import BARE, ask, ask_front, engine_of, request, site_of
from harness.waiting import PATIENCE_SECONDS

import aserve
from aserve.connections.carrier import StreamConnection
from aserve.connections.lane import lane as lane_module
from aserve.connections.lane.disconnects import exchange_of
from aserve.core import forks

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]


def no_exc_info(environ, start_response):
    """Call like middleware passing arguments on."""
    start_response("200 OK", apps.PLAIN, None)
    return [b"body"]


REPEATED = "Host: a\r\nAccept: a\r\nAccept: b\r\nCookie: a\r\nCookie: b\r\n"
# Name: (app, whether a GET is plain to the end).
APPS = {
    "hello": (apps.hello, True),
    "several_chunks": (apps.several_chunks, True),
    "tuple_of_chunks": (apps.tuple_of_chunks, True),
    "lazy_generator": (apps.lazy_generator, True),
    "no_exc_info": (no_exc_info, True),
    "written": (apps.written, False),
    "no_chunks": (apps.no_chunks, True),
    "no_chunks_lazily": (apps.no_chunks_lazily, True),
    "too_long": (apps.too_long, False),
    "too_short": (apps.too_short, False),
    "latin_1": (apps.latin_1, True),
    "two_servers": (apps.two_servers, False),
    "early_hints": (apps.early_hints, False),
    "raises": (apps.raises, False),
    "raises_started": (apps.raises_started, False),
    "raises_lazily": (apps.raises_lazily, False),
    "raises_mid_stream": (apps.raises_mid_stream, False),
    "exits": (apps.exits, False),
    "not_started": (apps.not_started, False),
    "started_twice": (apps.started_twice, False),
    "error_replaces": (apps.error_replaces, False),
    "error_too_late": (apps.error_too_late, False),
    "environ_json": (apps.environ_json, True),
    "echo": (apps.echo, True),
}


site = site_of(APPS)


@pytest.fixture
def pair(start_server):
    """Two servers of the same app, in C and in Python."""
    return [start_server(site, is_checked=False, native=native) for native in ("auto", "off")]


@pytest.mark.parametrize("name", APPS)
@pytest.mark.provokes("raised", "broke PEP 3333", "internal error", "the app gave more body")
def test_the_same_octets(pair, name):
    """C and Python send the same octets, whatever the app does, and whatever is asked."""
    asked = [
        request(name), request(name, "HEAD"), request(name, fields=REPEATED), request(name, "POST", body=b"abc" * 1000),
        request(name, "OPTIONS", fields="Host: a\r\n"), request(f"{name}?a=%20&b"),
    ]  # fmt: skip
    in_c, in_python = ([ask(server, each) for each in asked] for server in pair)
    assert in_c == in_python


@pytest.mark.parametrize(("name", "is_plain"), [(name, is_plain) for name, (_, is_plain) in APPS.items()])
@pytest.mark.provokes("raised", "broke PEP 3333", "internal error", "the app gave more body")
def test_plain_requests_are_served_in_c(start_server, name, is_plain):
    """A plain request is served in C, the first of a connection and the next; the rest is promoted."""
    server = start_server(site, is_checked=False, native="auto")
    ask(server, request(name, fields=BARE))
    engine = engine_of(server)
    assert (engine.plain_count, engine.promoted_count) == ((1, 0) if is_plain else (0, 1))


@pytest.mark.provokes("raised")
def test_what_an_app_raises(start_server, caplog):
    """The log has the app's exception, and none of ours before."""
    server = start_server(site, is_checked=False, native="auto")
    ask(server, request("raises"))
    [record] = [record for record in caplog.records if "raised" in record.getMessage()]
    assert record.exc_info[1].__context__ is None


def test_python_has_no_engine(start_server):
    """Python has no engine where a setting says so, or a watcher wants each request."""
    server = start_server(site, is_checked=False, native="off")
    assert server.server._listening.lane.native is None
    ask(server, request("hello"))


def test_a_span_for_each_request(start_server):
    """--tracing wants the app's response: no request is plain."""
    pytest.importorskip("opentelemetry.sdk")
    server = start_server(site, is_checked=False, native="auto", tracing=True)
    assert b"200 OK" in ask(server, request("hello")) and server.server._listening.lane.native is None


def test_a_body_larger_than_a_write(pair):
    """A large body comes whole, sent in C or not."""
    body = b"x" * 100_000
    in_c, in_python = (ask(server, request("echo", "POST", body=body)) for server in pair)
    assert in_c == in_python and in_c.endswith(body)


class Held:
    """An app with requests waiting for each other."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count + 1)

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/held":
            self.barrier.wait(PATIENCE_SECONDS)
        start_response("200 OK", apps.PLAIN)
        return [b"met"]


def test_a_batch_that_blocks(start_server):
    """Requests of one batch are served side by side while the app blocks, by as many threads as there are."""
    app = Held(20)
    server = start_server(app, is_checked=False, native="auto", threads=20)
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(20)]
    for client in clients:
        client.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    app.barrier.wait(PATIENCE_SECONDS)
    assert all(client.recv(1000).endswith(b"met") for client in clients)
    for client in clients:
        client.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_one_that_blocks(start_server, wait_until, threads):
    """A blocking request keeps nothing from a second worker; without one, the rest is served as soon as the worker is back."""
    app = Held(1)
    server = start_server(app, is_checked=False, native="auto", threads=threads)
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(6)]
    for client, path in zip(clients, [b"held", *[b"quick"] * 5]):
        client.sendall(b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
    if threads == 2:
        assert all(client.recv(1000).endswith(b"met") for client in clients[1:])
    wait_until(lambda: app.barrier.n_waiting == 1)
    app.barrier.wait(PATIENCE_SECONDS)
    late = clients if threads == 1 else clients[:1]
    assert all(client.recv(1000).endswith(b"met") for client in late)
    assert engine_of(server).waiting == 0
    for client in clients:
        client.close()


def test_it_is_seen(start_server, wait_until):
    """Plain requests are told to an asker, and then go on in Python."""
    app = Held(2)
    server = start_server(app, is_checked=False, native="auto")
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(2)]
    for client in clients:
        client.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_until(lambda: app.barrier.n_waiting == 2)
    exchanges = server.call(lambda: server.server._listening.lane.exchanges)
    assert [exchange.method_and_target for exchange in exchanges] == ["GET /held"] * 2
    app.barrier.wait(PATIENCE_SECONDS)
    assert all(client.recv(1000).endswith(b"met") for client in clients)
    assert engine_of(server).promoted_count == 2 and not server.call(lambda: server.server._listening.lane.exchanges)
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(1000).endswith(b"met")
        client.close()
    assert engine_of(server).plain_count == 2


def test_a_drain_closes_behind_a_plain_request(start_server, wait_until):
    """A request served in a drain is told that the connection closes."""
    app = Held(1)
    server = start_server(app, is_checked=False, native="auto")
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: app.barrier.n_waiting == 1)
        server.begin_drain()
        app.barrier.wait(PATIENCE_SECONDS)
        received = client.recv(1000)
        assert b"Connection: close\r\n" in received and received.endswith(b"met")
        assert client.recv(1) == b""


class Keeper:
    """An app keeping its arguments."""

    def __init__(self):
        self.kept = []

    def __call__(self, environ, start_response):
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        self.kept.append((start_response, write, environ["wsgi.early_hints"]))
        return [b"kept"]

    def come_back(self):
        """Call all kept objects; return the results."""
        [(start, write, hint)] = self.kept
        calls = [(start, "200 OK", []), (write, b"more"), (hint, [("Link", "</a>")]), (write, "text")]
        return [outcome_of(*call) for call in calls]


def outcome_of(function, *arguments):
    try:
        return function(*arguments)
    except Exception as exc:
        return type(exc), str(exc)


def test_an_app_that_comes_back(start_server):
    """After the end the app gets the same answers from both, and the next request has a new response."""
    words = {}
    for native in ("auto", "off"):
        app = Keeper()
        server = start_server(app, is_checked=False, native=native)
        octets = ask(server, request("hello"))
        assert octets.endswith(b"kept")
        words[native] = app.come_back()
        assert ask(server, request("hello")) == octets
        app.kept.clear()
    assert words["auto"] == words["off"]


async def test_it_may_be_forgotten():
    """An engine, with all arguments, is garbage once the server has ended."""
    async with aserve.Server(site, bind="127.0.0.1:0", native="auto") as server:
        reader, writer = await asyncio.open_connection(*server.addresses[0][:2])
        writer.write(request("hello"))
        assert b"200 OK" in await reader.read()
        writer.close()
        lane = weakref.ref(server._listening.lane)
        assert lane().native.engine.plain_count == 1
    del server
    deadline = time.monotonic() + PATIENCE_SECONDS
    while lane() is not None and time.monotonic() < deadline:
        gc.collect()
        await asyncio.sleep(0.01)
    assert lane() is None


class ByClass:
    """An app as a class, as in PEP 3333: the instance keeps the arguments."""

    made: list[weakref.ref] = []

    def __init__(self, environ, start_response):
        self.environ, self.start = environ, start_response
        self.made.append(weakref.ref(self))

    def __iter__(self):
        self.start("200 OK", apps.PLAIN)
        yield b"by class"


def test_an_app_that_is_a_class(start_server, wait_until):
    """Nothing of a request is left afterwards."""
    ByClass.made.clear()
    server = start_server(ByClass, is_checked=False, native="auto")
    assert ask(server, request("hello")).count(b"by class") == 1
    wait_until(lambda: gc.collect() >= 0 and ByClass.made[0]() is None)


@pytest.mark.provokes("raised")
def test_the_next_client(start_server):
    """A connection with the descriptor of an earlier one is a new one, whatever way both took."""
    server = start_server(site, is_checked=False, native="auto")
    for first in (b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\na", request("raises_lazily"), request("hello")):
        ask(server, first)
        with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(request("hello", is_last=False))
            assert b"200 OK" in client.recv(1 << 16)
            client.sendall(request("environ_json", fields=REPEATED))
            octets = b""
            while piece := client.recv(1 << 16):
                octets += piece
            assert f'"REMOTE_PORT": "{client.getsockname()[1]}"'.encode() in octets


def test_in_a_process_that_was_forked(start_server):
    """A worker of --workers serves in C, too."""
    forks.forked.append(None)
    try:
        server = start_server(site, is_checked=False, native="auto")
        ask(server, request("hello"))
        assert engine_of(server).plain_count == 1
        server.stop()
    finally:
        forks.forked.pop()


def test_who_looks_all_the_time(start_server):
    """Requests are promoted at any moment, and each has one response, once."""
    server = start_server(site, is_checked=False, native="auto")
    native, is_over = server.server._listening.lane.native, threading.Event()

    def look():
        while not is_over.is_set():
            native.promote_all()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        names = ["hello", "several_chunks", "echo", "no_chunks"] * 10
        clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in names]
        for client, name in zip(clients, names):
            client.sendall(request(name, "POST", body=b"abc"))
        received = []
        for client in clients:
            octets = b""
            while piece := client.recv(1 << 16):
                octets += piece
            received.append(octets)
            client.close()
    finally:
        is_over.set()
        looking.join()
    assert {octets[:15] for octets in received} == {b"HTTP/1.1 200 OK"}
    assert len({re.sub(rb"Date: [^\r]*", b"", octets) for octets in received}) == 4


@pytest.mark.provokes("internal error", "the app gave more body")
def test_a_fault_of_ours(start_server, monkeypatch):
    """A fault of ours costs one request, and no worker."""
    server = start_server(site, is_checked=False, native="auto", threads=1)
    lane = server.server._listening.lane
    with monkeypatch.context() as patch:
        patch.setattr(lane, "new_exchange", None)
        assert ask(server, request("too_long")) == b""
    assert b"200 OK" in ask(server, request("too_long"))
    assert b"200 OK" in ask(server, request("hello"))


@pytest.mark.provokes("internal error")
def test_an_executor_that_cannot_be_asked(start_server, monkeypatch):
    """The app is not called with an exception of ours."""
    server = start_server(site, is_checked=False, native="auto", threads=1)
    executor = server.server._threads.executor
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(request("hello", is_last=False))
        assert b"200 OK" in client.recv(1 << 16)
        kept = executor.__dict__.pop("app_blocks")
        client.sendall(request("hello", is_last=False))
        received = client.recv(1 << 16)
        executor.app_blocks = kept
    assert b"200 OK" in received and engine_of(server).promoted_count == 0


@pytest.mark.provokes("internal error")
def test_arrivals_that_python_cannot_take(start_server, monkeypatch):
    """The connections close, also without memory for a line in the log; the next is answered."""
    server = start_server(site, is_checked=False, native="auto", threads=1)
    old = b"GET /hello HTTP/1.0\r\n\r\n"  # not plain

    def refuse(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(server.server._listening.lane.native, "_submit", refuse)
        assert ask(server, old) == b""
        patch.setattr(lane_module.logger, "exception", refuse)
        assert ask(server, old) == b""
    assert b"200 OK" in ask(server, old)


@pytest.mark.parametrize("name", ["hello", "several_chunks", "lazy_generator", "echo", "environ_json", "latin_1"])
@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
def test_behind_a_front_server(start_server, tmp_path, protocol, name):
    """The octets are the same for a HEAD, told by the vars, a body, and a client of the front server's."""
    received = {}
    for native in ("auto", "off"):
        path = tmp_path / native
        server = start_server(site, is_checked=False, native=native, bind=f"{protocol}://unix:{path}")
        asked = [("GET", b""), ("GET", b""), ("HEAD", b""), ("POST", b"abc")]
        received[native] = [ask_front(path, protocol, name, *each) for each in asked]
        if native == "auto":
            assert engine_of(server).plain_count == 4
    assert received["auto"] == received["off"]


def test_it_comes_back(start_server, wait_until):
    """A connection out of the lane for a chunked body comes back, and the next requests are plain."""
    server = start_server(site, is_checked=False, native="auto")
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        assert client.recv(1 << 16).endswith(b"abc")
        wait_until(lambda: server.server._listening.lane.count == 1)
        client.sendall(request("environ_json"))
        octets = b""
        while piece := client.recv(1 << 16):
            octets += piece
    assert f'"REMOTE_PORT": "{client_port(octets)}"'.encode() in octets and engine_of(server).plain_count >= 1


def client_port(octets):
    return re.search(rb'"REMOTE_PORT": "(\d+)"', octets)[1].decode()


def test_it_is_detached(start_server):
    """A connection with plain requests alone goes to another process with the facts of the client."""
    server = start_server(site, is_checked=False, native="auto")
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(request("hello", is_last=False))
        assert b"200 OK" in client.recv(1 << 16)
        [detached] = server.call(lambda: server.server.detach_idle())
        os.close(detached.fd)
        assert detached.peer["port"] == str(client.getsockname()[1])


def test_a_stream_is_published_without_python(serve_http2, monkeypatch):
    """In a setter the GIL may change hands: the worker would end a request of which a half is published."""
    gate = apps.Gate(apps.hello)
    server, client = serve_http2(gate)
    if server.server._listening.lane.native is None:
        pytest.skip("Python serves")
    asked = client.ask(http2.request(b"GET", b"/"))
    gate.wait_entered()
    exchange, called = StreamConnection.exchange, []
    monkeypatch.setattr(StreamConnection, "exchange", property(exchange.fget, lambda self, made: called.append(made)))
    engine_of(server).promote_all()
    assert engine_of(server).promoted_count == 1 and called == [None]  # as it is made
    monkeypatch.undo()
    gate.open(1)
    assert client.bodies(asked) == [b"hello\n"]


class Waiting:
    """A plain request waiting as a job."""

    def promote(self):
        return "its exchange"


def test_a_jobs_exchange_is_found():
    """The exchange of a waiting plain request is found, too."""
    assert exchange_of((print, Waiting())) == "its exchange" and exchange_of((print, None)) is None


@pytest.mark.parametrize("number", [-(1 << 40), -1, 1 << 16, (1 << 32) + 3, 1 << 70])
def test_a_number_that_no_connection_has(start_server, number):
    """An unknown number is refused, and mistaken for no connection."""
    engine = engine_of(start_server(apps.hello, native="auto"))
    for call in (engine.peer_of, lambda number: engine.know(number, "", "", {}), engine.submit):
        with pytest.raises((ValueError, OverflowError, TypeError)):
            call(number)
