"""Outgoing octets of the event loop's wire: responses are cut visibly, and nothing follows the end."""

import contextlib
import errno
import functools
import os
import queue
import socket
import sys
import threading

import pytest
from harness import sidecars
from harness.replies import GET, GET_1_0, POST, Chunks, body_of, is_cut, is_reset, returning

from aserve.connections.loop import outbox as outbox_module
from aserve.connections.loop.large_bodies import send_memory
from aserve.connections.loop.outbox import NOBODY
from aserve.connections.states import Event, State
from aserve.core.errors import AppError, ClientDisconnected

# Cut short


@pytest.mark.parametrize(
    ("raw", "headers", "expected"),
    [
        (GET, [("Content-Length", "5")], is_cut),
        (POST, [("Content-Length", "5")], is_cut),
        (GET_1_0, [("Content-Length", "5")], is_cut),
        (GET, [], is_cut),
        (POST, [], is_cut),
        (GET_1_0, [], is_reset),
    ],
)
def test_a_response_that_cannot_be_finished(new, raw, headers, expected):
    """RFC 9112 8: a cut must be seen: by the length or the chunks; by a reset where there is nothing else."""
    closing = Chunks(b"ab", "text")
    harness, connection, transport = new(returning(closing, headers))
    harness.service.ends = harness.log
    connection.data_received(raw)
    harness.executor.run()
    assert expected(transport) and closing.closed == 1 and harness.log.codes == [200] and harness.log.cuts == [True]
    octets = transport.received()
    assert b"ab" in body_of(octets) and not octets.endswith(b"0\r\n\r\n")
    assert connection.exchange is None
    transport.lose()


@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "5")]])
def test_a_front_server_is_told_by_a_reset(new, protocol, headers):
    """Not every front server counts the body of a response with a length: only a reset tells them all."""
    harness, connection, transport = new(returning(Chunks(b"ab", "text"), headers), protocol=protocol)
    connection.data_received(sidecars.encode(protocol, {"REQUEST_METHOD": "GET"}))
    harness.executor.run()
    assert is_reset(transport)


def test_whole_responses_before_it_are_kept(new):
    """Octets unread by a pipelining client are sent before the end, and nothing behind it is answered."""
    chunks = [[b"whole"], Chunks(b"ab", "text"), [b"never"]]

    def app(environ, start_response):
        start_response("200 OK", [])
        return chunks.pop(0)

    harness, connection, transport = new(app)
    transport.is_stuck = True
    connection.data_received(GET * 3)
    harness.executor.run()
    transport.unstick()
    harness.executor.run()
    octets = transport.received()
    assert octets.count(b"HTTP/1.1 200") == 2 and b"whole" in octets and b"never" not in octets
    assert is_cut(transport) and octets.endswith(b"2\r\nab\r\n")


@pytest.mark.provokes("please report this as a bug")
def test_a_failure_behind_the_end_costs_nothing(new, caplog):
    """Our failure behind a finished response leaves the connection alone, and its next response."""

    class BrokenLog:
        def write(self, exchange, may_wait=False):
            raise IndexError("on purpose")

    harness, connection, transport = new(returning([b"x"]))
    harness.service.ends = BrokenLog()
    connection.data_received(GET)
    harness.executor.run_job()  # it writes its response itself
    assert "report this as a bug" in caplog.text
    harness.service.ends = None
    connection.data_received(GET)
    harness.executor.flush()
    harness.executor.run()
    assert transport.received().count(b"HTTP/1.1 200") == 2 and transport.calls == []


def test_a_reset_of_a_socket_that_is_gone(new, monkeypatch):
    """Where the client was quicker, there is nothing left to reset."""
    harness, connection, transport = new(returning(Chunks(b"ab", "text")))
    connection.data_received(GET_1_0)
    transport.extra["socket"] = type("Gone", (), {"setsockopt": gone})()
    harness.executor.run()
    assert transport.calls == ["abort"]


def gone(self, *_):
    raise OSError(errno.EBADF, "Bad file descriptor")


@pytest.mark.parametrize("count", [1, 2])
def test_a_close_that_fails_when_the_client_has_left(new, count, caplog):
    """An iterable that fails in close(), too, ends its exchange."""
    closing = Chunks(*[b"x"] * 3, close_error=KeyError("late"))
    harness, connection, transport = new(returning(closing))
    harness.service.ends = harness.log
    connection.data_received(POST)
    transport.lose()
    harness.executor.run()
    assert closing.closed == 1 and harness.log.codes == [200]
    assert "KeyError in close()" in caplog.text and "report this" not in caplog.text


@pytest.mark.provokes("please report this as a bug")
def test_our_own_bug_costs_one_request(new, monkeypatch, caplog):
    """An exception of ours in a worker is logged as such, and ends this connection alone."""
    harness, connection, transport = new(returning([b"x"]))
    connection.data_received(GET)
    monkeypatch.setattr(type(harness.service.gateway), "respond", lambda self, exchange: 1 / 0)
    harness.executor.run()
    assert is_cut(transport) and "please report this as a bug in aserve" in caplog.text


