"""Deadlines: an app that takes too long is ended, or answered for; nobody else notices.

The clock is not waited for: with a limit of an hour, `expire` makes an exchange as old.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import struct
import sys
import threading
import time

import pytest
from harness import apps

import aserve
from aserve.errors import WrittenOff
from aserve.exchange import Exchange
from aserve.settings import Config, ConfigError
from aserve.wsgi.deadlines import Deadlines, Run

pytestmark = pytest.mark.interrupted

HOUR = 3600.0
CHUNK = b"x" * (1 << 16)


class Hanging:
    """An app with a way to hang for each path; tells who is inside, and lets go when told."""

    def __init__(self):
        self.inside = threading.Semaphore(0)  # released by each request that has begun to hang
        self.gate = threading.Lock()  # whoever hangs waits for this: a call that no exception ends
        self.gate.acquire()
        self.seen = []
        self.workers = []
        self.is_let_go = False

    def __call__(self, environ, start_response):
        self.workers.append(threading.current_thread())
        name = environ["PATH_INFO"][1:]
        return getattr(self, name)(environ, start_response) if name else apps.hello(environ, start_response)

    def let_go(self):
        self.is_let_go = True
        with contextlib.suppress(RuntimeError):  # it is free
            self.gate.release()

    def wait_for_one(self):
        assert self.inside.acquire(timeout=5)

    def compute(self):
        self.inside.release()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.001)

    def pass_gate(self):
        """Block in one call, which no exception ends; not even one that comes before the call has begun."""
        try:
            self.inside.release()
            self.gate.acquire(timeout=10)
        except aserve.RequestTimeout:
            if not self.is_let_go:
                self.gate.acquire(timeout=10)
            raise

    def block(self):
        try:
            self.pass_gate()
            for _ in range(1000):
                pass  # the end of a call is not always where CPython 3.14 and later raise what waits; a loop's step is
        except aserve.RequestTimeout:
            self.seen.append("minded nothing")

    # Those that an exception ends

    def computes(self, environ, start_response):
        try:
            self.compute()
        except Exception:
            self.seen.append("an Exception")  # it is none
        finally:
            self.seen.append("finally")
        return apps.hello(environ, start_response)

    def translates(self, environ, start_response):
        try:
            self.compute()
        finally:
            raise ValueError("made of it")

    def answers_itself(self, environ, start_response):
        try:
            self.compute()
        except aserve.RequestTimeout as exc:
            start_response("503 Too Slow", apps.PLAIN)
            return [str(exc).encode()]

    def started(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.compute()

    def lazily(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.compute()
        yield b"never"

    def closes(self, environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        return ComputingClose(self)

    def streams(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        self.compute()

    def minds_nothing(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        try:
            self.compute()
        except BaseException:
            yield b"two"
        yield b"three"

    def writes(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)(b"one ")
        self.compute()

    # Those that it does not

    def blocks(self, environ, start_response):
        self.pass_gate()
        return apps.hello(environ, start_response)

    def swallows(self, environ, start_response):
        while not self.gate.acquire(blocking=False):
            try:
                self.inside.release()
                while not self.gate.acquire(blocking=False):
                    time.sleep(0.001)
                break
            except BaseException:
                self.seen.append("swallowed")
        return apps.hello(environ, start_response)

    def blocks_then_writes(self, environ, start_response):
        self.block()
        try:
            start_response("200 OK", apps.PLAIN)(b"late")
        finally:
            self.seen.append(sys.exc_info()[0])
        return []

    def blocks_until_it_writes(self, environ, start_response):
        self.inside.release()
        try:
            self.gate.acquire(timeout=10)
            start_response("200 OK", apps.PLAIN)(b"late")
        except aserve.RequestTimeout:
            self.seen.append("interrupted")
            raise

    def blocks_then_hints(self, environ, start_response):
        self.block()
        environ["wsgi.early_hints"]([("Link", "</style.css>")])

    def blocks_then_raises(self, environ, start_response):
        self.block()
        raise ValueError("late")

    def blocks_then_streams(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.block()
        return ClosingIterable(self.seen)

    def blocks_lazily(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.block()
        yield b"late"

    def streams_then_blocks(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        self.block()
        yield b"late"

    def writes_then_blocks(self, environ, start_response):
        write = start_response("200 OK", apps.PLAIN)
        write(b"one ")
        self.block()
        write(b"late")
        return [b"later"]

    def floods(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.inside.release()
        try:
            while True:
                yield CHUNK
        finally:
            self.seen.append("finally")

    def reads(self, environ, start_response):
        self.inside.release()
        start_response("200 OK", apps.PLAIN)
        return [environ["wsgi.input"].read()]


class ClosingIterable:
    """An iterable that tells that it was closed."""

    def __init__(self, seen):
        self.seen = seen

    def __iter__(self):
        return iter([b"late"])

    def close(self):
        self.seen.append("closed")
        raise ValueError("in close()")


class ComputingClose(list):
    """A whole body, whose close() takes its time."""

    def __init__(self, app):
        super().__init__([b"four"])
        self.app = app

    def close(self):
        self.app.compute()


@pytest.fixture
def app():
    app = Hanging()
    yield app
    for _ in range(20):  # nobody is left behind, whatever has failed
        app.let_go()


@pytest.fixture(params=["direct", "proxied"])
def is_proxied(request):
    """Whether the clients are behind a trusted proxy, which tells who they are: nothing else may differ."""
    return request.param == "proxied"


@pytest.fixture
def serve(start_server, app, is_proxied):
    """Start a server of `app` with a limit of an hour and one thread."""

    def start(**settings):
        settings.setdefault("threads", 1)
        if is_proxied:
            settings["trusted_proxies"] = ["127.0.0.1"]
        return start_server(app, is_checked=False, request_seconds=HOUR, **settings)

    return start


@pytest.fixture
def raw_client(raw_client, is_proxied):
    """Connect as `raw_client` of conftest.py does; each request has the proxy's field."""

    def connect(*arguments):
        client = raw_client(*arguments)
        request = client.request
        if is_proxied:
            client.request = lambda target, *fields, **options: request(
                target, *fields, "X-Forwarded-For: 203.0.113.7", **options
            )
        return client

    return connect


