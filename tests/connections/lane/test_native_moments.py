"""Events between two steps of C: the collector, another thread, the end of the request itself."""

import contextlib
import gc
import itertools
import threading
import time

import pytest
from harness import apps
from harness.hanging import HOUR
from harness.plain import ask, engine_of, request

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]


@pytest.fixture
def gated(start_server):
    """Start a server whose app waits, and then tells its environ."""
    gate = apps.Gate(apps.environ_json)
    return start_server(gate, is_checked=False, native="auto"), gate


def test_a_promotion_that_comes_too_late(gated, raw_client):
    """A late exchange is dropped; a later request of the connection has its client, whichever way it takes."""
    server, gate = gated
    client = raw_client(server)
    native = server.server._listening.lane.native
    promote = type(native).promote

    def late(*arguments):
        made = promote(native, *arguments)
        gate.open()
        assert client.recv_response().status == 200
        return made

    native.promote = late
    client.request("/")
    gate.wait_entered()
    engine_of(server).promote_all()
    del native.promote
    assert engine_of(server).promoted_count == 0
    gate.open(2)
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b'"REMOTE_ADDR": "127.0.0.1"' in client.recv_response().body
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert b'"REMOTE_ADDR": "127.0.0.1"' in client.recv_response().body


@pytest.mark.parametrize("nth", range(4))
def test_a_request_that_ends_as_the_collector_runs(gated, raw_client, monkeypatch, nth):
    """The promoter meets the collector at any new object; then nothing is read of a request that is over."""
    server, gate = gated
    native, seen, ended = server.server._listening.lane.native, [], []
    promote = type(native).promote

    def noted(native, state):
        seen.append((state.vars[:14], state.body))
        return promote(native, state)

    monkeypatch.setattr(type(native), "promote", noted)
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    gate.wait_entered()
    own, times = threading.get_ident(), itertools.count()

    def end_it(phase, info):
        if threading.get_ident() == own and phase == "start" and next(times) == nth:
            gate.open()
            ended.append(client.recv_response().status)

    before, promote_all = gc.get_threshold(), engine_of(server).promote_all
    gc.callbacks.append(end_it)
    gc.set_threshold(-1)  # at each object
    try:
        promote_all()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(end_it)
    if not ended:
        gate.open()
        ended.append(client.recv_response().status)
    assert ended == [200] and {*seen} <= {(b"REQUEST_METHOD", b"abc")}
    gate.open()
    assert client.fetch("/").status == 200


def test_an_iterable_without_bytecode(start_server, raw_client):
    """A long iterable does not keep the GIL to its end: other threads go on meanwhile."""
    entered, ended = threading.Event(), []

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        entered.set()
        return itertools.chain([b"x"], itertools.repeat(b"", 40_000_000), Last())

    class Last:
        def __iter__(self):
            ended.append(True)
            return iter([b"y"])

    server = start_server(app, is_checked=False, native="auto")
    client = raw_client(server)
    client.request("/")
    assert entered.wait(30)
    for _ in range(2):
        time.sleep(0.001)  # waking up behind it takes the GIL
    assert not ended
    assert client.recv_response().body == b"xy"


def test_two_that_come_back_at_once(start_server):
    """The first one's response is good for the second, which could make none."""
    kept = []

    def app(environ, start_response):
        kept.append(start_response)
        return apps.hello(environ, start_response)

    server = start_server(app, is_checked=False, native="auto", threads=1)
    assert ask(server, request("hello")).endswith(b"hello\n")
    native, said = server.server._listening.lane.native, []

    def late_response(*arguments):
        del native.late_response
        said.append(outcome(kept[0]))
        raise MemoryError

    def outcome(start):
        try:
            start("200 OK", apps.PLAIN)
        except Exception as exc:
            return type(exc), str(exc)

    native.late_response = late_response
    assert [outcome(kept[0])] == said


class AtTheEnd:
    """Calls into aserve when the app, or the environ, is released."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __del__(self):
        with contextlib.suppress(Exception):  # perhaps too late
            self.call(*self.arguments)


def at_the_end(name):
    """Return an app whose environ has a last call for each path: the way of the body, and whether it was promoted before."""

    def app(environ, start_response):
        way, is_early = environ["PATH_INFO"][1:].split("-")
        hints = environ["wsgi.early_hints"]
        if is_early == "promoted":
            hints([("Link", "</b>")])
        if name == "start_response" and way == "unstarted":
            environ["app.last"] = AtTheEnd(start_response, "200 OK", apps.PLAIN)
            return [b"body"]
        write = start_response("200 OK", apps.PLAIN)
        calls = {
            "write": (write, b"last"),
            "start_response": (start_response, "200 OK", apps.PLAIN),
            "early_hints": (hints, [("Link", "</a>")]),
        }
        environ["app.last"] = AtTheEnd(*calls[name])
        if way == "raises":
            raise ValueError("meant")
        return (piece for piece in [b"body"]) if way == "generator" else [b"body"]

    return app


@pytest.mark.provokes("raised", "broke PEP 3333")
@pytest.mark.parametrize("seconds", [0, HOUR])
@pytest.mark.parametrize("name", ["write", "start_response", "early_hints"])
def test_an_environ_whose_end_calls_us(start_server, name, seconds):
    """Its finalizers run in the worker, behind the app: they change the same octets in C and in Python, and the worker goes on."""
    received = {}
    asked = [
        request(f"{way}-{before}")
        for way in ("list", "generator", "raises", "unstarted")
        for before in ("plain", "promoted")
    ]
    for native in ("auto", "off"):
        server = start_server(at_the_end(name), is_checked=False, native=native, threads=1, request_seconds=seconds)
        received[native] = [ask(server, each) for each in asked]
    assert received["auto"] == received["off"]
