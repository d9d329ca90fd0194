"""The lane's connections, at --log-level debug."""

from types import SimpleNamespace

import pytest

from aserve.connections.connection import LOST
from aserve.connections.lane import lane_log as module
from aserve.connections.lane.lane_log import LaneLog
from aserve.connections.lane.wire_fast import FastWire


@pytest.fixture
def told(monkeypatch):
    """The told lines: name and text."""
    told = []
    monkeypatch.setattr(module, "tell", lambda connection, what: told.append((connection.name, what)))
    return told


@pytest.fixture
def lane(told):
    """A lane with a listener; the test chooses its connections."""
    calls = []
    lane = SimpleNamespace(
        connections={}, fds=[], on_second=lambda: calls.append("second"), submit_arrivals=calls.append
    )
    lane.services = [SimpleNamespace(take_back=lambda connection, fd: fd > 0), SimpleNamespace(take_back=None)]
    lane.calls = calls
    LaneLog(lane)
    return lane


class Fake:
    """A connection."""

    def __init__(self, name):
        self.name, self.wire = name, FastWire(None, 0)


def test_from_its_first_request_to_its_end(lane, told):
    """Each event is told once, and the lane works as before."""
    lane.connections[7], lane.fds = Fake("a"), [3, 7]
    for _ in range(2):
        lane.submit_arrivals(1)
        lane.on_second()
    assert told == [("a", "is accepted")] and lane.calls == [1, "second"] * 2
    lane.fds = [3]
    for _ in range(2):
        lane.on_second()
    assert told[1:] == [("a", "is closed")]


def test_a_number_that_is_given_again(lane, told):
    """The number's former connection has ended, and is told before the next."""
    for name in "ab":
        lane.connections[7] = Fake(name)
        lane.submit_arrivals(1)
    assert told == [("a", "is accepted"), ("a", "is closed"), ("b", "is accepted")]


def test_a_connection_that_leaves_is_not_closed(lane, told):
    """A handover, or another process, has told the connection: it is not closed."""
    lane.connections[7] = Fake("a")
    lane.submit_arrivals(1)
    lane.connections[7].wire = LOST
    lane.on_second()
    assert told == [("a", "is accepted")]


def test_who_comes_back(lane, told):
    """The connection was accepted long ago; refused by the lane, it stays where it is."""
    back, refused = Fake("a"), Fake("b")
    assert lane.services[0].take_back(back, 7) and not lane.services[0].take_back(refused, 0)
    lane.connections.update({7: back, 8: refused})
    lane.submit_arrivals(2)
    assert told == [("b", "is accepted")]


def test_who_comes_back_and_goes(lane, told):
    """The connection asks for nothing more, and is not kept."""
    back = Fake("a")
    lane.connections[7] = back
    assert lane.services[0].take_back(back, 7)
    lane.on_second()
    lane.connections[7] = Fake("b")  # its number is given again
    lane.on_second()
    lane.connections[7] = back  # so it would be told as new
    lane.submit_arrivals(1)
    assert told == [("a", "is accepted")]