def deadlines_of(server):
    """Return what the tests let time pass for."""
    return server.server._deadlines


def look(server):
    server.call(deadlines_of(server).on_second)


def expire(server):
    """Let the time of every exchange be over, and the server notice."""
    for run in list(deadlines_of(server).runs.values()):
        run.since -= 2 * HOUR
    look(server)


def expire_grace(server):
    """Let that of interrupted workers be over, too."""
    for run in list(deadlines_of(server).runs.values()):
        if run.interrupted_at is not None:
            run.interrupted_at -= 2 * HOUR
    look(server)


def stuck_count(server):
    return server.statistics().workers_stuck


def messages(caplog, level="ERROR"):
    return [record.getMessage() for record in caplog.records if record.levelname == level]


# Interrupted


@pytest.mark.parametrize("name", ["computes", "translates", "started", "lazily"])
def test_an_app_that_computes_is_ended(serve, app, raw_client, caplog, name):
    """The client gets a 504, the log the stack; the worker and the connection go on."""
    client = raw_client(server := serve())
    client.request(f"/{name}")
    app.wait_for_one()
    expire(server)
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection")) == (504, None)
    assert b"in time" in reply.body
    assert client.fetch("/").body == b"hello\n"
    assert client.fetch("/").body == b"hello\n"
    assert app.workers[0] is app.workers[1]
    assert app.seen == (["finally"] if name == "computes" else [])
    [message] = messages(caplog)
    assert f"GET /{name} has been with the app for 7200." in message
    assert "--request-timeout (3600 s); RequestTimeout was raised in it; aserve-worker-1 was at:" in message
    assert f"in {name}\n" in message
    assert "executor.py" not in message
    assert not deadlines_of(server).runs


