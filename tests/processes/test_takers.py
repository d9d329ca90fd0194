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


def test_a_giver_that_serves_on(new, system, takers):
    """It gets its connection back where no other worker can have it."""
    giver = new(1)
    new.children.admit(giver)
    reading, writing = os.pipe()
    takers._pass_on(giver, {"listener": 0}, [writing])
    message, fds = system.workers_ends[giver.pid].receive()
    assert message["do"] == "adopt"
    for fd in (reading, *fds):
        os.close(fd)


def test_a_connection_goes_to_a_worker_whose_threads_are_free(new, system, takers):
    """One with requests that wait for stuck threads comes after others, however empty."""
    giver, stuck, well = new(1), new(2), new(3)
    for child in (giver, stuck, well):
        new.children.admit(child)
    new.children.page(stuck)[Field.STALLED_SECONDS] = 1
    new.children.page(well)[Field.CONNECTIONS] = 100
    reading, writing = os.pipe()
    takers._pass_on(giver, {"listener": 0}, [writing])
    _, fds = system.workers_ends[well.pid].receive()
    for fd in (reading, *fds):
        os.close(fd)


def test_a_connection_goes_to_a_worker_with_free_descriptors(new, system, takers):
    """One without any could not receive it, however empty it is."""
    giver, short, well = new(1), new(2), new(3)
    for child in (giver, short, well):
        new.children.admit(child)
    new.children.page(short)[Field.SHORT_OF_DESCRIPTORS] = 1
    new.children.page(well)[Field.CONNECTIONS] = 100
    reading, writing = os.pipe()
    takers._pass_on(giver, {"listener": 0}, [writing])
    _, fds = system.workers_ends[well.pid].receive()
    for fd in (reading, *fds):
        os.close(fd)


def test_the_worker_that_a_connection_is_meant_for(new, system, takers):
    """It gets the connection, however full; without it another does."""
    giver, meant, other = new(1), new(2), new(3)
    for child in (giver, meant, other):
        new.children.admit(child)
    new.children.page(meant)[Field.CONNECTIONS] = 100
    for to, getter in ((meant.page, meant), (giver.page, other)):
        reading, writing = os.pipe()
        takers._pass_on(giver, {"listener": 0, "to": to}, [writing])
        _, fds = system.workers_ends[getter.pid].receive()
        for fd in (reading, *fds):
            os.close(fd)


def test_a_request_that_no_worker_can_have(new, system, takers):
    """It comes back to a giver that drains, which answers it; a connection without a request is closed."""
    giver = new(1)
    new.children.admit(giver)
    new.children.drain(giver, is_replaced=True)
    pipes = os.pipe(), os.pipe()
    takers._pass_on(giver, {"listener": 0}, [pipes[0][1], pipes[1][1]])
    assert system.workers_ends[giver.pid].receive()[0]["do"] == "drain"
    message, fds = system.workers_ends[giver.pid].receive()
    assert message["do"] == "adopt" and len(fds) == 2
    for fd in (pipes[0][0], pipes[1][0], *fds):
        os.close(fd)


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


def test_a_request_goes_to_code_that_takes_it(new, system, takers):
    """A worker of older code would take the connection, and lose the request: the giver gets it back."""
    giver, older = new(1), new(2)
    for child in (giver, older):
        new.children.admit(child)
    reading, writing = os.pipe()
    takers._pass_on(giver, {"listener": 0, "to": older.page}, [writing, os.dup(writing)])
    _, fds = system.workers_ends[giver.pid].receive()
    for fd in (reading, *fds):
        os.close(fd)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_request_that_comes_back(new, system, takers, is_gone):
    """It goes to the worker that gave it first, though that drains; to another if it has ended."""
    home, full, third = new(1), new(2), new(3)
    for child in (home, full, third):
        new.children.admit(child)
        new.children.page(child)[Field.TAKES_REQUESTS] = 1
    new.children.drain(home, is_replaced=True)
    system.workers_ends[home.pid].receive()
    reading, writing = os.pipe()
    message = {"listener": 0, "giver": 99 if is_gone else home.page, "returns": 1}
    takers._pass_on(full, message, [writing, os.dup(writing)])
    _, fds = system.workers_ends[(third if is_gone else home).pid].receive()
    for fd in (reading, *fds):
        os.close(fd)
