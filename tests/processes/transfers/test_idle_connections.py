"""A worker's order to give connections away: on a loop whose time is a number."""

import pytest

from aserve.processes.transfers.idle_connections import LOOK_SECONDS, MAX_FRUITLESS_SECONDS, MAX_LOOKS, Shedding


class Loop:
    """An event loop of one timer."""

    def __init__(self):
        self.now, self.due = 0.0, None

    def time(self):
        return self.now

    def call_later(self, seconds, call, *args):
        assert self.due is None
        self.due = (self.now + seconds, call, args)
        return self

    def cancel(self):
        self.due = None

    def run(self):
        while self.due is not None:
            (self.now, call, args), self.due = self.due, None
            call(*args)


class Server:
    """Where so many connections idle at each look."""

    def __init__(self, *idle):
        self.idle, self.asked = list(idle), []

    def give(self, count):
        self.asked.append(count)
        return min(self.idle.pop(0), count) if self.idle else 0


@pytest.fixture
def loop():
    return Loop()


def test_they_idle_at_once(loop):
    """One look is enough."""
    server = Server(5)
    Shedding(loop, server.give).begin(3)
    assert server.asked == [3] and loop.due is None


def test_they_come_to_idle(loop):
    """The server is asked again and again, until all are given."""
    server = Server(1, 0, 3)
    Shedding(loop, server.give).begin(3)
    loop.run()
    assert server.asked == [3, 2, 2] and loop.now == pytest.approx(2 * LOOK_SECONDS)


def test_they_never_idle(loop):
    """The shedder gives up before the next order, and leaves orders alone for a while, growing each time."""
    server, pauses = Server(), []
    shedding = Shedding(loop, server.give)
    for _ in range(9):
        shedding.begin(1)
        loop.run()
        began_at, count = loop.now, len(server.asked)
        shedding.begin(1)
        assert loop.due is None and len(server.asked) == count
        while len(server.asked) == count:
            loop.now += 1.0
            shedding.begin(1)
        shedding.stop()
        server.asked.clear()
        pauses.append(round(loop.now - began_at))
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 64, 64] and MAX_FRUITLESS_SECONDS == 64
    assert MAX_LOOKS * LOOK_SECONDS < 1


def test_some_are_given_at_last(loop):
    """The next order is carried out at once."""
    server = Server(0, 1)
    shedding = Shedding(loop, server.give)
    shedding.begin(2)
    loop.run()
    assert len(server.asked) == MAX_LOOKS
    shedding.begin(2)
    assert len(server.asked) == MAX_LOOKS + 1


def test_another_order_takes_its_place(loop):
    """A new order takes the place of the last; stopped, nothing is given."""
    server = Server()
    shedding = Shedding(loop, server.give)
    shedding.begin(5)
    shedding.begin(2)
    assert server.asked == [5, 2]
    shedding.stop()
    loop.run()
    assert server.asked == [5, 2]