def test_an_app_may_answer_itself(serve, app, raw_client):
    """Who catches RequestTimeout may still respond."""
    client = raw_client(server := serve())
    client.request("/answers_itself")
    app.wait_for_one()
    expire(server)
    reply = client.recv_response()
    assert (reply.status, reply.body) == (503, b"the request took longer than --request-timeout")
    assert client.fetch("/").status == 200


@pytest.mark.parametrize("name", ["streams", "writes", "minds_nothing"])
def test_a_response_that_has_begun_is_cut(serve, app, raw_client, name):
    """No client takes half a response for the whole, nor a 504 for a part of it."""
    client = raw_client(server := serve())
    client.request(f"/{name}")
    assert client.recv_until(b"one ")
    app.wait_for_one()
    expire(server)
    with pytest.raises(client.Truncated):
        client.recv_until(b"0\r\n\r\n")
    assert b"504" not in client._buffer
    assert raw_client(server).fetch("/").status == 200
    assert app.workers[0] is app.workers[-1]


def test_a_close_that_takes_too_long(serve, app, raw_client, caplog):
    """A list with a close() of its own is not exempt, and its response is whole."""
    client = raw_client(server := serve())
    client.request("/closes")
    app.wait_for_one()
    assert client.recv_response().body == b"four"
    expire(server)
    assert client.fetch("/").status == 200
    assert any("in close()" in message for message in messages(caplog))


def test_requests_in_time_are_left_alone(serve, raw_client):
    """Looking changes nothing."""
    client = raw_client(server := serve())
    for _ in range(3):
        assert client.fetch("/").status == 200
        look(server)


# Waiting for the client


def test_a_client_that_does_not_read(serve, app, raw_client, wait_until):
    """A worker that waits for its client is set free by cutting the connection."""
    spool_bytes = 4 * len(CHUNK)  # one of the default size takes a busy disk longer to fill than a test may wait
    server = serve(response_spool_bytes=spool_bytes)
    client = raw_client(server, 4096)
    client.request("/floods")
    app.wait_for_one()
    wait_until(lambda: server.statistics().responses_spooled_bytes > spool_bytes - len(CHUNK))
    expire(server)
    assert raw_client(server).fetch("/").status == 200
    assert app.seen == ["finally"]


@pytest.mark.any_parser
def test_a_live_body_that_does_not_come(serve, app, raw_client, wait_until):
    """A worker that waits for a request's body is told so, and the client."""
    client = raw_client(server := serve(body="stream"))
    client.request("/reads", "Content-Length: 10", method="POST")
    app.wait_for_one()
    [run] = deadlines_of(server).runs.values()
    wait_until(lambda: run._owner)
    expire(server)
    assert client.recv_response().status == 504
    assert raw_client(server).fetch("/reads", method="POST", body=b"whole").body == b"whole"


