"""Serving on an event loop: bound sockets are let go, running requests finished."""

import asyncio
import errno
import os
import socket
import sys
import threading
import types

import pytest
from harness.asking import get, hello, is_open
from harness.front import free_port

from aserve.connections.accepting.acceptor import Acceptor
from aserve.connections.listeners import bind_listeners
from aserve.core.errors import BindError
from aserve.features import Config
from aserve.lifecycle.loading import PatchedError
from aserve.server import listening as listening_module
from aserve.server.arguments import Processes
from aserve.server.server import Server
from aserve.settings import ConfigError
from aserve.wsgi.response import CommonFields

LOOPBACK = "127.0.0.1:0"


# Settings


def test_a_server_that_has_not_started():
    """Before start there is nothing to tell."""
    server = Server(hello, bind=LOOPBACK)
    assert server.addresses == server.urls == []


def test_a_start_without_a_loop():
    """A server takes the loop of asyncio: under trio, or none, the reason says so."""
    with pytest.raises(RuntimeError, match="no event loop of asyncio"):
        Server(hello, bind=LOOPBACK).start().send(None)


async def test_a_second_start():
    """The second start is refused, and the first serves on."""
    async with Server(hello, bind=LOOPBACK) as server:
        with pytest.raises(RuntimeError, match="serves already; it may start again when it has drained"):
            await server.start()
        assert server.addresses


def test_an_end_without_a_start():
    """The drain of a server never started does nothing; waiting for its failure is a mistake."""

    async def main():
        server = Server(hello, bind=LOOPBACK)
        assert await server.drain()
        with pytest.raises(RuntimeError, match=r"after start"):
            await server.wait_failing()

    asyncio.run(main())


def test_where_threads_are_none(monkeypatch):
    """An app with threads and sockets patched away is not served, and nothing is bound."""
    monkeypatch.setitem(sys.modules, "gevent.monkey", types.SimpleNamespace(is_module_patched=lambda name: True))

    async def main():
        server = Server(hello, bind=LOOPBACK)
        with pytest.raises(PatchedError):
            await server.start()
        assert server.addresses == []

    asyncio.run(main())


# A server's life


@pytest.mark.parametrize("threads", [0, 2])
async def test_serve_and_drain(threads):
    """Within the block the server serves, and knows where; afterwards nothing is bound any more."""
    async with Server(hello, bind=[LOOPBACK, LOOPBACK], threads=threads) as server:
        addresses = list(server.addresses)
        assert len(set(addresses)) == 2
        assert server.urls == [f"http://{host}:{port}" for host, port in addresses]
        for address in addresses:
            assert (await get(address)).endswith(b"\r\n\r\nhello")
    for address in addresses:
        assert not is_open(address)
    await asyncio.sleep(0)


async def test_a_unix_socket(tmp_path):
    """The file of a unix socket comes and goes with the server; the client has no address."""
    path, seen = str(tmp_path / "s"), {}

    def app(environ, start_response):
        seen.update(environ)
        return hello(environ, start_response)

    async with Server(app, bind=f"unix:{path}") as server:
        assert server.addresses == [path] and server.urls == [f"unix:{path}"]
        assert (await get(path)).endswith(b"hello")
    assert not os.path.exists(path)
    assert seen["REMOTE_ADDR"] == "" and seen["SERVER_NAME"] == "localhost"


async def test_what_the_listener_says():
    """Each listener has a base environ."""
    seen = []

    def app(environ, start_response):
        names = ("SERVER_NAME", "SERVER_PORT", "SERVER_SOFTWARE", "wsgi.multithread")
        seen.append([environ[name] for name in names])
        return hello(environ, start_response)

    async with Server(app, bind=LOOPBACK, threads=1, server_name="") as server:
        octets = await get(server.addresses[0])
        assert b"\r\nServer:" not in octets
        assert seen == [["127.0.0.1", str(server.addresses[0][1]), "aserve", False]]


async def test_unready_by_the_program():
    """A program unready by its own word gets all requests all the same."""
    async with Server(hello, bind=[LOOPBACK, LOOPBACK], healthcheck_path="/health") as server:
        server.set_unready("the database is gone")
        for address in server.addresses:
            reply = await get(address, "/health/ready")
            assert reply.startswith(b"HTTP/1.1 503 ") and reply.endswith(b"the database is gone\n")
            assert (await get(address)).endswith(b"hello")
        server.set_unready("")
        assert (await get(server.addresses[0], "/health")).endswith(b"\r\nready\n")