# write() after the end


def test_a_late_write(new):
    writes = []

    def app(environ, start_response):
        writes.append(start_response("200 OK", []))
        return [b"hello"]

    harness, connection, transport = new(app)
    for raw in (GET, POST):
        connection.data_received(raw)
        harness.executor.run()
        transport.received()
        with pytest.raises(AppError):
            writes.pop()(b"late")
        assert transport.received() == b"" and harness.executor.posts == []


@pytest.mark.parametrize("raw", [GET, GET_1_0])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "2")]])
@pytest.mark.parametrize("chunks", [[b"ab"], iter([b"a", b"b"])])
def test_a_write_between_the_last_piece_and_the_end(new, raw, headers, chunks):
    """No late write comes behind the end of the response, where the next one begins."""
    writes = []

    def app(environ, start_response):
        writes.append(start_response("200 OK", headers))
        return chunks

    harness, connection, transport = new(app)
    connection.data_received(raw + raw)
    harness.executor.run_job()
    with contextlib.suppress(AppError):
        writes[0](b"late")
    harness.executor.flush()
    octets = transport.received()
    assert octets.count(b"HTTP/1.1 200") == 1 and b"late" not in octets


def test_a_piece_posted_behind_the_end(new):
    """A second thread's piece is dropped while the end is on its way home."""
    harness, connection, transport = new(returning(iter([b"a"])))
    connection.data_received(GET)
    exchange = connection.exchange
    harness.executor.posts.append((lambda *_: None, None, None))  # the loop is awake: nobody writes directly
    harness.executor.run_job()
    connection.send(exchange, b"late")
    harness.executor.flush()
    assert body_of(transport.received()) == b"1\r\na\r\n0\r\n\r\n"
    connection.data_received(GET)
    assert connection._outbox.write_past(exchange, b"late", is_last=False) == b"late"
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")


def test_the_rest_of_a_response_whose_connection_closes(new):
    """Nothing is written behind the closing response; the exchange ends all the same."""
    harness, connection, transport = new(returning([b""]))
    connection.data_received(GET)
    exchange = connection.exchange
    harness.executor.run()
    assert transport.received().startswith(b"HTTP/1.1 200 ")
    connection.connection_lost(None)
    connection._outbox.on_rest(exchange, (b"late",))
    assert transport.received() == b"" and connection.exchange is None


class Watched:
    """A lock that tells its waiters."""

    def __init__(self, events):
        self.lock, self.events = threading.Lock(), events

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.events.put("waits")
            self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


@pytest.mark.parametrize("body", [b"0\r\n\r\n", (b"0\r\n", b"\r\n")], ids=["rest", "large"])
def test_a_piece_that_is_written_as_the_end_comes(new, monkeypatch, body):
    """The loop ends a response behind the app's second thread that is just writing."""
    harness, connection, transport = new(returning([b""]))
    connection.data_received(GET)
    exchange, write, events = connection.exchange, os.write, queue.Queue()
    connection._lock = connection._outbox._lock = Watched(events)
    on_large = functools.partial(send_memory, connection._outbox)
    on_end = on_large if isinstance(body, tuple) else connection._outbox.on_complete

    def end():
        on_end(exchange, body)
        events.put("is done")

    loop = threading.Thread(target=end)

    def write_late(fd, octets):
        loop.start()
        assert events.get(timeout=30) == "waits"
        return write(fd, octets)

    monkeypatch.setattr(outbox_module.os, "write", write_late)
    try:
        assert connection._outbox.write_past(exchange, b"1\r\na\r\n", is_last=False) is None
    finally:
        monkeypatch.undo()
        loop.join(30)
    assert transport.received() == b"1\r\na\r\n0\r\n\r\n"
    assert connection._outbox.write_past(exchange, b"late", is_last=False) == b"late"


def test_what_the_kernel_holds(monkeypatch):
    """Octets in the kernel are counted on Linux, until the socket is closed; elsewhere the number is unknown."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"abc")
        held = outbox_module.queued_bytes(ours.fileno())
        assert held >= 3 if sys.platform == "linux" else held == 0
        monkeypatch.setattr(outbox_module.sys, "platform", "darwin")
        assert outbox_module.queued_bytes(ours.fileno()) == 0
        monkeypatch.undo()
    assert outbox_module.queued_bytes(ours.fileno()) == 0


def test_nobody_ignores_late_events():
    """In the place of a former wire, late events do nothing: its connection is over, and no exchange is left."""
    assert NOBODY.state is State.CLOSED and NOBODY.take_completion() is False
    assert NOBODY.transition(Event.LOST) is None and NOBODY.reset("why") is None
    assert NOBODY.complete(None) is None and NOBODY.end_exchange(None) is None
