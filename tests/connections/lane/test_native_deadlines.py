"""Deadlines of plain requests in C: promoted when perhaps late, and interrupted in the app alone."""

import contextlib
import random
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from harness import apps
from harness.hanging import HOUR, Hanging, deadlines_of, switching_often
from harness.plain import engine_of
from harness.waiting import PATIENCE_SECONDS

import aserve
from aserve.connections.lane.native import Native, running
from aserve.wsgi.deadlines import Run

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = pytest.mark.one_way


def serve(start_server, app, **settings):
    """Start a server of `app` whose plain requests C serves."""
    return start_server(app, is_checked=False, native="auto", request_seconds=HOUR, **settings)


def expire(server):
    """Let the time of every exchange be over, and the server notice."""
    running()
    for run in list(deadlines_of(server).runs.values()):
        run.since -= 2 * HOUR
    server.call(deadlines_of(server).on_second)


def test_those_in_time_stay_plain(start_server, raw_client):
    """A request costs nothing before it may be late: C calls the app itself, and nobody knows of the request."""
    gate = apps.Gate()
    server = serve(start_server, gate)
    client = raw_client(server)
    client.request("/")
    gate.wait_entered()
    server.call(deadlines_of(server).on_second)
    assert not deadlines_of(server).runs
    gate.open()
    assert client.recv_response().status == 200
    assert (engine_of(server).plain_count, engine_of(server).promoted_count) == (1, 0)


def test_what_stands_in_front_of_the_deadline(start_server):
    """A part in front needs an exchange, so Python serves."""
    assert serve(start_server, apps.hello, tracing=True).server._listening.lane.native is None


def test_one_that_was_promoted_before(start_server, raw_client):
    """A promoted request has its deadline all the same, since the worker's begin; in time it is answered as ever."""
    app = Hanging()
    server = serve(start_server, app)
    for is_late in (True, False):
        client = raw_client(server)
        client.request("/computes" if is_late else "/blocks")
        app.wait_for_one()
        [exchange] = server.call(lambda: server.server._listening.lane.exchanges)
        [run] = deadlines_of(server).runs.values()
        assert run.exchange is exchange and run.since == exchange.began_at and run.thread_id == exchange.thread_id
        if is_late:
            expire(server)
        else:
            app.let_go()
        assert client.recv_response().status == (504 if is_late else 200)
        assert not deadlines_of(server).runs and not run._interruptible and not run.take_ownership()


@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_is_interrupted_while_it_is_promoted(start_server, raw_client, monkeypatch, is_first):
    """Code that makes a request's objects in its own worker is ours, also if another thread is quicker."""
    make, seen, is_inside = Native.promote, [], threading.Event()
    is_over = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)(b"written")  # this promotes it
        seen.append([len(run._interruptible) for run in deadlines_of(server).runs.values()])
        is_inside.set()
        while not is_over.is_set():
            time.sleep(0.001)

    def promote(self, *arguments):
        made = make(self, *arguments)
        if not seen:
            seen.append(threading.get_ident())
            if is_first:
                thread = threading.Thread(target=running)
                thread.start()
                thread.join()
                server.call(lambda: expire_here(deadlines_of(server)))
            seen.append([run.is_interrupted for run in deadlines_of(server).runs.values()])
        return made

    def expire_here(deadlines):
        for run in deadlines.runs.values():
            run.since -= HOUR
        deadlines.on_second()
        for run in deadlines.runs.values():
            run.since += HOUR

    monkeypatch.setattr(Native, "promote", promote)
    server = serve(start_server, app)
    client = raw_client(server)
    client.request("/")
    assert is_inside.wait(PATIENCE_SECONDS)
    assert seen[1:] == [[False] if is_first else [], [1]]
    expire(server)
    with pytest.raises(client.Truncated):
        client.recv_until(b"0\r\n\r\n")
    assert not deadlines_of(server).runs
    is_over.set()


@pytest.mark.provokes("raised ValueError")
@pytest.mark.parametrize("status", [200, 500, 504])
def test_an_interrupt_at_the_last_moment(start_server, raw_client, monkeypatch, caplog, status):
    """A value already returned by the app is returned; an exception of its own replaces the interrupt, which may never hit."""
    deadlines = []

    def app(environ, start_response):
        if status == 200:
            start_response("200 OK", apps.PLAIN)
        running()
        [run] = deadlines[0].runs.values()
        assert run.take_interruptible()  # as the event loop does
        threading.Timer(0.02, setattr, (run, "is_interrupted", status != 500)).start()
        if status == 500:
            run._interruptible.append(None)
        if status != 200:
            raise ValueError("meant")
        return [b"whole"]

    disarm = Run._disarm

    def hit(self):
        disarm(self)
        raise aserve.RequestTimeout

    monkeypatch.setattr(Run, "_disarm", hit if status != 500 else None)
    server = serve(start_server, app)
    deadlines.append(deadlines_of(server))
    assert raw_client(server).fetch("/").status == status
    assert ("raised ValueError" in caplog.text) == (status == 500) and not deadlines[0].runs


