"""Serving until told to stop: in a task group, as a task, and as the process with its signals."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import signal
import socket
import threading

import anyio
import pytest
from harness.asking import get, is_open

import aserve
from aserve import running
from aserve import server as server_module
from aserve.errors import BindError
from aserve.server import Server
from aserve.settings import Config

LOOPBACK = "127.0.0.1:0"


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


# serve()


def test_serve_in_a_task_group():
    """anyio: the server is handed over once it accepts; cancelling drains."""

    async def main():
        async with anyio.create_task_group() as group:
            server = await group.start(aserve.serve, hello, LOOPBACK)
            (address,) = server.addresses
            assert (await get(address)).endswith(b"hello")
            group.cancel_scope.cancel()
        assert not is_open(address)

    anyio.run(main)


async def test_serve_as_a_task(tmp_path):
    """A plain asyncio task serves until it is cancelled, and finishes what runs."""
    path = str(tmp_path / "s")
    started, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        started.set()
        go_on.wait(10)
        return hello(environ, start_response)

    async def main():
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(aserve.serve(app, bind=f"unix:{path}"))
        while not os.path.exists(path):
            await asyncio.sleep(0)
        request = asyncio.ensure_future(get(path))
        await loop.run_in_executor(None, started.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert (await request).endswith(b"hello")
        with pytest.raises(asyncio.CancelledError):
            await task

    await main()


async def test_serve_where_the_settings_say(monkeypatch):
    """Without a place to bind, it is that of the settings."""
    given = []

    def stop(app, **settings):
        given.append(settings)
        raise BindError("no")

    monkeypatch.setattr(running, "Server", stop)
    with pytest.raises(BindError):
        await aserve.serve(hello, threads=1)
    assert given == [{"threads": 1}]


async def test_serve_that_cannot_bind():
    """serve() raises what Server raises."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BindError):
            await aserve.serve(hello, f"127.0.0.1:{other.getsockname()[1]}", threads=0)


# run()