@pytest.mark.any_parser
def test_a_live_body_by_lines(start_server, raw_client):
    """What stands before a live body reads as it does."""

    def lines(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        body = environ["wsgi.input"]
        return [repr([body.readline(), body.readlines(4), list(body)]).encode()]

    client = raw_client(start_server(lines, body="stream", request_seconds=HOUR))
    assert client.fetch(method="POST", body=b"a\nb\nc\nd\n").body == rb"[b'a\n', [b'b\n', b'c\n'], [b'd\n']]"


def test_an_interrupt_at_our_door(serve, app, raw_client):
    """
    One that hits as the app calls us hits the app: nothing of the call is done.

    Where it hits is the interpreter's to choose: CPython 3.14 and later may let a call end, and raise
    what waits for the thread as the next begins.
    """
    client = raw_client(server := serve())
    client.request("/blocks_until_it_writes")
    app.wait_for_one()
    expire(server)
    app.let_go()
    reply = client.recv_response()
    assert (reply.status, app.seen) == (504, ["interrupted"])
    assert raw_client(server).fetch("/").body == b"hello\n"
    assert [thread.name for thread in app.workers] == ["aserve-worker-1"] * 2


@pytest.mark.any_parser
def test_a_live_body_is_closed(start_server, raw_client):
    """What stands before a live body can be closed as it can: the rest is dropped, and reading finds the end."""

    def closes(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        body = environ["wsgi.input"]
        octets = body.read(1)
        body.close()
        return [octets]

    client = raw_client(start_server(closes, is_checked=False, body="stream", request_seconds=HOUR))
    assert client.fetch(method="POST", body=b"abc").body == b"a"


# Written off

LATE = [
    "blocks", "swallows", "blocks_then_writes", "blocks_then_hints", "blocks_then_raises", "blocks_then_streams",
    "blocks_lazily",
]  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_an_app_that_does_not_come_back(serve, app, raw_client, wait_until, caplog, name, tmp_path):
    """Its client gets a 504, others another worker; what it comes back with reaches nobody."""
    server = serve(access_log=str(tmp_path / "log"))
    client, other = raw_client(server), raw_client(server)
    client.request(f"/{name}")
    app.wait_for_one()
    other.request("/")
    expire(server)
    if name == "swallows":
        app.wait_for_one()
    look(server)
    assert client.is_quiet()
    assert stuck_count(server) == 0
    expire_grace(server)
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection")) == (504, "close")
    assert other.recv_response().body == b"hello\n"
    assert stuck_count(server) == 1
    assert any("aserve-worker-1 has not left the app" in message for message in messages(caplog))
    app.let_go()
    wait_until(lambda: not app.workers[0].is_alive())
    assert stuck_count(server) == 0
    assert any("has come back" in message for message in messages(caplog, "WARNING"))
    assert client.recv_to_end() == b""
    assert other.fetch("/").body == b"hello\n"
    assert app.workers[-1].name == "aserve-worker-2"
    if name == "blocks_then_writes":
        assert app.seen == ["minded nothing", aserve.ClientDisconnected]
    server.stop()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split('"')[2].split()[0] for line in lines if f"/{name} " in line] == ["504"]


@pytest.mark.parametrize("name", ["streams_then_blocks", "writes_then_blocks"])
def test_a_response_that_never_goes_on(serve, app, raw_client, wait_until, name):
    """It is cut, and nothing follows."""
    server = serve()
    client, other = raw_client(server), raw_client(server)
    client.request(f"/{name}")
    assert client.recv_until(b"one ")
    app.wait_for_one()
    expire(server)
    expire_grace(server)
    assert other.fetch("/").body == b"hello\n"
    with pytest.raises(client.Truncated):
        client.recv_until(b"late")
    app.let_go()
    wait_until(lambda: not app.workers[0].is_alive())
    assert other.fetch("/").body == b"hello\n"


@pytest.mark.any_parser
def test_a_late_iterable_is_closed(serve, app, raw_client, wait_until, caplog):
    """PEP 3333: close() is called, whoever wants the response."""
    client = raw_client(server := serve())
    client.request("/blocks_then_streams")
    app.wait_for_one()
    # As where nothing can be raised in a thread: it comes back with what it has.
    deadlines_of(server)._interrupt = None
    expire(server)
    expire_grace(server)
    assert client.recv_response().status == 504
    app.let_go()
    wait_until(lambda: not app.workers[0].is_alive())
    assert app.seen == ["closed"]
    assert any("cannot raise" in message for message in messages(caplog))
    assert any("raised in close()" in message for message in messages(caplog))


@pytest.mark.any_parser
def test_a_client_that_left_before(serve, app, raw_client, wait_until):
    """There is nobody to answer; the worker is replaced all the same."""
    client = raw_client(server := serve())
    client.request("/blocks")
    app.wait_for_one()
    client.reset()
    expire(server)
    expire_grace(server)
    assert raw_client(server).fetch("/").status == 200
    app.let_go()
    wait_until(lambda: not app.workers[0].is_alive())


@pytest.mark.any_parser
@pytest.mark.parametrize("name", ["computes", "blocks"])
def test_behind_a_front_server(serve, app, raw_client, name):
    """uwsgi: the same, and the connection closes, as always."""
    server = serve(bind="uwsgi://127.0.0.1:0")
    client = raw_client(server)
    client.send(uwsgi_packet(f"/{name}"))
    app.wait_for_one()
    expire(server)
    expire_grace(server)
    assert client.recv_response().status == 504
    assert client.recv_to_end() == b""
    other = raw_client(server)
    other.send(uwsgi_packet("/"))
    assert other.recv_response().body == b"hello\n"


def uwsgi_packet(path):
    vars = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "SERVER_PROTOCOL": "HTTP/1.1", "QUERY_STRING": ""}
    block = b"".join(struct.pack("<H", len(text)) + text.encode() for pair in vars.items() for text in pair)
    return struct.pack("<BHB", 0, len(block), 0) + block


