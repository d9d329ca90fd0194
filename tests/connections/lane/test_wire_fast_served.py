"""A connection's time in the lane, and the way out, over sockets: a response gets all needs met."""

import asyncio
import gc
import os
import socket
import sys
import threading
import weakref

import pytest
from harness import apps
from harness.fakes import Harness
from harness.interpreter import NATIVE_KINDS

import aserve
from aserve.connections.connection import Connection
from aserve.connections.loop import pump
from aserve.connections.loop.wire_loop import LoopWire
from aserve.core.errors import ClientDisconnected
from aserve.core.exchange import Exchange

GET = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
BLOCK = b"0123456789abcdef" * 4096  # 64 KiB


def app(environ, start_response):
    """Answer in the way of the path."""
    path = environ["PATH_INFO"]
    if path == "/pieces":
        start_response("200 OK", apps.PLAIN)
        return iter([b"a" * 10, b"", b"b" * 300_000, b"c"])
    write = start_response("200 OK", apps.PLAIN)
    if path == "/write":
        write(b"written ")
        write(b"twice ")
        return [b"and returned"]
    if path == "/large":
        return [BLOCK * 48]
    if path == "/much":
        return [BLOCK * 512]
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    return [environ["REMOTE_ADDR"].encode(), b" ", environ["wsgi.input"].read()]


def content_of_this_file():
    with open(__file__, "rb") as file:
        return file.read()


def test_an_app_that_closes_the_connection(start_server, raw_client):
    """The server closes by choice only after the response has been read, whatever has been sent meanwhile."""

    def old_app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        return iter([BLOCK])

    client = raw_client(start_server(old_app))
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")  # no length, no chunks: the server must close
    head = client.recv_head()
    assert head.get("Connection") == "close"
    assert client.recv_to_end() == BLOCK


def test_clients_that_leave_meanwhile(start_server, raw_client, wait_until):
    """A client gone before the response does no harm, and the descriptor is free again."""
    gate = apps.Gate(app)
    server = start_server(gate, is_checked=False)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for path in ("/", "/pieces", "/write", "/large", "/file"):
        for end in ("close", "reset"):
            client = raw_client(server)
            client.request(path)
            gate.wait_entered()
            getattr(client, end)()
            gate.open()
    server.wait_until_idle()
    if before:
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 4)  # two are the pump's, from the first body on


def test_many_connections_at_once(start_server, raw_client):
    """Responses find their connections, however many there are and whoever leaves the lane."""
    server = start_server(app, is_checked=False)
    wrong = []

    def ask(number):
        client = raw_client(server)
        for turn in range(40):
            text = f"{number}-{turn}".encode()
            body = client.fetch("/", method="POST", body=text).body
            if body != b"127.0.0.1 " + text:
                wrong.append((text, body))
            if turn == number:
                client.fetch("/pieces")

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []


# Requests on their way when the server stops


class Closing:
    """An iterable telling of the close."""

    def __init__(self):
        self.closed = threading.Event()

    def __iter__(self):
        return iter([b"too late"])

    def close(self):
        self.closed.set()


@pytest.mark.one_way
@pytest.mark.parametrize("native", NATIVE_KINDS)
@pytest.mark.parametrize("path", ["/", "/pieces", "/write", "/large", "/file", "/iterable", "/raises", "/refuses"])
def test_an_app_that_comes_back_after_the_end(start_server, raw_client, path, native, wait_until, caplog):
    """An app alive after the server does no harm; the iterable is closed, the failure logged, as ever."""
    iterable, gate, entered = Closing(), threading.Event(), threading.Event()

    def slow(environ, start_response):
        entered.set()
        gate.wait(30)
        if path == "/raises":
            raise ValueError("after the end")
        if path == "/refuses":
            with pytest.raises(ClientDisconnected):
                start_response("200 OK", apps.PLAIN)(b"x")
            environ["wsgi.input"].close()  # as a sign
        if path == "/iterable":
            start_response("200 OK", apps.PLAIN)
            return iterable
        return app(environ, start_response)

    server = start_server(slow, is_checked=False, drain_seconds=0.1, threads=4, native=native)
    client = raw_client(server)
    client.request(path)
    assert entered.wait(30)
    executor = server.server._threads.executor
    server.begin_drain()
    wait_until(lambda: not server._thread.is_alive())
    assert client.is_closed()
    (name,) = executor.threads.join(0)  # a sleeping thread is not inside the app
    (line,) = [line for line in caplog.messages if "still inside the app" in line]
    head = f"threads still inside the app at the end: {name}; stacks (the last call first):\n{name}, at GET {path}"
    assert line.startswith(head) and "\n  File " in line
    gate.set()
    wait_until(lambda: executor.threads.join(0.1) == [])
    if path == "/iterable":
        assert iterable.closed.is_set()
    assert ("raised ValueError" in caplog.text) == (path == "/raises")


