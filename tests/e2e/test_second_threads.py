"""Threads of the app's own that send something late: their response gets it, or nobody does."""

from __future__ import annotations

import threading

import apps
import pytest

from aserve.errors import AppError, ClientDisconnected
from aserve.ride import Departures, Ride

ROUNDS = 30
HINT = [("Link", "</a.css>; rel=preload")]


class Late:
    """An app whose second threads send early hints, or write, while it returns."""

    def __init__(self):
        self.threads = []
        self.faults = []
        self.returns = threading.Event()  # the app is about to

    def __call__(self, environ, start_response):
        kind, _, how = environ["PATH_INFO"][1:].partition("/")
        if not kind:
            return apps.hello(environ, start_response)
        self.returns.clear()
        write = start_response("200 OK", apps.PLAIN) if kind == "write" else None
        hints = environ["wsgi.early_hints"]
        send = (lambda: write(b"written ")) if write else (lambda: hints(HINT))
        thread = threading.Thread(target=self.run, args=(send,), name="second")
        self.threads.append(thread)
        thread.start()
        if not write:
            start_response("200 OK", apps.PLAIN)
        self.returns.set()
        return iter([b"of ", b"one"]) if how == "pieces" else [b"of one"]

    def run(self, send):
        try:
            send()
        except (ClientDisconnected, AppError):
            pass  # it came too late, and is told so
        except Exception as exc:
            self.faults.append(exc)

    def join(self):
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def app():
    app = Late()
    yield app
    app.join()


def recv_final(client):
    """Return the final response, and how many came before it."""
    count = 0
    while True:
        reply = client.recv_response()
        if reply.status != 103:
            return reply, count
        count += 1


@pytest.mark.any_parser
@pytest.mark.parametrize("how", ["whole", "pieces"])
@pytest.mark.parametrize("is_proxied", [False, True])
def test_hints_as_the_app_returns(start_server, raw_client, app, how, is_proxied):
    """Each request is answered once; hints come before their own response or not at all; no connection is left."""
    settings = {"trusted_proxies": "127.0.0.1"} if is_proxied else {}
    server = start_server(app, is_checked=False, threads=4, **settings)
    fields = ["X-Forwarded-For: 203.0.113.7"] if is_proxied else []
    for _ in range(ROUNDS):
        client = raw_client(server)
        for _ in range(2):
            client.request(f"/hints/{how}", *fields)
            reply, count = recv_final(client)
            assert (reply.status, reply.body) == (200, b"of one") and count <= 1
        assert client.fetch("/", *fields).body == b"hello\n"
        client.close()
    app.join()
    server.wait_until_idle()


@pytest.mark.any_parser
@pytest.mark.parametrize("how", ["whole", "pieces"])
def test_write_as_the_app_returns(start_server, raw_client, app, how):
    """What a second thread writes is in its own response, or nowhere; that response is framed rightly, or cut."""
    server = start_server(app, is_checked=False, threads=4)
    for _ in range(ROUNDS):
        client = raw_client(server)
        try:
            reply = client.fetch(f"/write/{how}")
            assert reply.body.replace(b"written ", b"") == b"of one" and reply.body.count(b"written ") <= 1
            assert client.fetch("/").body == b"hello\n"
        except client.Truncated:
            pass  # a client that sees that it has not got all
        client.close()
    app.join()
    server.wait_until_idle()


# The interleavings, one by one


@pytest.mark.one_way
def test_a_hint_that_comes_after_the_end(start_server, raw_client, app, monkeypatch):
    """It was looked at in time, and sent too late: the next response on the connection is not its victim."""
    inside, go_on = threading.Event(), threading.Event()
    hand_over = Ride._hand_over

    def pause(self, exchange):
        if threading.current_thread().name == "second":
            inside.set()
            assert go_on.wait(10)
        return hand_over(self, exchange)

    monkeypatch.setattr(Ride, "_hand_over", pause)
    entered, gate = threading.Event(), threading.Event()

    def two(environ, start_response):
        if environ["PATH_INFO"] == "/two":
            entered.set()
            assert gate.wait(10)
            start_response("200 OK", apps.PLAIN)
            return [b"of two"]
        result = app(environ, start_response)
        assert inside.wait(10)
        return result

    client = raw_client(server := start_server(two, is_checked=False, threads=4))
    client.request("/hints/whole")
    assert client.recv_response().body == b"of one"
    client.request("/two")
    assert entered.wait(10)
    go_on.set()
    app.join()
    gate.set()
    reply = client.recv_response()
    assert (reply.status, reply.body) == (200, b"of two")
    client.close()
    server.wait_until_idle()


@pytest.mark.one_way
@pytest.mark.parametrize("how", ["whole", "pieces"])
def test_the_app_returns_while_a_hint_is_on_its_way(start_server, raw_client, app, monkeypatch, how):
    """The event loop is about to take the connection over: the worker waits for it, and its response comes behind."""
    begin = Departures._begin

    def begin_late(self, *arguments):
        assert app.returns.wait(10)
        begin(self, *arguments)

    monkeypatch.setattr(Departures, "_begin", begin_late)
    server = start_server(app, is_checked=False, threads=4)
    for _ in range(ROUNDS):
        client = raw_client(server)
        client.request(f"/hints/{how}")
        reply, _ = recv_final(client)
        assert reply.body == b"of one"
        client.close()
    app.join()
    assert app.faults == []
    server.wait_until_idle()
