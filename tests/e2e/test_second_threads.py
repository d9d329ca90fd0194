"""The app's own threads send late: their response gets the octets, or nobody does."""

import threading

import pytest
from harness import apps

from aserve.connections.lane.handover import Handovers
from aserve.core.errors import AppError, ClientDisconnected
from aserve.wsgi.response import Response

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
            pass  # too late, and told so
        except BaseException as exc:
            self.faults.append(exc)

    def join(self):
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def app():
    app = Late()
    yield app
    app.join()
    assert app.faults == []


def recv_final(client):
    """Return the final response, and the number of earlier ones."""
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
    """A second thread's write is in its own response, or nowhere; the response is framed rightly, or cut."""
    server = start_server(app, is_checked=False, threads=4)
    for _ in range(ROUNDS):
        client = raw_client(server)
        try:
            reply = client.fetch(f"/write/{how}")
            assert reply.body.replace(b"written ", b"") == b"of one" and reply.body.count(b"written ") <= 1
            assert client.fetch("/").body == b"hello\n"
        except client.Truncated:
            pass  # the client sees the cut
        client.close()
    app.join()
    server.wait_until_idle()


# The interleavings, one by one


@pytest.mark.one_way
@pytest.mark.parametrize("how", ["whole", "pieces"])
def test_the_app_returns_while_a_hint_is_on_its_way(start_server, raw_client, app, monkeypatch, how):
    """The event loop is about to take the connection over: the worker waits, and its response comes behind."""
    begin = Handovers._begin

    def begin_late(self, *arguments):
        assert app.returns.wait(30)
        begin(self, *arguments)

    monkeypatch.setattr(Handovers, "_begin", begin_late)
    server = start_server(app, is_checked=False, threads=4)
    for _ in range(ROUNDS):
        client = raw_client(server)
        client.request(f"/hints/{how}")
        reply, _ = recv_final(client)
        assert reply.body == b"of one"
        client.close()
    app.join()
    server.wait_until_idle()


@pytest.mark.any_parser
@pytest.mark.parametrize("how", ["large", "file"])
def test_a_hint_as_a_large_response_begins(start_server, raw_client, monkeypatch, tmp_path, how):
    """An allowed hint is sent before the response, however long that takes; never in its middle."""
    body = bytes(range(256)) * (1 << 14)
    (tmp_path / "file").write_bytes(body)
    begun, inside, send = threading.Event(), threading.Event(), Response._send

    def send_late(self, octets):
        if threading.current_thread().name == "second":
            inside.set()
            begun.wait(0.5)  # a response without the wait would have begun by then
        send(self, octets)

    monkeypatch.setattr(Response, "_send", send_late)

    def large(environ, start_response):
        thread = threading.Thread(target=environ["wsgi.early_hints"], args=(HINT,), name="second", daemon=True)
        thread.start()
        assert inside.wait(30)
        start_response("200 OK", apps.PLAIN)
        return [body] if how == "large" else environ["wsgi.file_wrapper"](open(tmp_path / "file", "rb"))

    client = raw_client(start_server(large, is_checked=False, threads=4))
    client.request("/")
    first = client.recv_head()
    begun.set()
    assert first.status == 103
    assert client.recv_response().body == body


# Behind the end


class Behind:
    """The first response leaves a second thread's handles behind; `late` is the thread's next act."""

    def __init__(self, form):
        self.form = form
        self.kept = None
        self.outcomes = []

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] != "/first":
            self.late(is_over=True)  # while the next exchange of the connection is with the app
            start_response("200 OK", apps.PLAIN)
            return [b"second"]
        headers = apps.PLAIN if self.form != "length" else [*apps.PLAIN, ("Content-Length", "5")]
        write = start_response("200 OK", headers)
        self.kept = write, environ["wsgi.early_hints"], start_response.__self__._send
        if self.form == "write":
            write(b"first")
            return []
        return [b"first"] if self.form == "list" else iter([b"fi", b"rst"])

    def late(self, is_over):
        """Write and hint; of a finished response, go on where a write() was paused with its octets in hand."""

        def call():
            write, hints, send = self.kept
            calls = ((write, b"late"), (hints, [("Link", "</late>")]), (send, b"late"))
            for function, argument in calls[: 3 if is_over else 2]:
                try:
                    function(argument)
                except (AppError, ClientDisconnected) as exc:
                    self.outcomes.append(type(exc))
                else:
                    self.outcomes.append(None)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.any_parser
@pytest.mark.parametrize("form", ["list", "pieces", "length", "write"])
def test_a_second_thread_that_writes_late(start_server, raw_client, form):
    """A late write is refused, whether the connection idles or serves another exchange; the responses are whole, and in order."""
    app = Behind(form)
    client = raw_client(
        start_server(app, is_checked=False, native="off")
    )  # C has no paused write(); see test_native.py
    for count in range(1, 3):
        assert client.fetch("/first").body == b"first"
        assert client.fetch("/second").body == b"second"
        assert client.fetch("/first").body == b"first"
        app.late(is_over=False)
        assert client.is_quiet()
        assert client.fetch("/second").body == b"second"
        assert len(app.outcomes) == 8 * count
    # With a length of its own the response drops the surplus, without a word; nothing else goes unnoticed.
    assert set(app.outcomes) - {None} == {AppError, ClientDisconnected}
    assert app.outcomes.count(None) == (6 if form == "length" else 0)