async def test_drain_has_an_end(caplog):
    """After drain_seconds, hanging requests are cut off, named, and left behind."""
    started, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        started.set()
        go_on.wait(30)
        return hello(environ, start_response)

    server = Server(app, bind=LOOPBACK, drain_seconds=0.01)
    await server.start()
    request = asyncio.ensure_future(get(server.addresses[0]))
    await asyncio.get_running_loop().run_in_executor(None, started.wait, 30)
    assert await server.drain() is False
    try:
        assert await request == b""
    except ConnectionError:
        pass
    assert "connections aborted, as they were unfinished after --drain-timeout: 1" in caplog.text
    assert "threads still inside the app at the end: aserve-worker-1" in caplog.text
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("aserve-worker-"):
            thread.join(30)
    assert "report this" not in caplog.text


async def test_drain_twice_and_start_again():
    """A drained server may start again; draining twice does nothing more."""
    server = Server(hello, bind=LOOPBACK, threads=1)
    for _ in range(2):
        await server.start()
        (address,) = server.addresses
        assert (await get(address)).endswith(b"hello")
        assert await server.drain() is True
        assert await server.drain() is True
        assert not is_open(address)


PACKET = b"\x00\x15\x00\x00\x0e\x00REQUEST_METHOD\x03\x00GET"


@pytest.mark.both_loops
@pytest.mark.parametrize("bind", ["uwsgi://127.0.0.1:0", "uwsgi://unix:{}/s"])
async def test_what_the_kernel_has_queued_is_served(bind, tmp_path):
    """The request of a front server is answered, though nobody has accepted the connection yet."""
    server = Server(hello, bind=bind.format(tmp_path), threads=1)
    await server.start()
    (address,) = server.addresses
    clients = []
    for _ in range(5):
        clients.append(socket.socket(socket.AF_UNIX if "unix" in bind else socket.AF_INET))
        clients[-1].connect(address)
        clients[-1].send(PACKET)
    assert await server.drain() is True  # not one turn of the loop since the clients have connected
    for client in clients:
        client.settimeout(30)
        assert client.recv(4096).endswith(b"hello")
        client.close()


async def test_a_queue_of_clients_that_are_gone(monkeypatch):
    """With clients gone again, a drain goes on."""

    async def fail(*_):
        raise OSError(errno.ECONNRESET, "Connection reset by peer")

    server = Server(hello, bind=LOOPBACK)
    await server.start()
    (address,) = server.addresses
    with socket.create_connection(address):
        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail)
        assert await server.drain() is True


# Listeners shared with more processes


@pytest.fixture
def shared(tmp_path):
    """Listeners bound by another process: shared(bind)."""
    opened = []

    def open_(bind):
        opened.extend(bind_listeners(Config(bind=bind.format(tmp_path))))
        return opened

    yield open_
    for listener in opened:
        listener.close()


BINDS = ["uwsgi://127.0.0.1:0", "uwsgi://unix:{}/s"]


@pytest.mark.both_loops
@pytest.mark.parametrize("bind", BINDS)
@pytest.mark.parametrize("lane", ["auto", "off"])
async def test_a_server_that_is_replaced_leaves_the_queue(bind, lane, shared):
    """Clients queued on shared listeners when one server ends are served by another."""
    listeners = shared(bind)
    old = Server(hello, threads=1, lane=lane, processes=Processes(listeners))
    await old.start()
    (address,) = old.addresses
    client = socket.socket(socket.AF_UNIX if "unix" in bind else socket.AF_INET)
    client.connect(address)
    client.send(PACKET)
    assert await old.drain(is_replaced=True) is True
    assert old.addresses == [] and listeners[0].address == address
    async with Server(hello, threads=1, lane=lane, processes=Processes(listeners)) as new:
        assert new.addresses == [address]
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        assert (await asyncio.wait_for(loop.sock_recv(client, 4096), 30)).endswith(b"hello")
    client.close()


@pytest.mark.parametrize("bind", BINDS)
async def test_a_server_that_is_not_replaced_ends_shared_listeners(bind, shared):
    """Where nobody goes on, the queue is served, and nobody else comes, though another process holds the listener."""
    (listener,) = shared(bind)
    server = Server(hello, threads=1, processes=Processes([listener._replace(socket=listener.socket.dup())]))
    await server.start()
    (address,) = server.addresses
    family = socket.AF_UNIX if "unix" in bind else socket.AF_INET
    with socket.socket(family) as client, socket.socket(family) as late:
        client.connect(address)
        client.send(PACKET)
        assert await server.drain() is True
        client.settimeout(30)
        assert client.recv(4096).endswith(b"hello")
        with pytest.raises(OSError):
            late.connect(address)