@pytest.mark.provokes("internal error")
def test_a_fault_of_ours(start_server, raw_client, monkeypatch):
    """A fault's run is over."""
    server = serve(start_server, lambda environ, start_response: running() and [])
    with monkeypatch.context() as patch:
        patch.setattr(Native, "finish", None)
        client = raw_client(server)
        client.request("/")
        assert client.recv_to_end() == b""
    assert not deadlines_of(server).runs


def test_what_the_socket_has_not_taken():
    """The response is whole: a slow reader is not the app's fault."""
    said = []
    wire = SimpleNamespace(leave_lane_with=lambda exchange, rest: said.append(rest))
    exchange = SimpleNamespace(response=SimpleNamespace(), connection=SimpleNamespace(wire=wire), began_at=1.0)
    Native.leave(None, exchange, (b"rest", 9), SimpleNamespace(end=lambda: said.append("end")))
    assert said == ["end", b"rest"] and exchange.response.is_full


class Busy:
    """An app that computes for a moment, in each way to respond."""

    def __call__(self, environ, start_response):
        name = environ["PATH_INFO"].encode()
        for number in range(random.randrange(400)):
            if number == 200:
                write = start_response("200 OK", [("Content-Length", str(len(name)))])
        if number_of(name) % 3 == 0:
            raise ValueError("meant")
        if "write" not in locals():
            write = start_response("200 OK", [("Content-Length", str(len(name)))])
        if number_of(name) % 3 == 1:
            write(name)
            return []
        return [name] if number_of(name) % 2 else (name for _ in range(1))


def number_of(name):
    return int(name.rpartition(b"-")[2])


@pytest.mark.provokes("raised ValueError")
def test_promoted_and_interrupted_at_any_moment(start_server, wait_until, caplog):
    """Each client gets its own response, a 504 or the end; no worker is lost, though some are written off, and no run is left."""
    monitored = sys.unraisablehook
    sys.unraisablehook = lambda told: (
        told.exc_type is aserve.RequestTimeout or monitored(told)
    )  # in a finalizer of the app's
    server = serve(start_server, Busy(), threads=3, max_stuck=4096)
    deadlines, is_over, wrong, counts = deadlines_of(server), threading.Event(), [], {}

    def ask(client_number):
        number = 0
        while not is_over.is_set():
            number += 1
            name = f"/{client_number}-{number}".encode()
            with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
                client.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % name)
                octets = b""
                with contextlib.suppress(ConnectionResetError):
                    while piece := client.recv(1 << 16):
                        octets += piece
            status = octets[9:12]
            counts[status] = counts.get(status, 0) + 1
            if status not in (b"504", b"500", b"") and octets.partition(b"\r\n\r\n")[2] not in (name, b""):
                wrong.append((name, octets))

    def look():
        while not is_over.is_set():
            running()
            time.sleep(random.random() * 0.0003)

    def interrupt():
        for run in list(deadlines.runs.values()):
            if random.random() < 0.3:
                run.since -= 2 * HOUR
            if run.interrupted_at is not None and random.random() < 0.3:
                run.interrupted_at -= HOUR  # written off, if still there
        deadlines.on_second()
        if not is_over.is_set():
            server._loop.call_later(random.random() * 0.002, interrupt)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)] + [threading.Thread(target=look)]
    try:
        with switching_often():
            for thread in threads:
                thread.start()
            server.call(interrupt)
            is_over.wait(2.0)
            is_over.set()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
    finally:
        is_over.set()
        sys.unraisablehook = monitored
    print(
        "COUNTS",
        counts,
        server.server._threads.executor.threads.written_off_count,
        engine_of(server).plain_count,
        engine_of(server).promoted_count,
    )
    assert (
        wrong == []
        and set(counts) <= {b"200", b"500", b"504", b""}
        and not any(thread.is_alive() for thread in threads)
    )
    assert not any(word in message for message in caplog.messages for word in ("worker failed", "internal error"))
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        for number in range(2, 40, 6):
            client.sendall(b"GET /after-%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
            octets = b""
            while not octets.endswith(b"/after-%d" % number):
                octets += client.recv(1 << 16)
                assert octets
    wait_until(lambda: not deadlines.runs)  # a worker may be at the end of a response that its client has
    executor = server.server._threads.executor
    assert all(thread.is_alive() for thread in executor.threads.at_work)
