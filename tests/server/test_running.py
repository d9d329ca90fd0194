"""Serving until told to stop: in a task group, as a task, and as the process with signals."""

import asyncio
import faulthandler
import functools
import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import threading

import anyio
import pytest
from harness.asking import get, hello, is_open

import aserve
from aserve.core.errors import BindError
from aserve.core.systemd import Notifier
from aserve.features import Config
from aserve.lifecycle.privileges import find_account
from aserve.server import listening as listening_module
from aserve.server import running
from aserve.server.server import Server
from aserve.settings import ConfigError

LOOPBACK = "127.0.0.1:0"


# serve()


def test_serve_in_a_task_group():
    """anyio: the server is handed over once accepting; cancelling drains."""

    async def main():
        async with anyio.create_task_group() as group:
            server = await group.start(aserve.serve, hello, LOOPBACK)
            (address,) = server.addresses
            assert (await get(address)).endswith(b"hello")
            group.cancel_scope.cancel()
        assert not is_open(address)

    anyio.run(main)


async def test_serve_as_a_task(tmp_path):
    """A plain asyncio task serves until cancelled, and finishes running requests."""
    path = str(tmp_path / "s")
    started, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        started.set()
        go_on.wait(30)
        return hello(environ, start_response)

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(aserve.serve(app, bind=f"unix:{path}"))
    while not os.path.exists(path):
        await asyncio.sleep(0)
    request = asyncio.ensure_future(get(path))
    await loop.run_in_executor(None, started.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    assert (await request).endswith(b"hello")
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_serve_where_the_settings_say(monkeypatch):
    """Without a place to bind, the settings have one."""
    given = []

    def stop(app, *by_position, **settings):
        given.append((by_position, settings))
        raise BindError("no")

    monkeypatch.setattr(running, "Server", stop)
    with pytest.raises(BindError):
        await aserve.serve(hello, threads=1)
    assert given == [((None, 1), {})]


SCRIPT = """
import aserve
aserve.serve(lambda environ, start_response: [], "127.0.0.1:0", 3)
"""


def test_serve_that_nothing_awaits():
    """The last line of a script says the words to write, on PyPy at exit."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert (
        "aserve.serve() was not awaited, and has served nothing: in a script write aserve.run(app, ...)" in done.stderr
    )


def test_when_serve_warns(recwarn):
    """A coroutine begun needs no word; nor one beside a loop: a cancelled task, or a task with a warning of Python."""
    running._warn_unawaited([None])
    asyncio.run(warn_beside_a_loop())
    assert not recwarn.list
    running._warn_unawaited([])
    assert [warning.category for warning in recwarn.list] == [RuntimeWarning]


async def warn_beside_a_loop():
    """Give up a coroutine while a loop runs."""
    running._warn_unawaited([])


async def test_serve_by_position(monkeypatch):
    """Bind and threads need no names; a task shows serve's."""
    given = []
    monkeypatch.setattr(running, "Server", lambda app, *some, **settings: given.append((some, settings)) or 1 / 0)
    serving = aserve.serve(hello, LOOPBACK, 3, lane="off")
    assert serving.__name__ == "serve"
    with pytest.raises(ZeroDivisionError):
        await serving
    assert given == [((LOOPBACK, 3), {"lane": "off"})]


async def test_serve_that_cannot_bind():
    """serve() raises the errors of Server."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BindError):
            await aserve.serve(hello, f"127.0.0.1:{other.getsockname()[1]}", threads=0)


# run()


class OnLine(logging.Handler):
    """Act on the thread of the loop as soon as the log has a line with this beginning."""

    def __init__(self, start, act):
        super().__init__()
        self.start, self.act = start, act

    def emit(self, record):
        if record.getMessage().startswith(self.start):
            self.act(record.getMessage())


@pytest.fixture
def on_line(caplog):
    """Act on a line of the log: on_line(start, act)."""
    caplog.set_level(logging.INFO, "aserve")
    handlers = []

    def add(start, act):
        handlers.append(OnLine(start, act))
        running.logger.addHandler(handlers[-1])

    yield add
    for handler in handlers:
        running.logger.removeHandler(handler)


@pytest.fixture
def on_serving(on_line):
    """Act as soon as run() serves."""
    return functools.partial(on_line, "serving on ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["bind", "config", "setting", "position"])
def test_run_until_a_signal(number, kind, on_serving, caplog):
    """run() serves until SIGTERM or SIGINT, drains, and returns 0; handlers are as before."""
    before = signal.getsignal(number)
    on_serving(lambda _: os.kill(os.getpid(), number))
    if kind == "bind":
        status = aserve.run(hello, LOOPBACK, threads=1)
    elif kind == "config":
        status = aserve.run(hello, Config(bind=LOOPBACK, loop="asyncio"))
    elif kind == "position":
        status = aserve.run(hello, LOOPBACK, 1)
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


@pytest.fixture
def hangup():
    """Set the handler of SIGHUP for the test; the old handler is put back afterwards."""
    before = signal.getsignal(signal.SIGHUP)
    yield functools.partial(signal.signal, signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_drains(hangup, on_serving, caplog):
    """With nothing to load anew, SIGHUP would end the process: the server drains."""
    hangup(signal.SIG_DFL)
    on_serving(lambda _: os.kill(os.getpid(), signal.SIGHUP))
    assert aserve.run(hello, LOOPBACK) == 0 and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    assert "SIGHUP: draining" in caplog.text and "stopped" in caplog.text


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["nohup", "own"])
def test_a_hangup_that_ends_nothing(handler, hangup, on_serving):
    """`nohup` and a handler of the program are left alone."""
    hangup(handler)
    seen = []
    on_serving(lambda _: seen.append(signal.getsignal(signal.SIGHUP)) or os.kill(os.getpid(), signal.SIGTERM))
    assert aserve.run(hello, LOOPBACK) == 0
    assert seen == [handler]


def test_run_serves_the_address_said(on_serving):
    """A client in another thread can fetch from the address said."""
    bodies = []

    def fetch(message):
        host, port = message.rpartition("http://")[2].split(":")
        thread = threading.Thread(target=talk, args=(host, int(port)), daemon=True)
        thread.start()

    def talk(host, port):
        client = http.client.HTTPConnection(host, port, timeout=30)
        client.request("GET", "/")
        bodies.append(client.getresponse().read())
        client.close()
        os.kill(os.getpid(), signal.SIGTERM)

    on_serving(fetch)
    assert aserve.run(hello, LOOPBACK) == 0
    assert bodies == [b"hello"]


def test_run_takes_a_config_or_settings():
    """run() refuses the same as Server."""
    with pytest.raises(TypeError, match="not both"):
        aserve.run(hello, Config(bind=LOOPBACK), threads=3)
    with pytest.raises(TypeError, match="not both"):
        aserve.run(hello, Config(bind=LOOPBACK), loop="asyncio")


@pytest.mark.parametrize("call", [aserve.run, aserve.Server])
@pytest.mark.parametrize(("name", "value"), [("control", "c"), ("workers", 2)])
def test_what_only_the_command_does(call, name, value):
    """A program asks for neither in vain: workers would have to import the app themselves, and a program can answer by itself."""
    with pytest.raises(ConfigError, match=rf"^{name} (is|are) the command's"):
        call(hello, bind=LOOPBACK, **{name: value})


def test_a_signal_before_it_serves(monkeypatch, caplog):
    """A signal during the start drains the server, too: clients connected by then are served."""
    caplog.set_level(logging.INFO, "aserve")
    bound = listening_module.bind_listeners

    def bind_listeners(config):
        listeners = bound(config)
        os.kill(os.getpid(), signal.SIGTERM)
        return listeners

    monkeypatch.setattr(listening_module, "bind_listeners", bind_listeners)
    before = signal.getsignal(signal.SIGTERM)
    assert aserve.run(hello, LOOPBACK) == 0 and signal.getsignal(signal.SIGTERM) == before
    assert "SIGTERM: draining" in caplog.text


def test_a_second_signal_at_once_is_the_same_one(on_serving, monkeypatch):
    """Ctrl-C comes to the process and to the group: two signals together are one."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)

    def twice(_):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    on_serving(twice)
    assert aserve.run(hello, LOOPBACK) == 0 and ended == []


def test_a_second_signal_later_ends_at_once(on_serving, monkeypatch, caplog):
    """A second request after a while means no wait."""
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
    """run() raises the errors of Server, and leaves no event loop behind."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BindError):
            aserve.run(hello, f"127.0.0.1:{other.getsockname()[1]}")


def test_run_with_an_unclean_end(on_serving, caplog):
    """Unfinished requests mean an exit status of 1."""
    gate = threading.Event()

    def app(environ, start_response):
        os.kill(os.getpid(), signal.SIGTERM)
        gate.wait(30)
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


def test_standard_descriptors_are_filled_again(monkeypatch):
    """A view may close a descriptor at any time."""
    calls = []
    monkeypatch.setattr(running, "FILLING_SECONDS", 0.0)
    monkeypatch.setattr(running, "fill_standard_streams", lambda: calls.append(None))
    running.run_on_new_loop("asyncio", lambda _: asyncio.sleep(0.001, 0))
    assert len(calls) > 1


def test_the_kind_of_loop(monkeypatch):
    """auto takes uvloop where installed; asyncio is always there; uvloop must be."""
    uvloop = pytest.importorskip("uvloop")
    for kind, is_uvloop in (("auto", True), ("uvloop", True), ("asyncio", False)):
        loop = running.new_loop(kind)
        assert isinstance(loop, uvloop.Loop) is is_uvloop
        loop.close()


def test_without_uvloop_auto_takes_asyncio(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    loop = running.new_loop("auto")
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
    with pytest.raises(ImportError):
        running.new_loop("uvloop")


# The process


def terminate(_):
    os.kill(os.getpid(), signal.SIGTERM)


def test_what_the_process_becomes(tmp_path, monkeypatch, on_serving):
    """The process binds, writes the pid file, becomes another account, and only then serves; in the end all is put away."""
    seen = []
    monkeypatch.setattr(running, "become", lambda account: seen.append((account, sorted(os.listdir(tmp_path)))))
    on_serving(terminate)
    bind, path = f"unix:{tmp_path}/s", str(tmp_path / "a.pid")
    assert aserve.run(hello, bind, user="nobody", pid_file=path) == 0
    assert seen == [(find_account("nobody", None), ["a.pid", "s"])]
    assert os.listdir(tmp_path) == []


def test_who_may_not_become_another(tmp_path, monkeypatch):
    """Bound sockets are let go."""

    def refuse(account):
        raise ConfigError("only root may")

    monkeypatch.setattr(running, "become", refuse)
    with pytest.raises(ConfigError, match="only root may"):
        aserve.run(hello, f"unix:{tmp_path}/s", user="nobody", pid_file=str(tmp_path / "a.pid"))
    assert os.listdir(tmp_path) == []


def test_umask_is_of_the_whole_process(on_serving):
    before = os.umask(0)
    os.umask(before)
    on_serving(terminate)
    try:
        aserve.run(hello, LOOPBACK, umask="027")
        assert os.umask(before) == 0o027
    finally:
        os.umask(before)


def test_an_app_alone(tmp_path, on_serving):
    """Bound before or not, a single process is no wsgi.multiprocess."""
    bodies = []

    def app(environ, start_response):
        start_response("200 OK", [])
        return [str(environ["wsgi.multiprocess"]).encode()]

    def fetch(_):
        def talk():
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "s"))
                client.send(b"GET / HTTP/1.0\r\n\r\n")
                bodies.append(b"".join(iter(lambda: client.recv(9999), b"")))
            terminate(None)

        threading.Thread(target=talk, daemon=True).start()

    on_serving(fetch)
    assert aserve.run(app, f"unix:{tmp_path}/s", pid_file=str(tmp_path / "a.pid")) == 0
    assert bodies[0].endswith(b"False")


# systemd


@pytest.fixture
def manager(manager, monkeypatch):
    """A service manager with this process as service."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    return manager


def test_systemd_is_told(manager, on_serving):
    """READY once accepting, STOPPING when draining, each with a line for `systemctl status`."""
    on_serving(terminate)
    assert aserve.run(hello, LOOPBACK, drain_seconds=7) == 0
    ready, stopping = manager.hear()
    assert ready[0] == "READY=1" and ready[1].startswith("STATUS=serving on http://127.0.0.1:")
    assert stopping == ["STOPPING=1", "STATUS=SIGTERM: draining, at most 7 s"]


def test_what_systemd_could_not_take(manager, on_serving, monkeypatch):
    """READY is said again, or systemd would end the service after the time for a start."""
    real, sent = Notifier.send, []

    def send(self, *fields, fds=()):
        sent.append(fields[0])
        if sent.count("READY=1") == 2:
            terminate(None)
        return len(sent) > 1 and real(self, *fields, fds=fds)

    monkeypatch.setattr(running, "TELLING_SECONDS", 0.001)
    monkeypatch.setattr(Notifier, "send", send)
    assert aserve.run(hello, LOOPBACK) == 0
    assert [message[0] for message in manager.hear()] == ["READY=1", "STOPPING=1"]


def test_a_certificate_that_could_not_be_had_is_told_to_systemd(manager, monkeypatch):
    """The line of `systemctl status` has the warnings of options, from a second after READY."""
    real = Notifier.status
    monkeypatch.setattr(running, "TELLING_SECONDS", 0.001)
    monkeypatch.setattr(Notifier, "status", lambda self, text: terminate(None) or real(self, text))
    monkeypatch.setattr(Config, "advise", lambda self, facts: [("No new certificate: refused.", str(facts))])
    assert aserve.run(hello, LOOPBACK) == 0
    assert manager.hear()[1][0].endswith("; no new certificate: refused")


def test_a_reload_for_systemd(manager, on_serving, authority, monkeypatch):
    """Type=notify-reload sends SIGHUP, and waits for RELOADING with the time, and READY; also after a failure."""
    issued = authority.issue("localhost")
    outcomes, real = [False, True], Server.reload_certificates

    def reload(self):
        outcome = outcomes.pop() and real(self)
        os.kill(os.getpid(), signal.SIGHUP if outcomes else signal.SIGTERM)
        return outcome

    monkeypatch.setattr(Server, "reload_certificates", reload)
    on_serving(lambda _: os.kill(os.getpid(), signal.SIGHUP))
    assert aserve.run(hello, f"https://{LOOPBACK}", certificate=issued.certificate, key=issued.key) == 0
    first, *reloads, _ = manager.hear()
    assert [message[0] for message in reloads] == ["RELOADING=1", "READY=1"] * 2
    assert [message[1].partition("=")[0] for message in reloads] == ["MONOTONIC_USEC", "STATUS"] * 2
    assert reloads[1][1] == first[1]
    assert reloads[3][1] == first[1] + "; SIGHUP has changed nothing, see the log"


def test_a_reload_of_nothing(manager, on_line, caplog):
    """Without certificates systemd's SIGHUP ends nobody: READY answers, and the log says the remedy."""
    on_line("SIGHUP: nothing was loaded anew", terminate)
    on_line("serving on ", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    assert aserve.run(hello, LOOPBACK) == 0
    assert [message[0] for message in manager.hear()] == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    assert "restart for new code" in caplog.text


def test_a_thread_does_not_speak_for_the_process(manager):
    """run() in a thread of a program says nothing to systemd, and handles no signals."""
    ended = []

    async def serve_and_fail(self):
        await start(self)
        self._threads.failing.begin("the test is over")

    with pytest.MonkeyPatch.context() as patch:
        start = Server.start
        patch.setattr(Server, "start", serve_and_fail)
        thread = threading.Thread(target=lambda: ended.append(aserve.run(hello, LOOPBACK)))
        thread.start()
        thread.join()
    assert ended == [1] and manager.hear() == []


def test_signals_that_mean_nothing_here(on_serving, monkeypatch, caplog):
    """A line answers such a signal; in the background of a terminal SIGTTIN and SIGTTOU stop the process; SIGQUIT ends the process."""
    told = []
    monkeypatch.setattr(running, "end_at_once", told.append)
    monkeypatch.setattr(running, "is_in_background", lambda: "SIGTTIN" in caplog.text)
    signal.signal(signal.SIGTTIN, signal.SIG_DFL)

    def send(server):
        for number in (signal.SIGTTIN, signal.SIGQUIT, signal.SIGTERM):
            os.kill(os.getpid(), number)

    on_serving(send)
    assert aserve.run(hello, LOOPBACK) == 0
    assert told == [signal.SIGQUIT] and "SIGTTIN: nothing was done: without --workers" in caplog.text
    stopped = []
    monkeypatch.setattr(os, "kill", lambda pid, number: stopped.append(number))
    running._on_other(signal.SIGTTOU)
    assert stopped == [signal.SIGSTOP]


@pytest.fixture
def watchdog(manager, monkeypatch):
    """The watchdog is to be fed, and each second is an instant."""
    monkeypatch.setattr(running, "TELLING_SECONDS", 0.001)
    monkeypatch.setenv("WATCHDOG_USEC", "4000000")
    enabled = []
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: False)
    monkeypatch.setattr(faulthandler, "enable", lambda: enabled.append(1))
    yield manager
    assert enabled == [1]  # SIGABRT shows where every thread is


def test_the_watchdog_is_fed(watchdog, on_serving):
    """systemd is told again and again of a healthy server, also during the drain."""
    seen = []

    async def drain(self):
        seen.append(len(watchdog.hear()))
        while len(watchdog.hear()) < seen[0] + 3:
            await asyncio.sleep(0)
        return await real(self)

    real = Server.drain
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "drain", drain)
        on_serving(terminate)
        assert aserve.run(hello, LOOPBACK) == 0
    assert watchdog.hear()[seen[0] :] == [["WATCHDOG=1"]] * (len(watchdog.messages) - seen[0])


def test_the_watchdog_is_not_fed(watchdog, on_serving, monkeypatch, caplog):
    """While no worker begins waiting requests, systemd hears nothing; half-way the log tells the end to come."""
    looks = []

    def statistics(self):
        looks.append(1)
        if len(looks) == 3:
            terminate(None)
        return real(self)._replace(requests_stalled_seconds=1)

    real = Server.statistics
    monkeypatch.setattr(Server, "statistics", statistics)
    assert aserve.run(hello, LOOPBACK) == 0
    assert [message[0] for message in watchdog.hear()] == ["READY=1", "STOPPING=1"]
    assert caplog.text.count("no progress for 2 s: ") == caplog.text.count("in 2 s systemd's watchdog") == 1
