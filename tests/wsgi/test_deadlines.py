"""Deadlines: an app that takes too long is ended, or answered for; nobody else notices.

The clock is not waited for: with a limit of an hour, `expire` makes an exchange as old. Beside this file: interruptible places
(test_deadlines_tokens.py), and the real clock (_clock).
"""

import asyncio
import re
import threading

import pytest
from harness import apps, sidecars
from harness.hanging import CHUNK, HOUR, Hanging, deadlines_of, messages
from harness.interpreter import NATIVE_KINDS

import aserve
from aserve.connections.lane.native import running
from aserve.features import Config
from aserve.settings import ConfigError


@pytest.fixture
def app():
    app = Hanging()
    yield app
    app.end()


@pytest.fixture(params=["direct", "proxied", *(["native"] if NATIVE_KINDS[1:] else [])])
def how(request, way):
    """A request's way to the app, the only difference: behind a trusted proxy telling of the client, or served by C."""
    if request.param == "native" and way.lane == "off":
        pytest.skip("C serves in the lane alone")
    return request.param


@pytest.fixture
def is_proxied(how):
    """Whether the clients are behind a trusted proxy."""
    return how == "proxied"


@pytest.fixture
def serve(start_server, app, how):
    """Start a server of `app` with a limit of an hour and one thread."""

    def start(**settings):
        settings.setdefault("threads", 1)
        if how == "proxied":
            settings["trusted_proxies"] = ["127.0.0.1"]
        if how == "native":
            settings["native"] = "auto"
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


def look(server):
    server.call(deadlines_of(server).on_second)


def expire(server):
    """Let the time of every exchange be over, and the server notice."""
    running()  # of plain requests nothing is known before
    for run in list(deadlines_of(server).runs.values()):
        run.since -= 2 * HOUR
    look(server)


def expire_grace(server):
    """Let the grace of interrupted workers be over, too."""
    for run in list(deadlines_of(server).runs.values()):
        if run.interrupted_at is not None:
            run.interrupted_at -= 2 * HOUR
    look(server)


def stuck_count(server):
    return server.statistics().workers_stuck


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
    assert re.search(rf"GET /{name} has been with the app for 7\d\d\d\.\d s", message)  # two hours, and the time passed
    assert (
        "--request-timeout (3600 s); RequestTimeout was raised in it; aserve-worker-1 was at (the last call first):"
        in message
    )
    assert f"in {name}\n" in message
    assert "executor.py" not in message
    assert not deadlines_of(server).runs


def test_an_app_may_answer_itself(serve, app, raw_client):
    """An app able to catch RequestTimeout may still respond."""
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
    """A list with a close() is not exempt, and the response is whole."""
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
    """A worker waiting for a client is set free by a cut of the connection."""
    spool_bytes = 4 * len(CHUNK)  # the default size takes a busy disk longer to fill than a test may wait
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
    """A worker waiting for a request's body is told so, and so is the client."""
    client = raw_client(server := serve(body="stream"))
    client.request("/reads", "Content-Length: 10", method="POST")
    app.wait_for_one()
    [run] = deadlines_of(server).runs.values()
    wait_until(lambda: not run._interruptible)
    expire(server)
    assert client.recv_response().status == 504
    assert raw_client(server).fetch("/reads", method="POST", body=b"whole").body == b"whole"


@pytest.mark.any_parser
def test_a_live_body_by_lines(start_server, raw_client):
    """The reader in front of a live body reads the same."""

    def lines(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        body = environ["wsgi.input"]
        return [repr([body.readline(), body.readlines(4), list(body)]).encode()]

    client = raw_client(start_server(lines, body="stream", request_seconds=HOUR))
    assert client.fetch(method="POST", body=b"a\nb\nc\nd\n").body == rb"[b'a\n', [b'b\n', b'c\n'], [b'd\n']]"


def test_an_interrupt_at_our_door(serve, app, raw_client):
    """An interrupt at a call of ours hits the app: nothing of the call is done.

    The interpreter chooses the place: CPython 3.14 and later may let a call end, and raise a thread's waiting exception as the next begins.
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
    """The reader in front of a live body closes the same: the rest is dropped, and reading finds the end."""

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
    """The client gets a 504, the next clients another worker; the late response reaches nobody."""
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
    """The response is cut, and nothing follows."""
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
    # As where nothing can be raised in a thread: the app comes back with a result.
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
    return sidecars.uwsgi(vars)


# Too many


@pytest.mark.one_way
def test_too_many_are_stuck(serve, app, raw_client, caplog):
    """The server says so, and goes on as long as nobody asks for a drain."""
    server = serve(max_stuck=2, drain_seconds=1)
    clients = [raw_client(server) for _ in range(3)]
    for count, client in enumerate(clients):
        assert bool(server.server.failure) == (count > 1)
        client.request("/blocks")
        app.wait_for_one()
        expire(server)
        expire_grace(server)
        assert client.recv_response().status == 504
    assert server.server.failure == "as many workers are stuck inside the app as --max-stuck allows: 2"
    assert sum("should be replaced" in message for message in messages(caplog)) == 1
    assert raw_client(server).fetch("/").status == 200
    server.stop()
    assert server.is_clean is False
    assert any(
        "threads still inside the app at the end: aserve-worker-1," in text for text in messages(caplog, "WARNING")
    )


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


async def test_serve_drains_and_raises(app):
    async def main():
        server = aserve.Server(app, bind="127.0.0.1:0")
        async with server:
            server._threads.failing.begin("for a test")
            assert await server.wait_failing() == "for a test"

        class Status:
            def started(self, server):
                asyncio.get_running_loop().call_soon(server._threads.failing.begin, "for a test")

        await aserve.serve(app, "127.0.0.1:0", task_status=Status())

    with pytest.raises(aserve.WorkersStuck, match="for a test"):
        await main()


# Off


@pytest.mark.one_way
def test_without_a_limit_nothing_is_there(start_server):
    """The gateway has the app itself."""
    server = start_server(apps.hello, is_checked=False)
    assert server.server._listening.services[0].gateway.app is apps.hello
    assert deadlines_of(server) is None


def test_without_threads_it_is_refused():
    """Rather than silently without effect."""
    with pytest.raises(ConfigError, match=r"^--request-timeout \(30 s\) needs --threads of 1 or more"):
        Config(request_seconds=30, threads=0)
