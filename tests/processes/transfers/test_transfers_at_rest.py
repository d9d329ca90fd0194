"""Connections at rest on their way between ending workers, full workers, and workers without an answer: on processes of numbers alone."""

import json
import os
import time

import pytest
from harness.ways import is_open

from aserve.core.page import Field
from aserve.processes.transfers import transfers as moves_module
from aserve.processes.transfers.transfers import Transfers


def test_one_at_rest(moving):
    """A connection goes to the worker with the fewest, and no copy is left here once the connection is taken."""
    client = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    assert is_open(client) and moving.third.given_count == 1
    moving.say(moving.third, "taken", number=number)
    assert not is_open(client)


def test_one_at_rest_on_its_way_to_a_worker_that_is_killed(moving, caplog):
    """Another worker gets the connection, and the client notices nothing."""
    caplog.set_level("INFO", "aserve")
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    moving.end(moving.third)
    assert "connections at rest that were on their way to it are kept for another worker: 1" in caplog.text
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client) and moving.third.was_at == []


@pytest.mark.parametrize("event", ["end", "second"])
def test_one_at_rest_that_was_taken_without_a_word(moving, event):
    """A request of the connection may have been read: no second worker gets the connection."""
    client = moving.give_rest(moving.home)
    _, fd = moving.rest_at(moving.third)
    os.set_blocking(fd, False)
    os.close(fd)
    if event == "end":
        moving.end(moving.third)
    else:
        moving.moves.on_second()
    moving.got(moving.home, 0)
    moving.got(moving.other, 0)
    assert not is_open(client)


def test_one_at_rest_without_a_worker(moving):
    """The connection waits for the next worker, also during the pause before the worker's start."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    for child in moving.workers:
        moving.end(child)
    moving.moves.on_second()
    successor = moving.new(1)
    moving.moves.on_second()
    moving.new.children.admit(successor)
    moving.moves.on_second()
    os.close(moving.rest_at(successor)[1])
    assert is_open(client)


@pytest.mark.parametrize("lack", [Field.TICKED_AT, Field.SHORT_OF_DESCRIPTORS])
def test_one_at_rest_and_a_worker_that_cannot_have_it_yet(moving, lack):
    """The connection waits until the worker's event loop turns again, or has descriptors."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    page = moving.home.page
    page[lack] = 1
    for child in (moving.other, moving.third):
        moving.end(child)
    for _ in range(2):
        moving.moves.on_second()
    moving.got(moving.home, 0)
    page[lack] = 0
    moving.moves.on_second()
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client)


@pytest.mark.parametrize("event", ["the server ends", "time passes"])
def test_one_at_rest_that_no_worker_will_take(moving, monkeypatch, caplog, event):
    """The connection is closed: the client need not wait in vain. The log tells the number of such waits."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    for child in moving.workers:
        moving.end(child)
    moving.moves.on_second()
    assert is_open(client)
    if event == "the server ends":
        moving.fleet.is_ending = True
    else:
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + moves_module.LONGEST_WAIT_SECONDS)
    moving.moves.on_second()
    assert not is_open(client) and not moving.moves.end()
    is_told = "no worker could take connections at rest for 40 s; closed: 1" in caplog.text
    assert is_told is (event == "time passes")


def test_one_at_rest_that_could_not_be_received(moving):
    """The worker had no free descriptor: a second worker gets the connection, from the kept copy."""
    client = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    moving.say(moving.third, "missed", number=number)
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client)


def test_one_at_rest_that_comes_back(moving):
    """The connection goes to another than the full worker, not to a draining one; the earlier copy is closed."""
    moving.new.children.drain(moving.home, is_replaced=True)
    before = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    after = moving.give_rest(moving.third, returns=1, number=number)
    os.close(moving.rest_at(moving.other)[1])
    assert not is_open(before) and is_open(after)


@pytest.mark.parametrize("drains", [False, True])
def test_one_at_rest_that_no_other_can_have(moving, drains):
    """A serving giver gets the connection back; a draining giver's connection is closed."""
    for child in (moving.other, moving.third):
        moving.end(child)
    if drains:
        moving.new.children.drain(moving.home, is_replaced=True)
    client = moving.give_rest(moving.home)
    assert is_open(client) is not drains
    if not drains:
        os.close(moving.rest_at(moving.home)[1])


def test_many_at_rest(moving, monkeypatch):
    """Connections beyond the limit go unkept: such connections are the worker's alone, and no request is lost with the worker."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    client = moving.give_rest(moving.home)
    ((order, (fd,)),) = moving.got(moving.third)
    os.close(fd)
    assert not is_open(client) and moving.moves._by_number == {}
    # The worker answers nothing; and without a descriptor, the worker's log tells the close.
    assert "number" not in order
    moving.end(moving.third)
    assert moving.third.was_at == []


def test_one_at_rest_over_an_upgrade_in_place(moving):
    """The next code keeps the connection, and gives the connection away where the worker is killed. A connection without an answer stays there."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    states = json.loads(json.dumps(moving.moves.describe()))
    moving.moves = Transfers(moving.new.children, moving.moves._placement)
    moving.moves.adopt(states)
    moving.silence(moving.third)
    moving.moves.on_second()
    moving.got(moving.home, 0)
    moving.end(moving.third)
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client)


def test_one_at_rest_of_another_version(moving):
    """The connection goes to a serving worker; without such a worker the caller keeps the connection."""
    client, connection = os.pipe()
    moving.clients.append(client)
    assert moving.moves.give({"listener": 0}, [connection])
    os.close(moving.rest_at(moving.home)[1])
    for child in moving.workers:
        moving.silence(child)
    assert not moving.moves.give({"listener": 0}, [connection])


def test_many_at_a_stopped_worker(moving, monkeypatch):
    """The connections stay there until the worker's end, and leave room for more connections: these are kept, too."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 8)
    for _ in range(8):
        moving.give_rest(moving.home, to=moving.other.page_number)
    at_other = moving.got(moving.other, 8)
    client = moving.give_rest(moving.home, to=moving.third.page_number)
    os.close(moving.rest_at(moving.third)[1])
    assert is_open(client)  # though no worker has it
    for order, (fd,) in at_other:
        assert ("number" in order) is (order in [each for each, _ in at_other[:4]])
        os.close(fd)
