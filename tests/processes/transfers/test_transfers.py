"""Requests on the way between workers ending, full, or silent: on processes of numbers alone."""

import errno
import json
import os
import socket
import time

import pytest
from harness.ways import VARS, is_open

from aserve.connections.drain.moved_request import write_request
from aserve.core.exchange import Exchange
from aserve.core.page import Field
from aserve.processes.children.channel import GIVE_UP_SECONDS
from aserve.processes.fleet.fleet import Fleet
from aserve.processes.transfers import transfers as moves_module
from aserve.processes.transfers.placement import Placement
from aserve.processes.transfers.request_file import RequestFile, mark_begun, take_request
from aserve.processes.transfers.transfers import UNKNOWN, Transfers


def test_one_that_arrives(moving):
    """A request goes to the worker meant, and nothing stays here once taken."""
    client = moving.give(moving.other)
    number = moving.number_at(moving.other)
    assert is_open(client)
    moving.say(moving.other, "taken", number=number)
    assert not is_open(client)
    moving.say(moving.other, "taken", number=number)  # as after an upgrade in place


def test_a_worker_that_is_killed_before(moving, caplog):
    """The worker's requests go home, each once, and the log says so; taken requests stay."""
    caplog.set_level("INFO", "aserve")
    clients = [moving.give(moving.other) for _ in range(3)]
    numbers = moving.numbers_at(moving.other, 3)
    moving.say(moving.other, "taken", number=numbers[1])
    moving.end(moving.other)
    assert len(set(moving.numbers_at(moving.home, 2))) == 2 and [is_open(client) for client in clients] == [
        True,
        False,
        True,
    ]
    assert (
        f"{moving.other} has ended; requests that were on their way to it are kept for another worker: 2" in caplog.text
    )
    assert moving.other.was_at == []


def test_its_home_has_ended_too(moving):
    """Then the worker with the fewest connections gets the request."""
    moving.give(moving.other)
    moving.number_at(moving.other)
    moving.end(moving.home)
    moving.end(moving.other)
    assert moving.number_at(moving.third)


def test_the_server_ends(moving):
    """No worker serves on: a draining worker gets the request, not a hanging one."""
    moving.give(moving.other)
    moving.number_at(moving.other)
    moving.end(moving.home)
    for child in (moving.other, moving.third):
        moving.new.children.drain(child, is_replaced=False)
        assert moving.system.workers_ends[child.pid].receive()[0]["do"] == "drain"
    moving.end(moving.other)
    assert moving.number_at(moving.third)


def test_no_worker_is_left(moving, caplog):
    """The request waits for the successor, and is told as lost if there is none until the server ends."""
    client = moving.give(moving.other)
    for child in (moving.home, moving.other, moving.third):
        moving.end(child)
    moving.moves.on_second()
    assert is_open(client) and moving.moves.end()
    assert "lost: 1: GET /cart?..." in caplog.text
    successor = moving.new(1)
    moving.new.children.admit(successor)
    moving.moves.on_second()
    moving.say(successor, "taken", number=moving.number_at(successor))
    assert not is_open(client) and not moving.moves.end()


@pytest.mark.parametrize("how", ["silent", "gone", "full"])
def test_a_worker_that_cannot_have_it(moving, monkeypatch, how):
    """The request goes home at once: the worker hangs or has ended, or the kept requests are at their limit."""
    if how == "silent":
        moving.silence(moving.other)
    elif how == "gone":
        moving.end(moving.other)
    else:
        monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    moving.give(moving.other)
    assert moving.number_at(moving.home)