# Too many


@pytest.mark.one_way
def test_too_many_are_stuck(serve, app, raw_client, caplog):
    """The server says so, and goes on as long as nobody drains it."""
    server = serve(max_stuck=2, drain_seconds=1)
    clients = [raw_client(server) for _ in range(3)]
    for count, client in enumerate(clients):
        assert bool(server.server.failure) == (count > 1)
        client.request("/blocks")
        app.wait_for_one()
        expire(server)
        expire_grace(server)
        assert client.recv_response().status == 504
    assert server.server.failure == "2 workers are stuck inside the app (--max-stuck)"
    assert sum("should be replaced" in message for message in messages(caplog)) == 1
    assert raw_client(server).fetch("/").status == 200
    server.stop()
    assert server.is_clean is False
    assert any("left behind, still inside the app: aserve-worker-1," in text for text in messages(caplog, "WARNING"))


@pytest.mark.one_way
def test_no_thread_can_be_started(serve, app, raw_client, monkeypatch):
    """Then nobody is left to serve, and the server says so."""
    server = serve(drain_seconds=0)
    client = raw_client(server)
    client.request("/blocks")
    app.wait_for_one()
    expire(server)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        expire_grace(server)
    assert client.recv_response().status == 504
    assert "no thread can be started" in server.server.failure


async def test_serve_ends(app):
    """In somebody's program the task drains, and raises."""

    async def main():
        server = aserve.Server(app, bind="127.0.0.1:0")
        async with server:
            server._on_failing("for a test")
            assert await server.wait_failing() == "for a test"

        class Status:
            def started(self, server):
                asyncio.get_running_loop().call_soon(server._on_failing, "for a test")

        await aserve.serve(app, "127.0.0.1:0", task_status=Status())

    with pytest.raises(aserve.WorkersStuck, match="for a test"):
        await main()


SLOW_APP = """
import threading, time
def app(environ, start_response):
    if environ["PATH_INFO"] == "/computes":
        try:
            while True: time.sleep(0.01)
        finally: print("finally", flush=True)
    if environ["PATH_INFO"] == "/blocks": time.sleep(60)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [threading.current_thread().name.encode()]
"""


def test_by_the_clock(start_process, raw_client, tmp_path):
    """The whole of it, unaided: interrupted, written off, replaced, and in the end drained with status 1."""
    (tmp_path / "slow_app.py").write_text(SLOW_APP)
    server = start_process(
        f"{tmp_path}/slow_app.py:app", "--request-timeout", "0.8", "--threads", "1", "--max-stuck", "2"
    )
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/computes").status == 504
    assert client.fetch("/").body == b"aserve-worker-1"
    assert client.fetch("/blocks").status == 504
    client.close()
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/").body == b"aserve-worker-2"
    assert client.fetch("/blocks").status == 504
    client.close()
    assert server.wait() == 1
    assert "ERROR    this process should be replaced: 2 workers are stuck" in server.log
    assert "too many workers are stuck: draining" in server.log
    assert "Traceback" not in server.log


