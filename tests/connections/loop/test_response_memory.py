"""A response's part of --response-memory, taken and given back. (Without room: test_spooled.py.)"""

import pytest
from harness.replies import GET

from aserve.connections.loop.response_memory import release_memory, reserve_body, reserve_memory


@pytest.fixture
def counted(new):
    """counted(...) -> the connection, its exchange, and the budget; there is room for 100 octets."""
    harness, wire, _ = new()
    wire.data_received(GET)
    memory = harness.service.budgets.memory
    memory.limit = 100
    yield wire.connection, wire.exchange, memory
    release_memory(wire.connection, wire.exchange)
    assert memory.count == 0
    harness.executor.run()


def test_of_pieces_the_largest_counts(counted):
    """Pieces come one after another: the largest counts."""
    connection, exchange, memory = counted
    for count in (40, 60, 50):
        assert reserve_memory(connection, exchange, count, is_forced=False)
    assert memory.count == exchange.counted_bytes == 60
    assert not reserve_memory(connection, exchange, 101, is_forced=False)
    assert reserve_memory(connection, exchange, 101, is_forced=True) and memory.count == 101


def test_a_body_counts_whole(counted):
    """A body counts whole, until its release."""
    connection, exchange, memory = counted
    assert reserve_body(connection, exchange, bytes(60), is_patient=False, is_forced=False)
    assert memory.count == exchange.counted_bytes == 60
    release_memory(connection, exchange)
    assert memory.count == exchange.counted_bytes == 0
    assert not reserve_body(connection, exchange, bytes(101), is_patient=False, is_forced=False)


@pytest.mark.parametrize("kind", ["piece", "body"])
def test_an_exchange_that_has_ended_meanwhile(counted, kind):
    """Nothing stays counted: nothing else would give it back."""
    connection, exchange, memory = counted
    connection.exchange = None
    if kind == "piece":
        assert reserve_memory(connection, exchange, 40, is_forced=False)
    else:
        assert reserve_body(connection, exchange, bytes(40), is_patient=False, is_forced=False)
    assert memory.count == 0
    connection.exchange = exchange