def test_one_that_is_not_kept(moving, monkeypatch):
    """The request is among the losses of the worker killed before taking it."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    client = moving.give(moving.other)
    moving.number_at(moving.home)
    assert not is_open(client)  # only the worker has the request
    moving.end(moving.home)
    assert moving.home.was_at == [(0.0, UNKNOWN)]


def test_a_hanging_home_gets_nothing_back(moving):
    """A request does not go back there while another worker may take it."""
    moving.silence(moving.home)
    moving.silence(moving.other)
    moving.give(moving.other)
    assert moving.number_at(moving.third)


def test_one_that_comes_back(moving):
    """The request goes home, even into a drain; the earlier copy is closed."""
    client = moving.give(moving.other)
    number = moving.number_at(moving.other)
    moving.new.children.drain(moving.home, is_replaced=True)
    moving.back(moving.other, number)
    assert not is_open(client)
    assert moving.system.workers_ends[moving.home.pid].receive()[0]["do"] == "drain"
    assert moving.number_at(moving.home) != number


@pytest.mark.parametrize("is_home", [True, False])
def test_one_that_goes_round(moving, is_home):
    """Home has ended, or is full, too: the request waits for the next second, and makes no second round before."""
    moving.give(moving.other)
    number = moving.number_at(moving.other)
    if not is_home:
        moving.end(moving.home)
    moving.back(moving.home if is_home else moving.other, number)
    for child in (moving.other, moving.third):
        moving.got(child, 0)
    moving.moves.on_second()
    assert moving.number_at(moving.home if is_home else moving.third)


@pytest.mark.parametrize("has_read", [False, True])
def test_a_worker_that_does_not_answer(moving, caplog, has_read):
    """Unread requests are given to another worker, and are not there when the silent one goes on; read requests stay."""
    caplog.set_level("INFO", "aserve")
    client = moving.give(moving.other)
    ((_, fds),) = moving.got(moving.other)
    moving.moves.on_second()
    moving.got(moving.home, 0)
    if has_read:
        assert take_request(fds[1])
    moving.silence(moving.other)
    for _ in range(2):
        moving.moves.on_second()
    if not has_read:
        ((_, others),) = moving.got(moving.home)
        assert take_request(fds[1]) == b"" != take_request(others[1])
        fds += others
    assert is_open(client) and caplog.text.count("does not answer: a request that was on its way to it") == (
        not has_read
    )
    moving.got(moving.home, 0)
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("lack", ["room", "descriptors"])
def test_one_that_cannot_be_taken_back(moving, monkeypatch, lack):
    """The message has not been sent yet, or there is no descriptor: the request stays, until the worker goes on or ends."""
    if lack == "room":
        moving.fill(moving.other)
    moving.give(moving.other)
    if lack == "descriptors":
        monkeypatch.setattr(RequestFile, "write", lambda file, octets: os.open("/no/such", 0))
    moving.silence(moving.other)
    moving.moves.on_second()
    moving.got(moving.home, 0)
    moving.numbers_at(moving.other, 1)


def test_one_that_could_not_be_received(moving):
    """The worker had no descriptor left: the request goes home, from the kept copy."""
    client = moving.give(moving.other)
    moving.say(moving.other, "missed", number=moving.number_at(moving.other))
    assert is_open(client) and moving.number_at(moving.home)
    moving.say(moving.other, "missed", number=99)


def test_one_that_is_not_kept_and_could_not_be_received(moving, monkeypatch):
    """The request is lost with the message, and nothing stays."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    moving.give(moving.other)
    moving.say(moving.home, "missed", number=moving.number_at(moving.home))
    assert moving.moves._by_number == {}


def test_one_that_the_kernel_does_not_send(moving, monkeypatch):
    """A given-up request waits here until the kernel sends again, even on the way home; an unkept request is lost with the message."""

    def refuse(*args):
        raise OSError(errno.ETOOMANYREFS, "Too many references")

    moving.silence(moving.other)  # the request goes home
    now = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "send_fds", refuse)
        client = moving.give(moving.other)
        patch.setattr(moves_module, "MAX_KEPT", 1)
        lost = moving.give(moving.other)
        patch.setattr(time, "monotonic", lambda: now + GIVE_UP_SECONDS + 1)
        moving.home.channel.flush()  # gives up the first
        patch.setattr(time, "monotonic", lambda: now + 2 * GIVE_UP_SECONDS + 2)
        moving.home.channel.flush()
        assert is_open(client) and not is_open(lost)
    moving.home.channel.on_dropped({"do": "drain"})
    moving.moves.on_second()
    assert is_open(client) and moving.number_at(moving.home)


def test_one_that_is_given_up_while_another_is_sent(moving, monkeypatch):
    """An unkept request is lost with the message; the second goes on."""

    def refuse(*args):
        raise OSError(errno.ETOOMANYREFS, "Too many references")

    file = RequestFile()
    file.write(write_request(Exchange(VARS, 2)))
    message = {"listener": 0, "peer": {}, "giver": 9, "until": 1e9, "to": 0}
    moving.moves.keep(message, [os.open(os.devnull, os.O_RDONLY), file.detach()])
    moving.silence(moving.other)  # the second goes home
    now = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "send_fds", refuse)
        patch.setattr(moves_module, "MAX_KEPT", 0)
        lost = moving.give(moving.other)
        patch.setattr(moves_module, "MAX_KEPT", 1)
        patch.setattr(time, "monotonic", lambda: now + GIVE_UP_SECONDS + 1)
        moving.home.page[Field.TICKED_AT] = 0
        moving.moves.on_second()
    moving.home.channel.flush()
    assert not is_open(lost) and moving.number_at(moving.home)


