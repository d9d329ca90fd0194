"""A request for a WebSocket, while the app may still answer over HTTP."""

import threading

import pytest
from harness import apps
from harness.waiting import wait_until
from harness.websockets import ASKING, SWITCHING, Held, Switching, begin

from aserve.core.errors import ClientDisconnected

HINT = [("Link", "</a.css>; rel=preload")]


class Keeping:
    """An app that answers over HTTP, and keeps the offered sockets."""

    def __init__(self, answer=apps.hello):
        self.answer = answer
        self.socks = []

    def __call__(self, environ, start_response):
        if "werkzeug.socket" in environ:
            self.socks.append(environ["werkzeug.socket"])
        return self.answer(environ, start_response)


def is_dead(sock):
    """Wait until the socket is closed by its worker."""
    wait_until(lambda: sock.fileno() == -1)
    return True


def in_pieces(environ, start_response):
    write = start_response("200 OK", apps.PLAIN)
    write(b"hel")
    return iter([b"l", b"o\n"])


def hinting(environ, start_response):
    environ["wsgi.early_hints"](HINT)
    return apps.hello(environ, start_response)


def test_an_app_that_leaves_it_alone(start_server, raw_client):
    """The app answers as always, the connection is kept, and the socket leads nowhere."""
    app = Keeping()
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    for _ in range(3):
        assert client.fetch("/", *ASKING).body == b"hello\n"
        assert client.fetch("/").body == b"hello\n"
    assert len(app.socks) == 3 and all(map(is_dead, app.socks))
    assert server.statistics().requests == 6 and not server.statistics().connections_websocket


@pytest.mark.one_way
@pytest.mark.parametrize("answer", [in_pieces, hinting])
def test_answers_that_begin_early(start_server, raw_client, answer):
    """The first piece decides, or early hints."""
    app = Keeping(answer)
    client = raw_client(start_server(app, is_checked=False))
    client.request("/", *ASKING)
    if answer is hinting:
        assert client.recv_response().status == 103
    assert client.recv_response().body == b"hello\n"
    assert client.fetch().status == 200 or answer is hinting
    assert is_dead(app.socks[0])


@pytest.mark.one_way
def test_an_app_that_closes_it(start_server, raw_client):
    """An app that closes the socket may still answer."""

    def app(environ, start_response):
        environ["werkzeug.socket"].close()
        return apps.hello(environ, start_response)

    client = raw_client(start_server(app, is_checked=False))
    for _ in range(2):
        assert client.fetch("/", *ASKING).status == 200


@pytest.mark.one_way
def test_an_app_that_fails(start_server, raw_client, caplog):
    """The client gets a 500, as always."""
    client = raw_client(start_server(apps.raises, is_checked=False))
    assert client.fetch("/", *ASKING).status == 500
    assert client.fetch("/", *ASKING).status == 500


@pytest.mark.one_way
def test_what_is_written_past_the_socket(start_server, raw_client, caplog):
    """Once it is a WebSocket, write() fails, and the iterable is closed unread."""
    faults, closed = [], []

    class Pieces:
        def __iter__(self):
            return iter([b"late"])

        def close(self):
            closed.append(True)
            raise ZeroDivisionError

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(SWITCHING)
        write = start_response("200 OK", apps.PLAIN)
        with pytest.raises(ClientDisconnected) as caught:
            write(b"late")
        faults.append(caught.value)
        return Pieces()

    client = begin(raw_client(start_server(app, is_checked=False)))
    assert client.recv_to_end() == b""
    assert closed and faults
    wait_until(lambda: "in close()" in caplog.text)


@pytest.mark.one_way
def test_written_at_the_last_moment(start_server, raw_client):
    """The app's write and its immediate return race: it is a WebSocket each time."""

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(SWITCHING + b"abc")
        return apps.hello(environ, start_response)

    server = start_server(app, is_checked=False)
    for _ in range(30):
        assert begin(raw_client(server)).recv_to_end() == b"abc"


@pytest.mark.one_way
def test_a_deadline_includes_the_decision(start_server, raw_client):
    """An app that hangs before its decision gets no more time than any; its thread is written off."""
    is_in, may_return = threading.Event(), threading.Event()
    app = Keeping(lambda environ, start_response: (is_in.set(), may_return.wait(20), [])[2])
    server = start_server(app, is_checked=False, request_seconds=1)
    client = raw_client(server)
    client.request("/", *ASKING)
    assert is_in.wait(30)
    server.pass_seconds_until(lambda: server.statistics().workers_written_off)
    assert client.recv_response().status == 504
    may_return.set()
    assert is_dead(app.socks[0])
    wait_until(lambda: not server.statistics().workers_stuck)


@pytest.mark.one_way
def test_a_client_that_is_gone_before(start_server, raw_client):
    """The app that begins a WebSocket then finds its end, and is logged once."""
    app = Held(switching := Switching())
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    client.request("/", *ASKING)
    assert app.is_in.wait(30)
    server.call(lambda: [each.abort() for each in list(server.server._listening.connections)])
    server.wait_until_idle()
    app.may_begin.set()
    assert switching.ended.acquire(timeout=30)
    wait_until(lambda: server.call(lambda: not server.server._listening.services[0].websockets._all))


def abort(server, _):
    server.call(lambda: [each.abort() for each in list(server.server._listening.connections)])


@pytest.mark.any_parser
@pytest.mark.parametrize(
    "end",
    [
        lambda _, client: client.end_sending(), lambda _, client: client.reset(), abort,
        lambda server, _: server.begin_drain(),
    ],
    ids=["fin", "reset", "abort", "drain"],
)  # fmt: skip
def test_an_app_that_reads_first(start_server, raw_client, end):
    """The app finds the end of its client, or of the server, before any decision; its answer is then HTTP."""
    is_in, got = threading.Event(), []

    def app(environ, start_response):
        is_in.set()
        got.append(environ["werkzeug.socket"].recv(1))
        return apps.hello(environ, start_response)

    server = start_server(app, is_checked=False)
    all = server.server._listening.services[0].websockets._all
    client = raw_client(server)
    client.request("/", *ASKING)
    assert is_in.wait(30)
    end(server, client)
    wait_until(lambda: got)
    assert got == [b""]
    wait_until(lambda: not all)


def is_reading(wire):
    return wire._transport.is_reading()


def test_octets_before_it_has_decided(start_server, raw_client):
    """They are read once, and then no more; the app has them as it begins, in order."""
    app = Held(Switching())
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    client.request("/", *ASKING)
    assert app.is_in.wait(30)
    client.send(b"abc")
    wait_until(
        lambda: server.call(lambda: [each for each in server.server._listening.connections if not is_reading(each)])
    )
    client.send(b"def")
    client.end_sending()
    app.may_begin.set()
    assert client.recv_head().status == 101 and client.recv_to_end() == b"abcdef"
