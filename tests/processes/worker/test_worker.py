"""The child's side: words, and acts at the supervisor's word."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
import types

import pytest
from harness.asking import get, hello
from harness.interpreter import has_module
from harness.leading import Leading, lead_by

from aserve.core.errors import Fault
from aserve.core.page import Field
from aserve.features.metrics import app as app_metrics
from aserve.lifecycle.load_error import LoadError
from aserve.processes.children import forked as forked_module
from aserve.processes.children.forked import LEFT_TO_SUPERVISOR
from aserve.processes.children.pages import Pages
from aserve.processes.children.role import Role
from aserve.processes.transfers.passing import MAX_RETURNS
from aserve.processes.worker import worker as worker_module
from aserve.processes.worker.worker import Worker, run_worker
from aserve.server import running as running_module

LOOPS = ["asyncio", "uvloop"] if has_module("uvloop") else ["asyncio"]


@pytest.fixture(autouse=True)
def ended_in_time(monkeypatch):
    """The seconds until a worker would end this process, the tests' own."""
    found = []
    monkeypatch.setattr(worker_module, "end_in_time", found.append)
    return found


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Keep out the lasting settings of a worker."""
    monkeypatch.setattr(forked_module.faulthandler, "enable", lambda: None)


class Led(Leading):
    """A worker's surroundings: the supervisor's end of the channel, the page, the listeners."""

    def __init__(self, **settings):
        super().__init__(**{"workers": 1, "threads": 1, **settings})
        pages = Pages(1)
        number = pages.take()
        self.page = pages.page(number)
        self.address = self.listeners[0].address
        self.role = Role(2, 1, self.plan, self.theirs, self.listeners, self.page, pages, pages.new_board(number))

    def run(self, load, supervise=None):
        """Be this worker, and the supervisor in another thread; return the exit status."""
        failures = []

        def lead():
            try:
                supervise()
            except BaseException as exc:  # the worker would wait for the word for ever
                failures.append(exc)
                self.channel.send(DRAIN)

        thread = threading.Thread(target=lead if supervise else lambda: None, daemon=True)
        thread.start()
        try:
            status = run_worker(self.role, load)
        finally:
            thread.join(30)
            assert not thread.is_alive()
        if failures:
            raise failures[0]
        return status

    def wait_now(self, said):
        """Return the first message with this word, with descriptors; the message is already sent."""
        while True:
            message, fds = self.channel.receive()
            if message["say"] == said:
                return message, fds

    def wait_for(self, said, wait_until):
        """Wait until the worker says this; return the words."""
        heard = []

        def look():
            heard.extend(self.heard())
            return [message for message in heard if message["say"] == said]

        return wait_until(look)[0]


lead = lead_by(Led)


DRAIN = {"do": "drain", "stopping": True}


def test_an_app_that_cannot_be_loaded(lead):
    """The supervisor is told why, with the app's traceback; the exit status is 1."""
    led = lead()

    def load():
        raise LoadError("no module 'a'", "Traceback: here\n")

    assert led.run(load) == 1
    assert led.heard() == [{"say": "failed", "why": "no module 'a'", "traceback": "Traceback: here\n"}]


def test_a_failed_warm_up_serves_no_code(lead, caplog):
    """New code answering --warm-up with 5xx is not served: the supervisor is told before anything is ready."""
    led = lead(warm_up=["/"])
    led.role = led.role._replace(is_new=True)

    def broken(environ, start_response):
        start_response("500 No", [])
        return []

    assert led.run(lambda: broken) == 1
    (said,) = led.heard()
    assert said["say"] == "failed" and said["why"].startswith("the app has answered --warm-up / with status 500")


