"""From the app's reply to the client: in order, and as fast as the client reads.

Beside this file: waiting for a client (test_sending_back_pressure.py), and the temporary file (test_spooled.py).
"""

import errno
import os
import socket
from types import SimpleNamespace

import pytest
from harness.replies import GET, GET_1_0, POST, body_of, is_reset, returning
from harness.slow_clients import small_socket_buffer

from aserve.connections.loop import outbox as outbox_module
from aserve.connections.loop.sending import Sending
from aserve.core.errors import WrittenOff
from aserve.core.exchange import ANSWERED, CLIENT_GONE, Exchange
from aserve.workers.inline import InlineExecutor

# A worker writes the end of a response past the transport


def test_the_last_one_out_writes_for_itself(new):
    """With nothing else on its way, a worker's response is out before the loop knows of it."""
    harness, connection, transport = new(returning([b"hello"]))
    connection.data_received(GET)
    harness.executor.run_job()
    assert body_of(transport.received()) == b"hello"
    harness.executor.run()
    assert transport.received() == b""
    connection.data_received(GET)
    harness.executor.run_job()
    assert body_of(transport.received()) == b"hello"


def test_a_stream_writes_for_itself_too(new):
    """So are the pieces of a stream."""
    harness, connection, transport = new(returning(iter([b"a", b"b"])))
    connection.data_received(GET)
    harness.executor.run_job()
    assert body_of(transport.received()) == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    harness.executor.run()
    assert not transport.is_closing()


def test_the_loop_writes_when_it_is_awake_anyway(new):
    """With other jobs waiting, the loop writes for all of them at once."""
    harness, connection, transport = new(returning([b"hello"]))
    _, other = harness.connect()
    connection.data_received(GET)
    other.protocol.data_received(GET)
    harness.executor.run_job()
    assert transport.received() == b""
    harness.executor.run()
    assert body_of(transport.received()) == body_of(other.received()) == b"hello"


@pytest.mark.parametrize("raw", [POST, GET_1_0, GET + GET])
def test_the_loop_writes_when_it_must_see_the_end(new, raw):
    """A body to free, a connection to close, a request that waits: the end is the loop's."""
    harness, connection, transport = new(returning([b"hello"]))
    connection.data_received(raw)
    harness.executor.run_job()
    assert transport.received() == b""
    harness.executor.run()
    assert body_of(transport.received()).startswith(b"hello")


@pytest.mark.parametrize("is_list", [True, False])
def test_nothing_overtakes_what_the_transport_holds(new, is_list):
    """As long as the transport holds octets of an earlier response, later ones go behind them."""
    harness, connection, transport = new(lambda environ, start: app(environ, start))
    bodies = [[b"first"], [b"second"] if is_list else iter([b"second"])]

    def app(environ, start_response):
        start_response("200 OK", [])
        return bodies.pop(0)

    transport.is_stuck = True
    connection.data_received(POST)
    harness.executor.run()
    connection.data_received(GET)
    harness.executor.run()
    assert transport.received() == b""
    transport.unstick()
    octets = transport.received()
    assert 0 < octets.index(b"first") < octets.index(b"second")


def test_early_hints_are_not_overtaken(new):
    """A response right behind early hints does not pass them on their way through the loop."""

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "x")])
        start_response("200 OK", [])
        return [b"hello"]

    harness, connection, transport = new(app)
    connection.data_received(POST)  # by way of the loop
    harness.executor.run_job()
    harness.executor.flush()
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 103 ") and octets.count(b"HTTP/1.1 200 OK") == 1


def test_a_post_in_the_loops_hands_is_not_overtaken(new):
    """A piece that the loop has taken from the queue and not yet written is still in front."""

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "x" * 70000)])  # too large for a worker to write
        in_hand.append(harness.executor.posts.pop(0))  # the loop has begun to bring it home
        start_response("200 OK", [])
        return [b"hello"]

    in_hand = []
    harness, connection, transport = new(app)
    connection.data_received(GET)
    harness.executor.run_job()
    function, first, second = in_hand.pop()
    function(first, second)
    harness.executor.run()
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 103 ") and body_of(body_of(octets)) == b"hello"