def test_one_that_is_stuck_does_not_hold_up_the_end(start_process, raw_client, tmp_path):
    """SIGTERM does not wait for who was written off."""
    (tmp_path / "slow_app.py").write_text(SLOW_APP)
    server = start_process(f"{tmp_path}/slow_app.py:app", "--request-timeout", "0.8", "--threads", "1")
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/blocks").status == 504
    client.close()
    server.signal(signal.SIGTERM)
    assert server.wait() == 1
    assert "left behind, still inside the app: aserve-worker-1" in server.log


# Off


@pytest.mark.one_way
def test_without_a_limit_nothing_is_there(start_server):
    """The app is in the gateway as it is."""
    server = start_server(apps.hello, is_checked=False)
    assert server.server._services[0].gateway._app is apps.hello
    assert deadlines_of(server) is None


def test_without_threads_it_is_refused():
    """Rather than silently without effect."""
    with pytest.raises(ConfigError, match=r"request-timeout \(30 s\) needs threads of 1 or more"):
        Config(request_seconds=30, threads=0)


# What the app calls of ours


class FakeExecutor:
    def name_of(self, thread_id):
        return "worker"


def new_run(seconds=HOUR):
    return Run(Deadlines(seconds, FakeExecutor(), 1, pytest.fail), Exchange("", 0))


