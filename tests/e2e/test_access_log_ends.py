"""A line for every end: whatever becomes of a request, the access log says so, once."""

import contextlib
import signal
import threading
import time

import pytest
from harness import apps
from harness.client import RawClient
from harness.extensions import extension_of

from aserve.connections.loop import sending
from aserve.features.access_log import AccessLogging

FORMAT = "%(end) %(status) %(request)"


class Logged:
    """A server and the lines; the app waits at /waits for the test."""

    def __init__(self, path, start_server, **settings):
        self.path, self.entered, self.go_on = path, threading.Event(), threading.Event()
        self.server = start_server(self.app, access_log=str(path), access_log_format=FORMAT, **settings)
        if "request_seconds" in settings:
            self.server.hold_clock()  # on a busy machine time would run out too early

    def app(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/waits"):
            self.entered.set()
            assert self.go_on.wait(30)
        if path == "/waits/large":
            start_response("200 OK", apps.PLAIN)
            return [b"x" * 1_000_000]
        while path == "/computes" and not self.go_on.is_set():
            time.sleep(0.001)
        if path == "/streams":
            return self.stream(start_response)
        if path == "/writes":
            with contextlib.suppress(ConnectionError):
                start_response("200 OK", apps.PLAIN)(b"x")
            self.entered.set()
            assert self.go_on.wait(30)
        if path in ("/raises", "/raises_mid_stream"):
            return getattr(apps, path[1:])(environ, start_response)
        if environ["REQUEST_METHOD"] == "POST":
            environ["wsgi.input"].read()
        return apps.hello(environ, start_response)

    def stream(self, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"x" * 100_000
        self.entered.set()
        assert self.go_on.wait(30)
        for _ in range(200):
            yield b"x" * 100_000

    def lines(self):
        self.server.call(extension_of(self.server.server, AccessLogging).log.flush)
        return self.path.read_text().splitlines()

    def wait_for(self, wait_until, *lines):
        """Wait until the log has exactly these lines."""
        wait_until(lambda: len(self.lines()) >= len(lines))
        assert self.lines() == list(lines)


@pytest.fixture
def logged(tmp_path, start_server):
    """logged(**settings) -> a server with an access log."""
    started = []

    def start(**settings):
        started.append(Logged(tmp_path / "log", start_server, **settings))
        return started[-1]

    yield start
    for each in started:
        each.go_on.set()


@pytest.mark.also_inline
def test_an_answer_of_the_app_is_logged_as_answered(logged, raw_client, wait_until):
    """A request answered by the app is `answered`, be the answer a failure."""
    log = logged()
    client = raw_client(log.server)
    client.fetch("/")
    log.wait_for(wait_until, "answered 200 GET / HTTP/1.1")
    client.fetch("/raises")
    log.wait_for(wait_until, "answered 200 GET / HTTP/1.1", "answered 500 GET /raises HTTP/1.1")


@pytest.mark.also_inline
def test_a_refusal_is_logged_as_refused(logged, raw_client, wait_until):
    """A request answered by aserve in the app's place is `refused`."""
    log = logged(max_body_bytes=10)
    client = raw_client(log.server)
    client.request("/large", "Content-Length: 11", method="POST")
    assert client.recv_response().status == 413
    log.wait_for(wait_until, "refused 413 POST /large HTTP/1.1")


def test_a_body_that_does_not_come(logged, raw_client, wait_until):
    """The log tells the request of too slow a client."""
    log = logged(body_seconds=0.1)
    client = raw_client(log.server)
    client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    wait_until(lambda: log.server.has_received(5))
    log.server.pass_seconds_until(lambda: log.lines())
    log.wait_for(wait_until, "refused 408 POST /slow HTTP/1.1")


@pytest.mark.parametrize("leave", ["reset", "close"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.also_inline
def test_a_client_that_leaves_within_its_body(logged, raw_client, wait_until, is_chunked, leave):
    """A request is logged even if the app has not seen any part."""
    log = logged()
    client = raw_client(log.server)
    if is_chunked:
        client.send(b"POST /cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n")
    else:
        client.send(b"POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    wait_until(lambda: log.server.has_received(5))
    getattr(client, leave)()
    log.wait_for(wait_until, "client_gone 0 POST /cut HTTP/1.1")


def test_a_client_that_leaves_before_its_response(logged, raw_client, wait_until):
    """The app has answered nobody."""
    log = logged()
    client = raw_client(log.server)
    client.request("/waits")
    assert log.entered.wait(30)
    client.reset()
    if log.server.server.config.lane == "off":  # a worker of the lane sees the end at the reply
        log.server.wait_until_idle()
    log.go_on.set()
    log.wait_for(wait_until, "client_gone 200 GET /waits HTTP/1.1")


def end_sending(client, server, wait_until, is_whole):
    """Let a client end sending, or close, some seconds behind the request; return once the server could know."""
    server.pass_seconds(3)
    client.close() if is_whole else client.end_sending()
    if server.server._listening.lane is None:  # a worker of the lane looks before the reply
        wait_until(
            lambda: server.call(lambda: all(wire._inbox.is_at_eof for wire in server.server._listening.connections))
        )


@pytest.mark.parametrize(("path", "fields"), [("/waits", ()), ("/waits", ("Connection: close",)), ("/waits/large", ())])
def test_a_client_that_gives_up_before_its_response(logged, raw_client, wait_until, monkeypatch, path, fields):
    """The client closed some seconds after the request: nobody reads the app's answer, though the kernel takes every octet."""
    monkeypatch.setattr(sending, "LEAVING_SECONDS", 0.0)
    log = logged()
    client = raw_client(log.server)
    client.request(path, *fields)
    assert log.entered.wait(30)
    end_sending(client, log.server, wait_until, is_whole=path == "/waits")  # a whole close resets a large response
    log.go_on.set()
    if path != "/waits":
        assert len(client.recv_response().body) == 1_000_000
    log.wait_for(wait_until, f"client_gone 200 GET {path} HTTP/1.1")
    log.server.wait_until_idle()


@pytest.mark.plain  # in TLS an alert comes before the end of the connection
@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix"])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_client_that_still_reads(logged, raw_client, wait_until, monkeypatch, tmp_path, keeps, bind):
    """A client with only the sending ended is answered. By --keep-half-closed the log says so; without, over TCP, such a client looks gone."""
    monkeypatch.setattr(sending, "LEAVING_SECONDS", 0.0)
    log = logged(keep_half_closed=keeps, bind=f"unix:{tmp_path}/s" if bind == "unix" else bind)
    client = raw_client(log.server)
    client.request("/waits")
    assert log.entered.wait(30)
    end_sending(client, log.server, wait_until, is_whole=False)
    log.go_on.set()
    assert client.recv_response().status == 200
    end = "answered" if keeps or bind == "unix" else "client_gone"
    log.wait_for(wait_until, f"{end} 200 GET /waits HTTP/1.1")


def test_a_client_that_leaves_before_its_pipelined_requests(logged, raw_client, wait_until):
    """Requests begun by no worker are logged, too."""
    log = logged(lane="off")
    client = raw_client(log.server)
    client.request("/waits")
    assert log.entered.wait(30)
    client.request("/second")
    wait_until(
        lambda: log.server.call(lambda: any(wire._inbox._waiting for wire in log.server.server._listening.connections))
    )
    client.reset()
    log.wait_for(wait_until, "client_gone 0 GET /second HTTP/1.1")
    log.go_on.set()
    log.wait_for(wait_until, "client_gone 0 GET /second HTTP/1.1", "client_gone 200 GET /waits HTTP/1.1")


def test_a_client_that_leaves_within_its_response(logged, raw_client, wait_until):
    """A client gone after a part of the response is logged as gone."""
    log = logged()
    client = raw_client(log.server)
    client.request("/streams")
    assert log.entered.wait(30)
    client.reset()
    log.go_on.set()
    log.wait_for(wait_until, "client_gone 200 GET /streams HTTP/1.1")


@pytest.mark.also_inline
def test_a_failure_behind_the_head_is_logged_as_cut(logged, raw_client, wait_until):
    """A response whose app failed behind the head is `cut`."""
    log = logged()
    client = raw_client(log.server)
    with pytest.raises(client.Truncated):
        client.fetch("/raises_mid_stream")
    log.wait_for(wait_until, "cut 200 GET /raises_mid_stream HTTP/1.1")


@pytest.mark.parametrize("path", ["/waits", "/streams"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_cut_by_the_end_of_the_server(logged, raw_client, wait_until, path, is_gone):
    """The server ends before the response, with the app still inside, or after the client has left."""
    log = logged(drain_seconds=0.0, lane="off")
    client = raw_client(log.server)
    client.request(path)
    assert log.entered.wait(30)
    if is_gone:
        client.reset()
        log.server.wait_until_idle()
    log.server.begin_drain()
    wait_until(lambda: log.path.read_text())
    end, status = "client_gone" if is_gone else "cut", "200" if path == "/streams" else "0"
    assert log.path.read_text() == f"{end} {status} GET {path} HTTP/1.1\n"


@pytest.mark.one_way
def test_cut_on_the_fast_path(logged, raw_client, wait_until):
    """There, too."""
    log = logged(drain_seconds=0.0)
    raw_client(log.server).request("/waits")
    assert log.entered.wait(30)
    log.server.begin_drain()
    wait_until(lambda: log.path.read_text())
    assert log.path.read_text() == "cut 0 GET /waits HTTP/1.1\n"


@pytest.mark.parametrize(("path", "status"), [("/computes", 504), ("/waits", 504), ("/streams", 200)])
def test_an_app_out_of_time_is_logged_as_timed_out(logged, raw_client, wait_until, path, status):
    """A slow app gets an exception, or the hanging worker is written off; the log says `timed_out`, also behind a head."""
    log = logged(request_seconds=0.1)
    client = raw_client(log.server)
    client.request(path)
    assert path == "/computes" or log.entered.wait(30)
    log.server.pass_seconds_until(lambda: log.lines())
    assert client.recv_head().status == status
    log.wait_for(wait_until, f"timed_out {status} GET {path} HTTP/1.1")


# On the way out of the fast path


@pytest.mark.one_way
@pytest.mark.parametrize(("path", "status"), [("/waits", "0"), ("/writes", "200")])
def test_a_connection_that_is_lost_on_its_way_to_a_timeout(logged, raw_client, wait_until, path, status):
    """A hanging app of a lost connection is logged, though the app never returns."""
    log = logged(request_seconds=0.1, lane="auto", threads=2)
    log.server.lose_handovers(1)
    raw_client(log.server).request(path)
    assert log.entered.wait(30)
    log.server.pass_seconds_until(lambda: log.lines())
    log.wait_for(wait_until, f"timed_out {status} GET {path} HTTP/1.1")
    log.go_on.set()
    log.server.begin_drain()
    wait_until(lambda: not log.server._thread.is_alive())
    assert len(log.path.read_text().splitlines()) == 1  # told once


@pytest.mark.one_way
def test_a_connection_that_was_lost_before_the_end_of_the_server(logged, raw_client, wait_until):
    """A lost connection is logged at the server's end, with the app still inside."""
    log = logged(drain_seconds=0.0, lane="auto")
    log.server.lose_handovers(1)
    raw_client(log.server).request("/writes")
    assert log.entered.wait(30)
    log.server.begin_drain()
    wait_until(lambda: log.path.read_text())
    assert log.path.read_text() == "client_gone 200 GET /writes HTTP/1.1\n"


@pytest.mark.one_way
def test_an_app_that_comes_back_to_a_connection_lost_on_its_way(logged, raw_client, wait_until):
    """A lost connection is told once, with the app's answer."""
    log = logged(lane="auto")
    log.server.lose_handovers(1)
    raw_client(log.server).request("/writes")
    assert log.entered.wait(30)
    log.go_on.set()
    log.wait_for(wait_until, "client_gone 200 GET /writes HTTP/1.1")
    assert not log.server.server._listening.services[0].lost


def test_a_connection_lost_before_its_worker_is_written_off(logged, raw_client, wait_until):
    """The line does not wait for the end of the server."""
    log = logged(request_seconds=0.1, lane="off", threads=2)
    client = raw_client(log.server)
    client.request("/waits")
    assert log.entered.wait(30)
    client.reset()
    log.server.wait_until_idle()
    log.server.pass_seconds_until(lambda: log.lines())
    log.wait_for(wait_until, "timed_out 0 GET /waits HTTP/1.1")


def test_a_client_that_does_not_read(logged, raw_client, wait_until):
    """A client without reads is not waited for without end."""
    log = logged(write_seconds=1.0, response_spool_bytes=0, write_buffer_bytes=1024)
    client = raw_client(log.server, receive_buffer_bytes=4096)
    client.request("/streams")
    assert log.entered.wait(30)
    log.go_on.set()
    log.server.pass_seconds_until(lambda: log.lines())
    log.wait_for(wait_until, "timed_out 200 GET /streams HTTP/1.1")


# The app holds up the event loop for some seconds, and, if the client is to leave, until the client has left.
HOLDS = """
import os, time

def app(environ, start_response):
    began, path = time.monotonic(), environ["PATH_INFO"]
    open("begun" + path.replace("/", "-"), "w").close()
    while not os.path.exists("left" + path.replace("/", "-")) or time.monotonic() < began + 4:
        time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"x"] if "small" in path else [b"x" * 1_000_000] if "large" in path else iter([b"x", b"y"])
"""


@pytest.mark.long
@pytest.mark.one_way
@pytest.mark.parametrize("path", ["/small", "/large", "/pieces"])
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_client_that_gives_up_while_the_app_holds_up_the_loop(start_process, tmp_path, wait_until, lane, path):
    """With --threads 0 the server looks at the socket after the app's return: a client gone is told from a waiting one."""
    (tmp_path / "holds.py").write_text(HOLDS)
    flags = "--threads", "0", "--lane", lane, "--access-log", "log", "--access-log-format", FORMAT
    process = start_process("holds:app", *flags)
    ends = []
    for leaves in (True, False):
        name = f"{path}/{leaves}"
        with contextlib.closing(RawClient(process.address)) as client:
            client.request(name)
            mark = name.replace("/", "-")
            wait_until((tmp_path / f"begun{mark}").exists)
            if leaves:
                client.end_sending()
            (tmp_path / f"left{mark}").touch()
            assert client.recv_response().status == 200
        ends.append(f"{'client_gone' if leaves else 'answered'} 200 GET {name} HTTP/1.1")
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert (tmp_path / "log").read_text().splitlines() == ends
