"""The number of a server's WebSockets, and their end with the server."""

import errno
import socket

import pytest
from harness.waiting import wait_until
from harness.websockets import ASKING, Switching, begin

from aserve import Config
from aserve.connections.loop import websockets
from aserve.connections.loop.websockets import WebSockets


@pytest.mark.one_way
def test_the_limit_refuses_one_too_many(start_server, raw_client, caplog):
    """One too many gets a 503 with Retry-After; the log says so once; an end makes room."""
    server = start_server(Switching(), is_checked=False, websockets=1)
    first = begin(raw_client(server))
    for _ in range(2):
        refused = raw_client(server).fetch("/", *ASKING)
        assert (refused.status, refused.get("Retry-After"), refused.get("Connection")) == (503, "10", "close")
    assert raw_client(server).fetch("/plain").status == 200
    first.close()
    wait_until(lambda: not server.statistics().connections_websocket)

    def ask(target):
        client = raw_client(server)
        client.request(target, *ASKING)
        return client.recv_head().status

    for _ in range(3):  # an answer over HTTP frees its place a moment later, behind the answer
        wait_until(lambda: ask("/plain") == 200)
    wait_until(lambda: ask("/") == 101)
    assert caplog.text.count("there are 1 WebSockets, the limit (--websockets)") == 1


@pytest.mark.one_way
def test_no_descriptor_is_a_503(start_server, raw_client, caplog, monkeypatch):
    def fail():
        raise OSError(errno.EMFILE, "Too many open files")

    server = start_server(Switching(), is_checked=False)
    monkeypatch.setattr(websockets.socket, "socketpair", fail)
    assert raw_client(server).fetch("/", *ASKING).status == 503
    monkeypatch.undo()
    assert "no WebSocket can be had: Too many open files" in caplog.text
    begin(raw_client(server))


@pytest.mark.one_way
@pytest.mark.parametrize(
    ("settings", "is_told"), [({"websockets": 0}, False), ({"threads": 1}, True), ({"threads": 0}, True)]
)
def test_none_are_offered_without_setting_or_threads(start_server, raw_client, caplog, settings, is_told):
    """Without the setting, or a second thread, such a request is as any other, and so are later ones."""
    app = Switching()
    server = start_server(app, is_checked=False, **settings)
    client = raw_client(server)
    client.request("/", *ASKING)
    client.request("/")
    assert [client.recv_response().status for _ in range(2)] == [200, 200]
    assert client.fetch("/", *ASKING).status == 200 and "werkzeug.socket" not in app.environs[0]
    assert caplog.text.count("--threads must be 2 or more") == is_told


@pytest.mark.parametrize(("count", "times"), [(3, [0, 0.01, 0.02, 0.03, 0.04]), (2000, [0, 0.005, 0.01, 0.015, 0.02])])
def test_one_after_the_other(count, times):
    """As the server drains they end a hundred a second, or all in the first half of --drain-timeout."""
    calls = []

    class Loop:
        def call_later(self, seconds, callback):
            calls.append(seconds)

    all = WebSockets(Config(drain_seconds=20), Loop())
    for number in range(count):
        all.add(number)
    for _ in range(3000):  # some have begun since
        all.end_later(print)
    assert calls[:5] == pytest.approx(times) and max(calls) == 10


def test_ends_are_not_warned_of():
    """An app that drops its socket without closing it does as Werkzeug's server allows."""
    with socket.socket() as other:
        end = websockets.PairEnd(fileno=socket.dup(other.fileno()))
        del end