def test_nothing_interrupts_what_the_app_calls_of_ours():
    """There is neither token in it, also where it calls itself."""
    run = new_run()

    def is_uninterruptible():
        return not run.take_interruptible() and not run.take_ownership()

    def nested():
        assert run.guard(is_uninterruptible)()
        return is_uninterruptible()

    def app():
        assert run.guard(nested)()
        with pytest.raises(ZeroDivisionError):
            run.guard(lambda: 1 // 0)()
        return run._interruptible == run._ownership == [None]

    assert run.call(app)
    assert is_uninterruptible()


def test_a_second_thread_of_the_app():
    """It is never interrupted, does not make its worker uninterruptible, and may be late."""
    run = new_run()
    results = []
    guarded = run.guard(lambda: results.append(bool(run._interruptible)))

    def app():
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        thread.join(5)

    run.call(app)
    assert results == [True]
    run.end()
    app()
    assert results == [True, False]
    guarded()
    assert len(results) == 3


def test_in_a_child_nobody_waits_for_an_interrupt():
    """A process that is forked while its request is interrupted, or answered, has no loop that would finish that."""
    for take in (lambda run: run.take_interruptible(), lambda run: run.take_interruptible() and run.take_ownership()):
        run = new_run()

        def app(run=run, take=take):
            assert take(run)
            run._deadlines.on_forked()
            return "done"

        try:
            assert run.call(app) == "done"
        except WrittenOff:
            assert not run._ownership


def test_an_interrupt_at_the_last_moment():
    """What the app has returned by then is returned."""
    run = new_run()

    def app():
        return "done"

    class InterruptedLate(Run):
        __slots__ = ()

        def _disarm(self):
            raise aserve.RequestTimeout

    late = InterruptedLate(run._deadlines, run.exchange)
    assert late.call(app) == "done"


# Hard


@contextlib.contextmanager
def switching_often():
    """Let threads meet one another where they seldom do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_interrupts_hit_the_app_alone():
    """However close to its end: never before it, never behind it, and once at most."""
    executor = FakeExecutor()
    deadlines = Deadlines(HOUR, executor, 1, pytest.fail)
    interrupt = deadlines._interrupt
    assert interrupt is not None
    counts = {"returned": 0, "interrupted": 0, "guarded": 0}
    outside = []
    end = time.monotonic() + 2.5
    exchange = Exchange("", 0)

    def ours():
        total = 0
        for number in range(20):
            total += number
        return total

    def work():
        try:
            while time.monotonic() < end:
                size = random.randrange(60)
                run = Run(deadlines, exchange)
                guarded = run.guard(ours)

                def app(size=size, guarded=guarded):
                    total = 0
                    for number in range(size):
                        total += number
                        if number % 16 == 0:
                            try:
                                guarded()
                            finally:
                                counts["guarded"] += 1
                    return total

                try:
                    for _ in range(2):
                        run.call(app)
                    counts["returned"] += 1
                except aserve.RequestTimeout:
                    counts["interrupted"] += 1
                run.end()
                assert not run._interruptible
                assert not run._ownership
                ours()
        except BaseException as exc:
            outside.append(exc)
            raise

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    with switching_often():
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            for run in list(deadlines.runs.values()):
                if run.interrupted_at is None and run.take_interruptible():
                    run.interrupted_at = 0.0
                    if random.random() < 0.3:
                        time.sleep(0)  # the worker comes to wait for it
                    interrupt(run.thread_id, aserve.RequestTimeout)
                    run.is_interrupted = True
            time.sleep(random.random() * 0.0005)
        for thread in threads:
            thread.join(5)
    assert outside == []
    assert counts["interrupted"] > 10
    assert counts["returned"] > 10


@pytest.mark.any_parser
def test_requests_that_end_near_their_deadline(start_server, raw_client, caplog):
    """Each client gets its own response or a 504, and no worker is lost."""

    def app(environ, start_response):
        name = environ["PATH_INFO"]
        form = name[-1]
        write = start_response("200 OK", apps.PLAIN)
        end = time.perf_counter() + random.random() * 0.004
        while time.perf_counter() < end:
            pass
        if form == "0":
            return [name.encode()]
        if form == "1":
            write(name.encode())
            return []
        return (part.encode() for part in (name[:3], name[3:]))

    server = start_server(app, is_checked=False, threads=4, request_seconds=HOUR, max_stuck=4096)
    deadlines = deadlines_of(server)
    deadlines._seconds = 0.002
    deadlines._grace_seconds = 0.004
    begin = time.monotonic()
    counts = {200: 0, 504: 0, "cut": 0}
    wrong = []

    def is_over():
        """On a busy machine nearly all are late, and it takes longer until some are not."""
        seconds = time.monotonic() - begin
        return (seconds > 2 and counts[200] > 5 and counts[504] + counts["cut"] > 5) or seconds > 30 or wrong

    truncated = raw_client(server).Truncated

    def ask(client_number):
        number, client = 0, None
        while not is_over():
            number += 1
            name = f"/{client_number}-{number}-{random.randrange(3)}"
            try:
                if client is None:
                    client = raw_client(server)
                reply = client.fetch(name)
            except (truncated, OSError):
                counts["cut"] += 1
                client.close()
                client = None
                continue
            except BaseException as exc:
                wrong.append(exc)
                raise
            counts[reply.status] += 1
            if reply.status == 200 and reply.body != name.encode():
                wrong.append((name, reply.body))
            if reply.get("Connection") == "close":
                client.close()
                client = None

    def tick():
        deadlines.on_second()
        if not is_over():
            server._loop.call_later(0.001, tick)

    server.call(tick)
    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
    deadlines._seconds = deadlines._grace_seconds = HOUR
    client = raw_client(server)
    for number in range(20):
        assert client.fetch(f"/after-{number}-0").body == f"/after-{number}-0".encode()
    assert not any("worker failed" in message or "answer failed" in message for message in messages(caplog))
    executor = server.server._executor
    assert all(thread.is_alive() for thread in executor._threads.at_work)
    assert counts[504] + counts["cut"] > 5
    assert counts[200] > 5