@pytest.mark.parametrize(
    ("app", "length"),
    [
        (lambda: returning([b"x" * 60_000]), 60_000),
        (lambda: returning(iter([b"x" * 60_000, b"y"]), [("Content-Length", "60001")]), 60_001),
    ],
)
def test_what_the_socket_does_not_take(new, app, length):
    """The rest refused by the socket goes through the transport."""
    harness, connection, transport = new(app())
    small_socket_buffer(transport)
    connection.data_received(GET)
    harness.executor.run()
    assert transport.held
    assert len(body_of(transport.received())) == length
    connection.data_received(GET)
    assert len(harness.executor.jobs) == 1


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ECONNRESET])
def test_a_socket_that_takes_nothing(new, number, monkeypatch):
    """A response refused by the socket is left to the transport, which knows what to do."""

    def refuse(fd, octets):
        raise OSError(number, os.strerror(number))

    harness, connection, transport = new(returning([b"hello"]))
    connection.data_received(GET)
    with monkeypatch.context() as patch:
        patch.setattr(outbox_module.os, "write", refuse)
        harness.executor.run_job()
    assert harness.executor.waking == [] and transport.received() == b""
    harness.executor.run()
    assert body_of(transport.received()) == b"hello"


def test_the_access_log_of_a_direct_write(new):
    """A response unseen by the loop is logged all the same."""
    harness, connection, _ = new(returning([b"hello"]))
    harness.service.ends = harness.log
    connection.data_received(GET)
    harness.executor.run()
    assert harness.log.codes == [200] and harness.log.cuts == [False]


# Deadlines


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_worker_that_is_written_off(new, is_lazy):
    """A written-off worker hands over nothing, and the executor hears of it."""

    def app(environ, start_response):
        raise WrittenOff

    def lazy(environ, start_response):
        raise WrittenOff
        yield b""

    harness, connection, _ = new(lazy if is_lazy else app)
    connection.data_received(GET)
    with pytest.raises(WrittenOff):
        harness.executor.run_job()
    assert harness.executor.posts == []


def test_only_a_begun_response_is_cut(new):
    seen = []

    def app(environ, start_response):
        seen.append(exchange := connection.exchange)
        connection.abort_slow_reader(exchange, "too long")
        start_response("200 OK", [])(b"begun")
        connection.abort_slow_reader(None, "not this one")
        assert not is_reset(transport)
        connection.abort_slow_reader(exchange, "too long")
        return []

    harness, connection, transport = new(app)
    connection.data_received(GET)
    harness.executor.run()
    assert is_reset(transport)
    connection.abort_slow_reader(seen[0], "it is over")


# The end of the client's octets, unseen by the loop


@pytest.mark.parametrize(
    ("addr", "keeps", "arrived_at", "fd", "ends"),
    [
        ("::1", False, 1.0, 0, CLIENT_GONE),
        ("::1", False, 0.0, 0, ANSWERED),  # not timed
        ("::1", True, 1.0, 0, ANSWERED),
        ("", False, 1.0, 0, ANSWERED),
        ("::1", False, 1.0, -1, ANSWERED),  # a stream
    ],
)
def test_a_client_that_leaves_while_the_app_holds_up_the_loop(monkeypatch, addr, keeps, arrived_at, fd, ends):
    """With --threads 0 the socket is looked at before the response to a long request."""
    monkeypatch.setattr(Sending, "_complete_response", lambda *_: True)
    service = SimpleNamespace(executor=InlineExecutor(), config=SimpleNamespace(keep_half_closed=keeps))
    client, server = socket.socketpair()
    with client, server:
        client.shutdown(socket.SHUT_WR)
        outbox = SimpleNamespace(fd=server.fileno() if fd == 0 else fd)
        exchange = Exchange("", 0)
        exchange.connection, exchange.arrived_at = (
            SimpleNamespace(service=service, remote_addr=addr, is_stream=False),
            arrived_at,
        )
        assert Sending(exchange.connection, outbox, None).reply(exchange, b"whole") and exchange.end == ends