class OnServing(logging.Handler):
    """Does something on the loop's own thread as soon as run() serves."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def emit(self, record):
        if record.getMessage().startswith("serving on "):
            self.act(record.getMessage())


@pytest.fixture
def on_serving(caplog):
    caplog.set_level(logging.INFO, "aserve")
    handlers = []

    def add(act):
        handlers.append(OnServing(act))
        running.logger.addHandler(handlers[-1])

    yield add
    for handler in handlers:
        running.logger.removeHandler(handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["bind", "config", "setting"])
def test_run_until_a_signal(number, kind, on_serving, caplog):
    """run() serves until SIGTERM or SIGINT, drains, and returns 0; handlers are as before."""
    before = signal.getsignal(number)
    on_serving(lambda _: os.kill(os.getpid(), number))
    if kind == "bind":
        status = aserve.run(hello, LOOPBACK, threads=1)
    elif kind == "config":
        status = aserve.run(hello, Config(bind=LOOPBACK, loop="asyncio"))
    else:
        status = aserve.run(hello, bind=LOOPBACK)
    assert status == 0 and signal.getsignal(number) == before
    assert f"{signal.Signals(number).name}: draining" in caplog.text and "stopped" in caplog.text


def test_run_with_tls(on_serving, authority, monkeypatch):
    """With https binds SIGHUP loads certificates anew; the handler is as before afterwards."""
    issued = authority.issue("localhost")
    before = signal.getsignal(signal.SIGHUP)
    calls = []

    def reload(self):
        calls.append(real(self))
        os.kill(os.getpid(), signal.SIGTERM)

    real = Server.reload_certificates
    monkeypatch.setattr(Server, "reload_certificates", reload)
    on_serving(lambda _: os.kill(os.getpid(), signal.SIGHUP))
    assert aserve.run(hello, f"https://{LOOPBACK}", certificate=issued.certificate, key=issued.key) == 0
    assert calls == [True] and signal.getsignal(signal.SIGHUP) == before


def test_run_without_tls(on_serving):
    """Without them SIGHUP is what it was."""
    before, seen = signal.getsignal(signal.SIGHUP), []
    on_serving(lambda _: seen.append(signal.getsignal(signal.SIGHUP)) or os.kill(os.getpid(), signal.SIGTERM))
    assert aserve.run(hello, LOOPBACK) == 0
    assert seen == [before]


def test_run_serves(on_serving):
    """What run() says it serves on can be fetched, by a client in another thread."""
    bodies = []

    def fetch(message):
        host, port = message.rpartition("http://")[2].split(":")
        thread = threading.Thread(target=talk, args=(host, int(port)), daemon=True)
        thread.start()

    def talk(host, port):
        client = http.client.HTTPConnection(host, port, timeout=10)
        client.request("GET", "/")
        bodies.append(client.getresponse().read())
        client.close()
        os.kill(os.getpid(), signal.SIGTERM)

    on_serving(fetch)
    assert aserve.run(hello, LOOPBACK) == 0
    assert bodies == [b"hello"]


def test_run_takes_a_config_or_settings():
    """run() refuses what Server refuses."""
    with pytest.raises(TypeError, match="not both"):
        aserve.run(hello, Config(bind=LOOPBACK), threads=3)


def test_a_signal_before_it_serves(monkeypatch, caplog):
    """A signal that comes while the server starts drains it, too: whoever has connected by then is served."""
    caplog.set_level(logging.INFO, "aserve")
    bound = server_module.open_listeners

    def open_listeners(*arguments):
        listeners = bound(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        return listeners

    monkeypatch.setattr(server_module, "open_listeners", open_listeners)
    before = signal.getsignal(signal.SIGTERM)
    assert aserve.run(hello, LOOPBACK) == 0 and signal.getsignal(signal.SIGTERM) == before
    assert "SIGTERM: draining" in caplog.text


def test_a_second_signal_at_once_is_the_same_one(on_serving, monkeypatch):
    """Ctrl-C comes to the process and its group: two signals together are one."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)

    def twice(_):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    on_serving(twice)
    assert aserve.run(hello, LOOPBACK) == 0 and ended == []


def test_a_second_signal_later_ends_at_once(on_serving, monkeypatch, caplog):
    """Who asks again after a while does not want to wait."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(running, "SAME_SIGNAL_SECONDS", -1.0)

    def twice(_):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    on_serving(twice)
    aserve.run(hello, LOOPBACK)
    assert ended in ([128 + signal.SIGINT], [128 + signal.SIGTERM])  # whichever came second
    assert "again: leaving at once" in caplog.text


def test_run_that_cannot_bind():
    """run() raises what Server raises, and leaves no event loop behind."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BindError):
            aserve.run(hello, f"127.0.0.1:{other.getsockname()[1]}")


def test_run_with_an_unclean_end(on_serving, caplog):
    """What could not be finished is an exit status of 1."""
    gate = threading.Event()

    def app(environ, start_response):
        os.kill(os.getpid(), signal.SIGTERM)
        gate.wait(10)
        return hello(environ, start_response)

    def connect(message):
        host, port = message.rpartition("http://")[2].split(":")
        client = socket.create_connection((host, int(port)))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        clients.append(client)

    clients = []
    on_serving(connect)
    assert aserve.run(app, LOOPBACK, drain_seconds=0) == 1
    gate.set()
    clients[0].close()


# The event loop


def test_the_kind_of_loop(monkeypatch):
    """auto takes uvloop where it is; asyncio is always there; uvloop must be."""
    uvloop = pytest.importorskip("uvloop")
    for kind, is_uvloop in (("auto", True), ("uvloop", True), ("asyncio", False)):
        loop = running._new_loop(kind)
        assert isinstance(loop, uvloop.Loop) is is_uvloop
        loop.close()


def test_without_uvloop(monkeypatch):
    """Where uvloop is missing, auto does without."""
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    loop = running._new_loop("auto")
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
    with pytest.raises(ImportError):
        running._new_loop("uvloop")