def test_warm_up_before_it_is_ready(lead, wait_until):
    """Answers to --warm-up come before the first client, and before the word."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["HTTP_USER_AGENT"])
        return hello(environ, start_response)

    led = lead(warm_up=["/", "/b"])

    def supervise():
        led.wait_for("ready", wait_until)
        assert seen == ["aserve --warm-up"] * 2
        led.channel.send(DRAIN)

    assert led.run(lambda: app, supervise) == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_serving_is_told_and_drained(lead, wait_until, loop, monkeypatch):
    """A worker tells of readiness when serving, writes a page, and drains at the order."""
    monkeypatch.setattr(worker_module, "is_short_of_descriptors", lambda: True)
    led = lead(loop=loop)

    def supervise():
        led.wait_for("ready", wait_until)
        with socket.create_connection(led.address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(4096).endswith(b"hello")
            wait_until(lambda: led.page[Field.CONNECTIONS] == 1)
        assert led.page[Field.TICK] > 0 and led.page[Field.TICKED_AT] > 0 and led.page[Field.SHORT_OF_DESCRIPTORS]
        led.channel.send(DRAIN)

    assert led.run(lambda: hello, supervise) == 0


def test_a_trial_serves_out_of_reach(lead, wait_until):
    """A trial serves without a place beside workers, out of reach."""
    led = lead()
    led.role = led.role._replace(pages=None, load_board=None)
    assert led.run(lambda: hello, lambda: (led.wait_for("ready", wait_until), led.channel.send(DRAIN))) == 0


def test_a_fault_instead_of_the_app(lead, wait_until):
    """A failing app is not imported again; a browser sees why."""
    led = lead(workers=1, reload=True)
    led.role = led.role._replace(fault=Fault("no module 'a'", ""))

    def supervise():
        led.wait_for("ready", wait_until)
        with socket.create_connection(led.address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
            found = client.makefile("rb").read()
        assert found.startswith(b"HTTP/1.1 500 ") and b"no module" in found
        led.channel.send(DRAIN)

    assert led.run(pytest.fail, supervise) == 0


def test_told_to_end_before_it_serves(lead, monkeypatch):
    """Such a worker accepts no client, and says nothing."""
    led = lead()
    new_loop = running_module.new_loop
    monkeypatch.setattr(running_module, "new_loop", lambda kind: (led.channel.send(DRAIN), new_loop(kind))[1])
    assert led.run(lambda: hello) == 0
    assert led.heard() == [] and led.page[Field.TICK] == 0


def test_what_was_not_finished(lead, wait_until, tmp_path):
    """The exit status says so; the supervisor is told before, as something may keep the process from ending."""
    led = lead(drain_seconds=0)
    gate = threading.Event()

    def app(environ, start_response):
        led.channel.send(DRAIN)
        gate.wait(30)
        return hello(environ, start_response)

    clients = []

    def supervise():
        led.wait_for("ready", wait_until)
        clients.append(socket.create_connection(led.address))
        clients[0].sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    assert led.run(lambda: app, supervise) == 1
    (failed,) = [message for message in led.heard() if message["say"] == "failed"]
    assert failed["has_told"] and failed["why"] == "it has cut requests off at the end of its drain"
    gate.set()
    clients[0].close()


def test_a_server_that_cannot_start(lead, tmp_path):
    """A fault found by the server alone is told, too."""
    led = lead(access_log=str(tmp_path / "no" / "log"))
    assert led.run(lambda: hello) == 1
    (said,) = led.heard()
    assert said["why"].startswith("cannot write the access log")


def test_without_a_supervisor(lead, wait_until, caplog, ended_in_time):
    """A worker with a dead supervisor drains, and ends; or is ended, five seconds later than due."""
    led = lead(drain_seconds=3, drain_delay_seconds=1)

    def supervise():
        led.wait_for("ready", wait_until)
        led.channel.close()

    assert led.run(lambda: hello, supervise) == 0
    assert "the supervisor has died: draining; start the command again" in caplog.text
    assert ended_in_time == [9.0]


def test_signals_of_the_supervisor_do_nothing(lead, wait_until, caplog):
    """SIGTERM asks for a successor; the supervisor's signals do nothing; the app's own handlers run."""
    caplog.set_level(logging.INFO, "aserve")
    led, calls = lead(), []

    def load():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: calls.append(number))
        return hello

    def supervise():
        led.wait_for("ready", wait_until)
        for number in (*LEFT_TO_SUPERVISOR, signal.SIGUSR1):
            # In this thread, for a return before the next signal: the kernel stacks the frames of simultaneous signals, and faulthandler's stack in
            # the main thread is small.
            signal.raise_signal(number)
        wait_until(lambda: sorted(calls) == sorted([signal.SIGUSR1, signal.SIGUSR2]))
        os.kill(os.getpid(), signal.SIGTERM)
        assert led.wait_for("failing", wait_until) == {"say": "failing", "why": "it was sent SIGTERM"}
        led.channel.send({"do": "drain", "stopping": False})
        led.channel.send(DRAIN)  # told already

    assert led.run(load, supervise) == 0
    assert caplog.text.count("the app's own handler") == 2


def test_stacks_are_told(lead, wait_until):
    """Stacks are told at the supervisor's word, with the number."""
    led = lead()

    def supervise():
        led.wait_for("ready", wait_until)
        led.channel.send({"do": "stacks", "number": 7})
        told = led.wait_for("stacks", wait_until)
        assert told["number"] == 7 and "waiting for requests: " in told["text"]
        led.channel.send(DRAIN)

    assert led.run(lambda: hello, supervise) == 0