def test_a_connection_that_is_handed_over_as_the_drain_begins():
    """A connection on the way at the drain's word closes after the response like the rest."""
    harness = Harness(lambda environ, start_response: [])
    connection = Connection(harness.service)
    exchange = connection.exchange = Exchange("", 0)
    harness.service.is_draining = True
    harness.connect(LoopWire(connection, is_new=False))
    assert not exchange.keep_alive
    harness.dispose()


# Failures on the way out


@pytest.mark.one_way
def test_a_connection_lost_on_its_way(start_server, wait_until):
    """A writing app meets the end each time; the descriptor's next owner is let alone."""
    go_on, failures = threading.Event(), []

    def writer(environ, start_response):
        numbers.append(list(lane.connections))
        write = start_response("200 OK", apps.PLAIN)
        if environ["PATH_INFO"] == "/other":
            entered.set()
            gate.wait(30)
            return [b"of the other"]
        for _ in range(2):
            try:
                write(b"of the first")
            except ClientDisconnected as exc:
                failures.append(exc)
                go_on.wait(30)
        return [b"of the first"]

    entered, gate, numbers = threading.Event(), threading.Event(), []
    server = start_server(writer, is_checked=False, threads=4)
    lane = server.server._listening.lane
    server.lose_handovers(1)
    first, second = socket.socket(), socket.socket()
    with first, second:
        for sock in (first, second):
            sock.settimeout(30)
        first.connect(server.address)
        first.sendall(GET % b"/first")
        wait_until(lambda: failures)
        second.connect(server.address)
        second.sendall(GET % b"/other")
        assert entered.wait(30)
        assert numbers[0] == numbers[1]  # the same number
        go_on.set()
        wait_until(lambda: len(failures) == 2)
        gate.set()
        assert second.recv(9999).endswith(b"of the other")
    server.wait_until_idle()


@pytest.mark.one_way
@pytest.mark.provokes("please report this as a bug")
def test_an_internal_error(start_server, raw_client, caplog):
    """A fault of ours costs the request, and the client sees the end; nothing is left. C has no gateway: see test_native.py."""
    server = start_server(app, is_checked=False, threads=2, native="off")
    gateway = server.server._listening.services[0].gateway

    class Broken:
        def respond(self, exchange):
            if "PATH_INFO\0/breaks" in exchange.vars:
                if "QUERY_STRING\0early" in exchange.vars:
                    exchange.connection.send(exchange, b"HTTP/1.1 200 OK\r\n")
                raise KeyError("ours")
            return gateway.respond(exchange)

    server.server._listening.services[0].gateway = Broken()
    for path in ("/breaks", "/breaks?early"):
        client = raw_client(server)
        client.fetch("/")
        client.request(path)
        if "early" in path:
            client.recv_until(b"\r\n")
        assert client.is_closed()
        client.close()  # the server lingers
    server.wait_until_idle()
    assert raw_client(server).fetch("/").status == 200
    assert caplog.text.count("report this as a bug") == 2


# With --threads 0


@pytest.mark.parametrize("lane", ["auto", "off"])
@pytest.mark.one_way
def test_what_is_written_does_not_wait_for_the_end(start_server, raw_client, lane):
    """PEP 3333: octets of write(), and an early hint, are on their way at the return, also on the loop's thread."""
    has_come = threading.Event()

    def patient(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</a>")])
        waited.append(has_come.wait(30))
        has_come.clear()
        write = start_response("200 OK", apps.PLAIN)
        write(b"first")
        waited.append(has_come.wait(30))
        has_come.clear()
        return [b"last"]

    client = raw_client(start_server(patient, is_checked=False, threads=0, lane=lane))
    for _ in range(2):
        waited = []
        client.request("/")
        assert client.recv_response().status == 103
        has_come.set()
        reply = client.recv_head()
        chunks = client.recv_chunks()
        assert next(chunks) == b"first"
        has_come.set()
        assert list(chunks) == [b"last"] and reply.status == 200
        assert waited == [True, True]


@pytest.mark.one_way
def test_much_is_written_before_the_end(start_server, raw_client):
    """Octets refused by the socket while the app runs follow in order."""

    def writer(environ, start_response):
        write = start_response("200 OK", [*apps.PLAIN, ("Content-Length", str(200 * len(BLOCK)))])
        for _ in range(199):
            write(BLOCK)
        return [BLOCK]

    client = raw_client(start_server(writer, is_checked=False, threads=0, lane="auto"))
    for _ in range(2):
        assert client.fetch("/").body == BLOCK * 200


@pytest.mark.one_way
def test_a_client_that_leaves_what_is_written_early(start_server, raw_client, wait_until):
    """The exchange ends as any, and nothing is counted as held."""
    piece, bodies = b"x" * (2 << 20), []

    def writer(environ, start_response):
        bodies.append(environ["wsgi.input"])
        write = start_response("200 OK", [*apps.PLAIN, ("Content-Length", str(3 * len(piece)))])
        write(piece)
        write(piece)
        client.reset()
        return [piece]

    server = start_server(writer, is_checked=False, threads=0, lane="auto")
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request("/")
    wait_until(lambda: bodies)
    server.wait_until_idle()
    assert server.statistics().responses_memory_bytes == 0


# Kept objects


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="its garbage collector comes when it likes")
@pytest.mark.also_inline
@pytest.mark.one_way
@pytest.mark.parametrize("path", ["/", "/pieces", "/write", "/large", "/file"])
def test_nothing_is_kept_of_a_request(start_server, raw_client, wait_until, path):
    """While a connection idles, and after the close, the last request and response are not in memory."""
    bodies = []

    def remembering(environ, start_response):
        bodies.append(weakref.ref(environ["wsgi.input"]))
        return app(environ, start_response)

    server = start_server(remembering, is_checked=False)
    client = raw_client(server)
    assert client.fetch(path, method="POST", body=b"x" * 1000).status == 200
    wait_until(lambda: (gc.collect(), bodies[0]())[1] is None)
    client.close()
    server.wait_until_idle()
    for connection in server.server._listening.lane.connections.values():
        assert connection.exchange is None