async def test_a_start_that_fails_leaves_shared_listeners(shared, tmp_path):
    """The server does not close the listeners of another process."""
    (listener,) = shared(BINDS[1])
    server = Server(hello, processes=Processes([listener]), access_log=str(tmp_path / "no" / "log"))
    with pytest.raises(BindError):
        await server.start()
    async with Server(hello, threads=1, processes=Processes([listener])) as other:
        assert other.addresses == [listener.address]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_other_processes_are_told_to_the_app(is_shared, shared):
    """PEP 3333: wsgi.multiprocess says whether another process may call the app, too."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [str(environ["wsgi.multiprocess"]).encode()]

    listeners = shared(LOOPBACK) if is_shared else None
    async with Server(app, bind=LOOPBACK, threads=1, processes=Processes(listeners)) as server:
        assert (await get(server.addresses[0])).endswith(str(is_shared).encode())


@pytest.mark.both_loops
@pytest.mark.parametrize("lane", ["auto", "off"])
async def test_kept_connections_may_ask_once_more_when_it_is_replaced(lane, shared, monkeypatch):
    """A request on the way while the server drains is answered, and the connection closed; an idle connection is closed."""
    monkeypatch.setattr("aserve.server.server.LEAVING_SECONDS", 0.3)
    server = Server(hello, threads=1, lane=lane, processes=Processes(shared(LOOPBACK)))
    await server.start()
    streams = [await get(server.addresses[0], keep_alive=True) for _ in range(2)]
    draining = asyncio.ensure_future(server.drain(is_replaced=True))
    (_, reader, writer), (_, idle, idle_writer) = streams
    head = b""
    while b"Connection: close\r\n" not in head:  # connections are kept until each is told
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        assert await reader.readexactly(5) == b"hello"
    assert await reader.read() == b""
    assert not draining.done()
    assert await asyncio.wait_for(idle.read(), 30) == b""
    assert await draining is True
    for open_ in (writer, idle_writer):
        open_.close()


async def test_after_the_end_it_listens_nowhere():
    """A drained server has no addresses."""
    server = Server(hello, bind=LOOPBACK)
    await server.start()
    await server.drain()
    assert server.addresses == server.urls == []


async def test_several_servers_share_a_loop():
    """Servers know nothing of each other."""
    async with Server(hello, bind=LOOPBACK, threads=1) as one:
        async with Server(hello, bind=LOOPBACK, threads=0) as two:
            assert (await get(two.addresses[0])).endswith(b"hello")
        assert (await get(one.addresses[0])).endswith(b"hello")


# BindError leaves nothing bound


@pytest.mark.parametrize("what", ["port", "log", "file"])
async def test_a_failing_start_leaves_nothing_bound(what, tmp_path):
    """After a failing open, everything opened before is closed again."""
    port, path = free_port(), tmp_path / "s"
    bind, settings = [f"127.0.0.1:{port}", f"unix:{path}"], {}
    if what == "port":
        bind.append(bind[0])
    elif what == "file":
        bind.append(f"unix:{tmp_path}/no/s")
    else:
        settings["access_log"] = str(tmp_path / "no" / "log")

    server = Server(hello, bind=bind, **settings)
    with pytest.raises(BindError):
        await server.start()
    assert server.addresses == []
    assert not is_open(("127.0.0.1", port)) and not path.exists()
    async with Server(hello, bind=bind[:2]):
        assert is_open(("127.0.0.1", port))


@pytest.mark.parametrize("threads", [0, 2])
async def test_a_start_that_fails_half_way_through(threads, monkeypatch):
    """Workers waiting for requests end again, and the start may be tried anew."""
    ports = [free_port(), free_port()]
    monkeypatch.setattr(listening_module, "is_available", lambda listener, _: listener.address[1] == ports[0])

    def fail(_):
        raise MemoryError

    server = Server(hello, bind=[f"127.0.0.1:{port}" for port in ports], threads=threads)
    before = {*threading.enumerate()}  # a thread of another test may be ending
    with monkeypatch.context() as patch:
        patch.setattr(Acceptor, "start", fail)
        with pytest.raises(MemoryError):
            await server.start()
    assert server.addresses == [] and server.connection_count == 0
    assert not any(is_open(("127.0.0.1", port)) for port in ports)
    assert not [each for each in {*threading.enumerate()} - before if each.name.startswith("aserve-worker")]
    async with server:
        for port in ports:
            assert (await get(("127.0.0.1", port))).endswith(b"hello")


async def test_certificates_that_cannot_be_used():
    """start() names the fault, and has bound nothing."""
    port = free_port()
    with pytest.raises(ConfigError, match="cannot read the certificate"):
        await Server(hello, bind=[f"127.0.0.1:{port}", "https://:0"], certificate="/nowhere/a.pem").start()
    assert not is_open(("127.0.0.1", port))


# The timer


async def test_every_second_the_server_has_its_chores(tmp_path, monkeypatch):
    """Connections are looked at, the Date moves, the access log is written."""
    loop = asyncio.get_running_loop()
    timers = []
    monkeypatch.setattr(loop, "call_later", lambda seconds, *call: timers.append((seconds, *call)) or timer)
    timer = loop.call_soon(lambda: None)
    server = Server(hello, bind=LOOPBACK, threads=0, access_log=str(tmp_path / "log"))
    await server.start()
    (seconds, tick), *_ = timers
    assert seconds == 1.0
    _, reader, writer = await get(server.addresses[0], keep_alive=True)
    assert (tmp_path / "log").read_text() == ""
    tick()
    assert '"GET / HTTP/1.1" 200 5' in (tmp_path / "log").read_text()
    assert timers.count((1.0, tick)) == 2
    for _ in range(77):
        tick()
    assert await reader.read() == b""  # idle for longer than keep_alive_seconds
    writer.close()
    monkeypatch.undo()
    await server.drain()


async def test_a_fault_does_not_stop_the_timer(monkeypatch):
    """Time-outs of all connections must not end with a fault in the look of one second."""
    loop = asyncio.get_running_loop()
    timers = []
    timer = loop.call_soon(lambda: None)
    monkeypatch.setattr(loop, "call_later", lambda *call: timers.append(call) or timer)
    server = Server(hello, bind=LOOPBACK, threads=0)
    await server.start()
    monkeypatch.setattr(CommonFields, "refresh", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        timers[0][1]()
    assert timers[0] == timers[1]
    monkeypatch.undo()
    await server.drain()


async def test_reopening_logs_begins_a_new_file(tmp_path):
    """Without an access log there is nothing to do."""
    server = Server(hello, bind=LOOPBACK, threads=0)
    server.reopen_logs()
    async with Server(hello, bind=LOOPBACK, threads=0, access_log=str(tmp_path / "log")) as server:
        (tmp_path / "log").rename(tmp_path / "log.1")
        server.reopen_logs()
        assert sorted(os.listdir(tmp_path)) == ["log", "log.1"]


async def test_a_second_without_an_access_log(monkeypatch):
    """Most servers have no access log to write."""
    loop = asyncio.get_running_loop()
    timers = []
    timer = loop.call_soon(lambda: None)
    monkeypatch.setattr(loop, "call_later", lambda *call: timers.append(call) or timer)
    async with Server(hello, bind=LOOPBACK, threads=0):
        timers[0][1]()
        assert timers[0] == timers[1]
        monkeypatch.undo()


async def test_drain_after_a_failing_start(tmp_path):
    """A server without a start has nothing to finish."""
    server = Server(hello, bind=f"unix:{tmp_path}/no/s")
    with pytest.raises(BindError):
        await server.start()
    assert await server.drain() is True


@pytest.mark.parametrize(("slot", "are_taken"), [(None, True), (2, False)])
async def test_times_for_the_control_socket(tmp_path, slot, are_taken):
    """`aserve status` has the oldest requests; with workers, the supervisor reads their memory."""
    async with Server(
        hello, Config(bind=LOOPBACK, control=str(tmp_path / "c")), processes=Processes(is_alone=True, slot=slot)
    ) as server:
        assert [service.times_requests for service in server._listening.services] == [are_taken]


@pytest.mark.parametrize(("metrics", "seconds"), [(True, 3.0), (False, 0.0)])
async def test_how_long_threads_were_busy(tmp_path, metrics, seconds):
    """Where requests are timed and counted, running requests are included."""
    settings = {"metrics": f"unix:{tmp_path}/m"} if metrics else {}
    async with Server(hello, bind=LOOPBACK, **settings) as server:
        server._inner.thread_seconds = lambda now: 3.0
        server._on_second()
        assert server._threads.busy.seconds == seconds