def test_what_the_app_counts(lead, wait_until, monkeypatch):
    """The app's counts are read at the supervisor's word, and come in a file; nothing, if too large for memory or absent."""
    monkeypatch.setattr(app_metrics, "read_app_metrics", lambda: b"a 1\n")
    monkeypatch.setitem(sys.modules, "prometheus_client", types.ModuleType("prometheus_client"))  # imported by the app
    led = lead(metrics="127.0.0.1:1")

    def supervise():
        wait_until(lambda: led.heard())
        told = []
        for number in range(3):
            if number == 1:
                monkeypatch.setattr(app_metrics, "open_memory_file", no_memory)
            elif number == 2:
                monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
            led.channel.send({"do": "read app"})
            told.append(wait_until(lambda: receive(led.channel)))
        (first, (fd,)), (second, no_fds), (third, _) = told
        assert os.pread(fd, 100, 0) == b"a 1\n" and first == third == {"say": "app metrics", "fault": ""}
        assert second["fault"] == "Cannot allocate memory" and no_fds == []
        os.close(fd)
        led.channel.send(DRAIN)

    def receive(channel):
        with contextlib.suppress(BlockingIOError):
            return channel.receive()

    def no_memory(name):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    assert led.run(lambda: hello, supervise) == 0


def test_logs_are_reopened(lead, wait_until, tmp_path, caplog):
    """At the supervisor's word, and by SIGUSR1."""
    caplog.set_level(logging.INFO, "aserve")
    led = lead(access_log=str(tmp_path / "log"))

    def load():
        os.kill(os.getpid(), signal.SIGUSR1)  # the worker waits for a log
        return hello

    def supervise():
        led.wait_for("ready", wait_until)
        assert "the app's own handler" not in caplog.text
        led.channel.send({"do": "reopen logs"})
        wait_until(lambda: caplog.text.count("was reopened") == 2)
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until(lambda: caplog.text.count("was reopened") == 3)
        led.channel.send(DRAIN)

    assert led.run(load, supervise) == 0


# On a loop of the test's


async def run_until_ready(led):
    worker = Worker(led.role, hello, asyncio.get_running_loop())
    running = asyncio.ensure_future(worker.run())
    while not led.page[Field.TICK]:
        await asyncio.sleep(0)
    return worker, running


async def test_threads_that_are_stuck(lead):
    """A failing server goes on, and a successor is asked for."""
    led = lead()
    worker, running = await run_until_ready(led)
    worker._server._threads.failing.begin("3 threads are stuck")
    while len(heard := led.heard()) < 1 or heard[-1]["say"] != "failing":
        await asyncio.sleep(0)
    assert heard[-1]["why"] == "3 threads are stuck"
    assert (await get(led.address)).endswith(b"hello")
    led.channel.send(DRAIN)
    assert await running == 0


