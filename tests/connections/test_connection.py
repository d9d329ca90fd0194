"""One client's connection: the app runs, its response goes to any wire, and nothing of it is kept."""

import time
from types import SimpleNamespace

import pytest
from harness.fakes import FakeAccessLog

from aserve.connections.connection import LOST, Connection, discard_reply, release_exchange
from aserve.core.errors import ClientDisconnected, ResponseTruncated, WrittenOff
from aserve.core.exchange import Exchange


class FakeWire:
    """Ends an exchange at once, or later; remembers its calls."""

    def __init__(self, ends_at_once=True):
        self.ends_at_once, self.calls = ends_at_once, []

    def reply(self, exchange, reply):
        self.calls.append(("reply", reply))
        return self.ends_at_once

    def __getattr__(self, name):
        return lambda exchange, argument: self.calls.append((name, argument))


class Body:
    is_closed = False

    def close(self):
        self.is_closed = True


class Closing:
    """An iterable that tells its fate."""

    def __init__(self, error=None):
        self.error, self.calls = error, []

    def __iter__(self):
        return self

    def __next__(self):
        self.calls.append("next")
        raise StopIteration

    def close(self):
        self.calls.append("close")
        if self.error is not None:
            raise self.error


@pytest.fixture
def new():
    """new(respond) -> a connection whose app answers so, and an exchange with a body."""

    def make(respond=lambda exchange: b"reply"):
        gateway = SimpleNamespace(respond=respond)
        connection = Connection(
            SimpleNamespace(
                gateway=gateway, ends=FakeAccessLog(), base_environ={}, lost=set(), end_lost=lambda exchange: None
            )
        )
        connection.wire = FakeWire()
        exchange = Exchange("", 0)
        exchange.connection, exchange.body, exchange.response = connection, Body(), SimpleNamespace(code=200)
        return connection, exchange

    return make


def test_an_exchange_ends(new):
    """Once its response is out an exchange is logged, and neither its body nor its response is kept."""
    connection, exchange = new()
    body = exchange.body
    connection.run(exchange)
    assert connection.wire.calls == [("reply", b"reply")]
    assert connection.service.ends.codes == [200] and body.is_closed and exchange.response is None


def test_a_wire_that_ends_it_later(new):
    """Until its response is out, an exchange keeps its parts."""
    connection, exchange = new()
    connection.wire.ends_at_once = False
    connection.run(exchange)
    assert connection.service.ends.codes == [] and not exchange.body.is_closed and exchange.response is not None
    assert exchange.left_at == 0.0  # no clock is read if times are not taken


def test_when_the_worker_was_done(new):
    """The time is noted where the response is still to be sent."""
    connection, exchange = new()
    connection.wire.ends_at_once, exchange.began_at = False, time.monotonic()
    connection.run(exchange)
    assert exchange.began_at <= exchange.left_at <= time.monotonic()


@pytest.mark.provokes("please report this as a bug")
def test_a_bug_of_ours(new, caplog):
    """A failure in aserve cuts this response, and is told as our fault."""
    connection, exchange = new(lambda exchange: 1 / 0)
    connection.run(exchange)
    assert connection.wire.calls == [("fail", "internal error")]
    assert "please report this as a bug in aserve" in caplog.text


def test_a_worker_that_was_written_off(new):
    """A written-off worker leaves without a word: another has its exchange."""

    def respond(exchange):
        raise WrittenOff

    connection, exchange = new(respond)
    with pytest.raises(WrittenOff):
        connection.run(exchange)
    assert connection.wire.calls == []


def test_what_is_asked_goes_to_the_wire(new):
    """The connection stays while its wire changes: each call finds the present wire."""
    connection, exchange = new()
    connection.send(exchange, b"piece")
    old, connection.wire = connection.wire, FakeWire()
    connection.abort_slow_reader(exchange, "why")
    connection.take_over(exchange, "late")
    assert old.calls == [("send", b"piece")]
    assert connection.wire.calls == [("abort_slow_reader", "why"), ("take_over", "late")]


def test_its_name_is_the_clients_address(new):
    connection, _ = new()
    assert connection.name == "unix socket"
    connection.remote_addr = "203.0.113.7"
    assert connection.name == "203.0.113.7"


# Letting go


def test_an_exchange_without_a_body():
    """There is nothing to close."""
    exchange = Exchange("", 0)
    exchange.response = object()
    release_exchange(exchange)
    assert exchange.response is None


@pytest.mark.parametrize("reply", [b"whole", (b"head", b"body")])
def test_a_whole_reply_is_discarded(reply, new):
    """Nothing is left of its exchange, but its line in the access log: once."""
    connection, exchange = new()
    discard_reply(exchange, reply)
    assert exchange.body.is_closed and exchange.response is None
    discard_reply(exchange, reply)
    assert exchange.end == "client_gone" and connection.service.ends.codes == [200]


def test_an_iterable_is_discarded(new):
    """An iterable is begun, since close() of an unbegun one would do nothing, and closed."""
    _, exchange = new()
    iterable = Closing()
    discard_reply(exchange, iterable)
    assert iterable.calls == ["next", "close"] and exchange.body.is_closed


@pytest.mark.parametrize(
    "error", [ClientDisconnected("gone"), ResponseTruncated("cut"), ValueError("the app's"), SystemExit()]
)
def test_an_iterable_that_fails_in_close(new, caplog, error):
    """Only the app's fault is told; nothing is left in any case."""
    _, exchange = new()
    discard_reply(exchange, Closing(error))
    assert ("raised in close()" in caplog.text) == isinstance(error, (ValueError, SystemExit))
    assert exchange.body.is_closed and exchange.response is None


def test_an_iterable_whose_worker_is_written_off(new, caplog):
    """Its thread is to end, and the app is not at fault."""
    _, exchange = new()
    with pytest.raises(WrittenOff):
        discard_reply(exchange, Closing(WrittenOff()))
    assert not caplog.records


def test_a_connection_that_is_lost(new):
    """A late exchange is told of the loss, and its response is released."""
    connection, exchange = new()
    connection.wire, reply = LOST, Closing()
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")
    connection.take_over(exchange, "late")
    connection.abort_slow_reader(exchange, "late")
    connection.service.gateway.respond = lambda exchange: reply
    connection.run(exchange)
    assert reply.calls[-1] == "close" and exchange.body.is_closed and connection.service.ends.codes == [200]
    assert exchange.end == "timed_out"