def test_over_an_upgrade_in_place(moving):
    """Each request is kept by the next code; a sent request may still be taken, an unsent request goes out again."""
    sent = moving.give(moving.other)
    number = moving.number_at(moving.other)
    moving.fill(moving.other)
    unsent = moving.give(moving.other)
    states = json.loads(json.dumps(moving.moves.describe()))
    after = Transfers(moving.new.children, Placement(moving.new.children, Fleet(None, 0)))
    after.adopt(states)
    after.on_taken(moving.other, {"number": number}, [])
    assert not is_open(sent) and is_open(unsent)
    after.on_second()
    moving.moves = after  # the descriptors are of this process
    assert moving.number_at(moving.home) > moving.number_at(moving.other) > number and is_open(unsent)


def test_in_a_forked_child(moving):
    """Nothing stays open there: a client would not see the end of the connection."""
    clients = [moving.give(moving.other) for _ in range(2)]
    moving.numbers_at(moving.other, 2)
    moving.moves.let_go()
    assert not any(is_open(client) for client in clients)


def test_one_of_another_version(moving):
    """The request waits here, and goes to the worker with the fewest connections with the next second, whatever the page named."""
    file = RequestFile()
    file.write(write_request(Exchange(VARS, 2)))
    message = {"listener": 0, "peer": {}, "giver": moving.other.page_number, "until": 1e9, "to": 0}
    moving.moves.keep(message, [os.open(os.devnull, os.O_RDONLY), file.detach()])
    moving.got(moving.home, 0)
    moving.moves.on_second()
    assert moving.number_at(moving.home)


def test_one_that_comes_back_is_lost_on_its_way(moving):
    """The worker has read the request, and this process had no descriptor left: the kept copy can be read again."""
    client = moving.give(moving.other)
    ((order, fds),) = moving.got(moving.other)
    assert take_request(fds[1])
    moving.other.channel.on_dropped({"say": "request", "number": order["number"]})
    moving.moves.on_second()
    ((_, others),) = moving.got(moving.home)
    assert is_open(client) and take_request(others[1])
    for fd in fds + others:
        os.close(fd)


@pytest.mark.parametrize("event", ["end", "second", "exec"])
def test_one_that_was_begun_without_a_word(moving, event):
    """The worker's message waits for room, or the worker was killed before: nobody begins the request again."""
    client = moving.give(moving.other)
    ((_, fds),) = moving.got(moving.other)
    mark_begun(fds[1])
    for fd in fds:
        os.close(fd)
    if event == "end":
        moving.end(moving.other)
    elif event == "second":
        moving.silence(moving.other)
        moving.moves.on_second()
    else:
        assert moving.moves.describe() == []
    moving.got(moving.home, 0)
    assert not is_open(client) and not moving.moves.end()


@pytest.mark.parametrize("word", ["taken", "missed", "request"])
@pytest.mark.parametrize("is_unsent", [False, True])
def test_the_number_of_another(moving, word, is_unsent):
    """A worker speaks only of requests sent there: else descriptors of a waiting message were closed."""
    if is_unsent:
        moving.fill(moving.other)
    client = moving.give(moving.other)
    (number,) = moving.moves._by_number
    sender = moving.other if is_unsent else moving.third
    if word == "request":
        moving.back(sender, number)
        moving.number_at(moving.home)
    else:
        moving.say(sender, word, number=number)
    assert is_open(client) and moving.number_at(moving.other) == number
    moving.got(moving.home, 0)


def test_a_successor_on_the_page_of_its_home(moving):
    """A successor is not home: the worker with the fewest connections gets the request."""
    moving.give(moving.other)
    number = moving.number_at(moving.other)
    page = moving.home.page_number
    moving.end(moving.home)
    successor = moving.new(1)
    moving.new.children.admit(successor)
    assert successor.page_number == page
    successor.page[Field.CONNECTIONS] = 8
    moving.end(moving.other)
    moving.got(successor, 0)
    assert moving.number_at(moving.third) != number


def test_a_mute_worker(moving):
    """A mute worker hears no order: a request on the way goes to another, and none goes back."""
    moving.give(moving.other)
    moving.other.is_mute = moving.home.is_mute = True
    moving.moves.on_second()
    assert moving.number_at(moving.third)
    moving.numbers_at(moving.other, 1)
