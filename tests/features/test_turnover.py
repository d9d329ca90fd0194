"""A connection's term: so many requests, or so long, and the response to the last says close."""

import random
import threading

import pytest
from harness import apps
from harness.gateways import new_exchange

from aserve.features import Config
from aserve.features.turnover import ConnectionLimits, Turnover
from aserve.wsgi import Gateway
from aserve.wsgi.response import CommonFields


def new_gateway(chance=None, **settings):
    return Gateway(apps.hello, CommonFields(""), True, [Turnover(Config(**settings), chance)])


def count_until_close(gateway, most=1000):
    """Return how many requests a new connection carries."""
    connection = None
    for number in range(1, most):
        exchange = new_exchange()
        connection = exchange.connection = connection or exchange.connection
        says_close = b"\r\nConnection: close\r\n" in gateway.respond(exchange)
        assert says_close is not exchange.keep_alive
        if says_close:
            return number
    return most


@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_requests_have_no_jitter(most):
    """A number below four has no jitter: a quarter of it is no request."""
    assert count_until_close(new_gateway(max_connection_requests=most)) == most


def test_many_requests_have_jitter():
    gateway = new_gateway(random.Random(7), max_connection_requests=100)
    counts = {count_until_close(gateway) for _ in range(50)}
    assert min(counts) >= 75 and max(counts) <= 100 and len(counts) > 10


def test_an_age_ends_by_a_close():
    """The first answer after the age says close, and the age counts from the first request."""
    gateway, now = new_gateway(max_connection_seconds=100.0), 1000.0
    gateway.before[0]._now = lambda: now
    exchange = new_exchange()
    connection = exchange.connection
    gateway.respond(exchange)
    ends_at = connection.term.ends_at
    assert 1075 <= ends_at <= 1100 and exchange.keep_alive
    for now, is_kept in ((ends_at - 0.1, True), (ends_at, False)):
        exchange = new_exchange()
        exchange.connection = connection
        gateway.respond(exchange)
        assert exchange.keep_alive is is_kept


def test_an_age_alone_limits_no_requests():
    assert count_until_close(new_gateway(max_connection_seconds=3600.0), 300) == 300


def test_a_client_that_closes():
    gateway = new_gateway(max_connection_requests=10)
    exchange = new_exchange()
    exchange.keep_alive = False
    assert b"\r\nConnection: close\r\n" in gateway.respond(exchange)


def test_streams_are_counted_together():
    """The streams of a carrier are counted together; their own ends are as ever."""
    gateway, carrying, found = new_gateway(max_connection_requests=3), new_exchange().connection, []
    carrying.lock, carrying.is_spent = threading.Lock(), False
    for _ in range(4):
        exchange = new_exchange()
        exchange.connection.carried_by = carrying
        gateway.respond(exchange)
        found.append(carrying.is_spent)
        assert exchange.keep_alive
    assert found == [False, False, True, True]


def test_by_the_settings():
    """Without a limit there is nothing to count."""
    assert not ConnectionLimits.is_on(Config())
    for settings in ({"max_connection_requests": 1}, {"max_connection_seconds": 1.0}):
        assert ConnectionLimits.is_on(Config(**settings))
