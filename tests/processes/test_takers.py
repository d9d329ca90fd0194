"""Which worker gets a connection that another gives away: on processes that only have numbers."""

from __future__ import annotations

import os
import time

import pytest

from aserve.core.page import Field
from aserve.processes.fleet import Fleet
from aserve.processes.takers import SILENT_NS, Takers


@pytest.fixture
def takers(new):
    """Of the children that `new` makes."""
    fleet = Fleet(None, 0)
    fleet.workers = new.children
    return Takers(new.children, fleet)


@pytest.fixture
def passed(system, takers):
    """Return a function that gives a connection away, and returns the order that a worker gets: passed(sender, getter, **message) -> order."""

    def passed(sender, getter, **message):
        reading, writing = os.pipe()
        takers._pass_on(sender, {"listener": 0, **message}, [writing])
        order, fds = system.workers_ends[getter.pid].receive()
        for fd in (reading, *fds):
            os.close(fd)
        assert order["do"] == "adopt" and len(fds) == 1
        return order

    return passed


def test_a_connection_goes_to_a_worker_whose_loop_turns(new, system, takers):
    """One that has been silent for two seconds gets none, however empty; without another, the connection is closed."""
    giver, silent, well = new(1), new(2), new(3)
    for child in (giver, silent, well):
        new.children.admit(child)
    new.children.drain(giver, is_replaced=True)
    pages = {child: new.children.page(child) for child in (silent, well)}
    now = time.monotonic_ns()
    pages[silent][Field.TICKED_AT], pages[well][Field.TICKED_AT] = now - SILENT_NS - 1, now + 10**12
    pages[well][Field.CONNECTIONS] = 100
    for is_alone in (False, True):
        if is_alone:
            pages[well][Field.TICKED_AT] = pages[silent][Field.TICKED_AT]
        reading, writing = os.pipe()
        takers._pass_on(giver, {"listener": 0}, [writing])
        with pytest.raises(BlockingIOError):
            system.workers_ends[silent.pid].receive()
        if not is_alone:
            message, fds = system.workers_ends[well.pid].receive()
            assert message == {"listener": 0, "do": "adopt"}
            os.close(fds[0])
        assert os.read(reading, 1) == b""
        os.close(reading)


def test_a_giver_that_serves_on(new, passed):
    """It gets its connection back where no other worker can have it."""
    giver = new(1)
    new.children.admit(giver)
    passed(giver, giver)


@pytest.mark.parametrize("lack", [Field.STALLED_SECONDS, Field.SHORT_OF_DESCRIPTORS])
def test_a_worker_that_others_come_before(new, passed, lack):
    """One with requests that wait for stuck threads, or without descriptors to receive a connection, comes after others, however empty."""
    giver, lacking, well = new(1), new(2), new(3)
    for child in (giver, lacking, well):
        new.children.admit(child)
    new.children.page(lacking)[lack] = 1
    new.children.page(well)[Field.CONNECTIONS] = 100
    passed(giver, well)


def test_the_worker_that_a_connection_is_meant_for(new, passed):
    """It gets the connection, however full; without it another does."""
    giver, meant, other = new(1), new(2), new(3)
    for child in (giver, meant, other):
        new.children.admit(child)
    new.children.page(meant)[Field.CONNECTIONS] = 100
    for to, getter in ((meant.page, meant), (giver.page, other)):
        passed(giver, getter, to=to)


def test_what_a_worker_has_not_counted_yet(new, takers):
    """What it was given counts until its page was written again."""
    child = new()
    child.given_count = 3
    new.children.page(child)[Field.TICK] = 1
    takers.on_second()
    assert child.given_count == 0
    child.given_count = 3
    takers.on_second()
    assert child.given_count == 3


def test_a_connection_that_comes_back(new, passed):
    """It goes to another worker than the one that had no room; not to the first, if that drains."""
    home, full, third = new(1), new(2), new(3)
    for child in (home, full, third):
        new.children.admit(child)
    new.children.drain(home, is_replaced=True)
    passed(full, third, returns=1)


def test_a_connection_of_another_version(new, system, takers):
    """It goes to a worker that serves; without one the caller keeps it."""
    reading, writing = os.pipe()
    assert not takers.give({"listener": 0}, [writing])
    child = new(1)
    new.children.admit(child)
    assert takers.give({"listener": 0}, [writing]) and child.given_count == 1
    _, fds = system.workers_ends[child.pid].receive()
    for fd in (reading, *fds):
        os.close(fd)