async def test_a_supervisor_that_does_not_read(lead):
    """Words without room are sent later."""
    led = lead()
    worker, running = await run_until_ready(led)
    count = 0
    while not led.role.channel.has_unsent:
        worker._say({"say": "x" * 10_000, "number": count})
        count += 1
    for number in range(count, 3 * count):  # there is room for a part at a time
        worker._say({"say": "x" * 10_000, "number": number})
    heard = []
    while len(heard) <= 3 * count:
        heard += led.heard()
        await asyncio.sleep(0)
    assert heard[0] == {"say": "ready"} and [message["number"] for message in heard[1:]] == list(range(3 * count))
    led.channel.send(DRAIN)
    assert await running == 0


async def test_last_words_wait_for_room(lead):
    """The worker ends when the supervisor has had room for the last words, and not before."""
    led = lead()
    worker = Worker(led.role, hello, asyncio.get_running_loop())
    while not led.role.channel.has_unsent:
        worker._say({"say": "x" * 10_000})
    saying = asyncio.ensure_future(worker._say_the_rest())
    await asyncio.sleep(0)
    assert not saying.done()
    while not saying.done():
        led.heard()
        await asyncio.sleep(0)
    assert not led.role.channel.has_unsent


async def test_connections_that_idle(lead):
    """Idle connections are given to the supervisor at the word, as many as asked; and taken back."""
    led = lead()
    _, running = await run_until_ready(led)
    streams = [await get(led.address, keep_alive=True) for _ in range(3)]
    led.channel.send({"do": "hand over", "count": 2})
    given = []
    while len(given) < 2:
        await asyncio.sleep(0)
        with contextlib.suppress(BlockingIOError):
            message, fds = led.channel.receive()
            given += [(message, fds)] if message["say"] == "idle" else []
    assert [message["listener"] for message, _ in given] == [0, 0]
    for message, fds in given:
        led.channel.send({**message, "do": "adopt"}, fds)
    for _, reader, writer in streams:
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
    led.channel.send(DRAIN)
    assert await running == 0


async def test_one_that_drains_gives_all_of_them(lead):
    """So nobody need wait for the end of a kept connection."""
    led = lead()
    _, running = await run_until_ready(led)
    _, reader, writer = await get(led.address, keep_alive=True)
    led.channel.send({"do": "drain", "stopping": False})
    assert await running == 0
    said, (fd,) = led.wait_now("idle")
    assert said == {"say": "idle", "listener": 0, "peer": said["peer"], "to": 0, "returns": 0}
    with socket.socket(fileno=fd) as sock:
        sock.sendall(b"from another")
    assert await reader.read() == b"from another"
    writer.close()


async def test_a_supervisor_that_dies_as_it_drains(lead):
    """Nobody is there to take the connections: the worker keeps all, and serves the last requests."""
    led = lead()
    _, running = await run_until_ready(led)
    _, reader, writer = await get(led.address, keep_alive=True)
    led.heard()  # an end closed with unread words takes back the rest
    led.channel.send({"do": "drain", "stopping": False})
    led.channel.close()
    while led.role.channel.is_heard and not running.done():
        await asyncio.sleep(0)
    assert not running.done()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    writer.close()
    assert await running == 0


async def test_a_connection_that_cannot_be_taken(lead):
    """A connection is closed when nobody could take the descriptor: nobody else would close the connection."""
    led = lead()
    _, running = await run_until_ready(led)
    one, other = socket.socketpair()
    led.channel.send({"do": "adopt", "listener": 7, "peer": {}, "returns": MAX_RETURNS}, [other.detach()])
    one.setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(one, 9) == b""
    one.close()
    led.channel.send(DRAIN)
    assert await running == 0