async def test_a_second_start_with_a_worker_left_behind():
    """A late response of a stopped server does not reach the clients of the next start."""
    gate, entered = threading.Event(), threading.Event()

    def slow(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        if environ["PATH_INFO"] == "/slow":
            entered.set()
            gate.wait(30)
            return [b"of the first start"]
        return [b"of the second"]

    async def ask(server, path):
        reader, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(GET % path)
        return reader, writer

    loop = asyncio.get_running_loop()
    server = aserve.Server(slow, bind="127.0.0.1:0", threads=2, drain_seconds=0.1)
    async with server:
        first, first_writer = await ask(server, b"/slow")
        assert await loop.run_in_executor(None, entered.wait, 30)
    assert await first.read() == b""
    executor = server._threads.executor
    async with server:
        clients = [await ask(server, b"/") for _ in range(20)]  # one of these has the number of the first
        gate.set()
        while executor.threads.join(0.0):
            await asyncio.sleep(0.001)
        for reader, writer in clients:
            writer.write(GET.replace(b"Host", b"Connection: close\r\nHost") % b"/")
            replies = await asyncio.wait_for(reader.read(), 30)
            assert replies.count(b"of the second") == 2 and b"of the first" not in replies
            writer.close()
    first_writer.close()


@pytest.mark.one_way
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_connections_of_the_same_number(start_server, tmp_path, family):
    """Clients without an address share a connection's number, one after another; an earlier exchange sends nobody anything."""
    seen = []

    def noting(environ, start_response):
        exchange = start_response("200 OK", apps.PLAIN).__self__.exchange
        for _, earlier in seen:
            with pytest.raises(ClientDisconnected):
                earlier.connection.send(earlier, b"too late")
        seen.append((exchange.connection.wire.fd, exchange))
        return [environ["PATH_INFO"].encode()]

    bind = "http://127.0.0.1:0" if family == socket.AF_INET else f"unix:{tmp_path / 'socket'}"
    server = start_server(noting, is_checked=False, bind=bind, threads=0, lane="auto")
    for path in (b"/1", b"/2", b"/3"):
        with socket.socket(family) as client:
            client.settimeout(30)
            client.connect(server.address)
            client.sendall(GET[:-2] % path + b"Connection: close\r\n\r\n")
            reply = b""
            while octets := client.recv(65536):
                reply += octets
        assert reply.endswith(b"\r\n\r\n" + path)
    connections = {id(exchange.connection) for _, exchange in seen}
    assert len(connections) == (3 if family == socket.AF_INET else len({fd for fd, _ in seen}))


@pytest.mark.one_way
@pytest.mark.parametrize(("path", "body"), [("/large", BLOCK * 48), ("/file", content_of_this_file())])
def test_large_bodies_stay_on_the_fast_path(start_server, raw_client, path, body):
    """A reading client gets large bodies without the event loop, time and again."""
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    for _ in range(3):
        assert client.fetch(path).body == body
        (connection,) = server.server._listening.lane.connections.values()
        assert connection.wire.in_lane


@pytest.mark.one_way
def test_a_large_body_whose_client_does_not_read(start_server, raw_client, wait_until, monkeypatch):
    """The event loop gets the body, with the time-outs; more clients are served meanwhile, and the body arrives whole."""
    monkeypatch.setattr(pump, "LATE_SECONDS", 0.01)
    server = start_server(app, is_checked=False)
    clients = [raw_client(server) for _ in range(5)]
    for client in clients:
        client.request("/much")
    assert raw_client(server).fetch("/large").body == BLOCK * 48
    wait_until(lambda: sum(wire.connection.exchange is not None for wire in server.server._listening.connections) == 5)
    for client in clients:
        assert client.recv_response().body == BLOCK * 512
