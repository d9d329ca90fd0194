"""Responses in pieces: whoever looks for slow requests sees since when nothing was sent."""

from types import SimpleNamespace

import pytest

from aserve.connections import streams
from aserve.connections.streams import note_stream
from aserve.core.exchange import Exchange


class Table:
    """The table in flight: how often an exchange was refreshed."""

    count = 0

    def refresh(self, exchange):
        self.count += 1


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(streams, "time", clock)
    return clock


def new_exchange(**response):
    exchange = Exchange("", 0)
    exchange.response = SimpleNamespace(
        **{"head_is_out": True, "is_full": False, "sent_bytes": 0, "is_event_stream": False, **response}
    )
    return exchange


def test_one_that_grows(clock):
    """A growing stream counts from its last growth."""
    exchange, table = new_exchange(sent_bytes=5), Table()
    note_stream(exchange, table)
    assert exchange.grew_at == 1000.0 and table.count == 1
    clock.now += 10.0
    note_stream(exchange, table)
    assert exchange.grew_at == 1000.0 and table.count == 1
    exchange.response.sent_bytes = 6
    note_stream(exchange, None)
    assert exchange.grew_at == 1010.0


def test_an_event_stream(clock):
    """An event stream waits for events, as long as it is open."""
    exchange = new_exchange(is_event_stream=True)
    note_stream(exchange, None)
    clock.now += 10.0
    note_stream(exchange, None)
    assert exchange.grew_at == 1010.0


def test_what_is_no_stream(clock):
    """An unbegun or whole response is no stream: its time counts from the request's arrival."""
    for exchange in (new_exchange(head_is_out=False), new_exchange(is_full=True, sent_bytes=9), Exchange("", 0)):
        note_stream(exchange, None)
        assert exchange.grew_at == 0.0
