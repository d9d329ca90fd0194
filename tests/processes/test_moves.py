"""Requests on their way between workers that end, have no room, or do not answer: on processes that only have numbers."""

from __future__ import annotations

import errno
import json
import os
import socket
import time

import pytest

from aserve.connections.moved_request import write_request
from aserve.core.exchange import Exchange
from aserve.core.page import Field
from aserve.processes import moves as moves_module
from aserve.processes.channel import GIVE_UP_SECONDS
from aserve.processes.fleet import Fleet
from aserve.processes.moves import UNKNOWN, Moves
from aserve.processes.request_file import RequestFile, mark_begun, take_request
from aserve.processes.takers import SILENT_NS, Takers

FILLING = {"do": "reopen logs"}
VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/cart?secret=1\0"


class Way:
    """Three workers that serve, and requests of the first."""

    def __init__(self, new, system):
        self.new, self.system = new, system
        self.home, self.other, self.third = self.workers = [new(slot) for slot in (1, 2, 3)]
        fleet = Fleet(None, 0)
        fleet.workers = new.children
        self.moves = Moves(new.children, Takers(new.children, fleet))
        for child, count in zip(self.workers, (5, 9, 7)):
            new.children.admit(child)
            new.children.page(child)[Field.CONNECTIONS] = count
        self.clients = []

    def give(self, to, **message):
        """Let a request set out from home; return the client's end of its connection, a pipe."""
        client, connection = os.pipe()
        os.set_blocking(client, False)
        self.clients.append(client)
        file = RequestFile()
        file.write(write_request(Exchange(VARS, 2)))
        self.say(self.home, "request", [connection, file.detach()], to=to.page, giver=self.home.page, **message)
        return client

    def give_rest(self, sender, to=0, **message):
        """Let a connection at rest set out; return the client's end of it."""
        client, connection = os.pipe()
        os.set_blocking(client, False)
        os.set_blocking(connection, False)
        self.clients.append(client)
        self.say(sender, "idle", [connection], to=to, listener=0, **message)
        return client

    def rest_at(self, child):
        """Return the number and the descriptor of the only connection at rest that a worker gets."""
        ((order, (fd,)),) = self.got(child)
        assert order["do"] == "adopt" and os.get_blocking(fd)
        return order["number"], fd

    def say(self, child, word, fds=(), **message):
        self.moves.by_word[word](child, message, list(fds))

    def got(self, child, count=1):
        """Return the orders that a worker has got, with descriptors; as many as that."""
        found = []
        while True:
            try:
                found.append(self.system.workers_ends[child.pid].receive())
            except BlockingIOError:
                if not child.channel.has_unsent:
                    break
                child.channel.flush()
        found = [each for each in found if each[0] != FILLING]
        assert len(found) == count, found
        return found

    def numbers_at(self, child, count):
        """Return the numbers of the requests that a worker gets, which leaves them alone."""
        found = self.got(child, count)
        for order, fds in found:
            assert order["do"] == "adopt" and len(fds) == 2
            for fd in fds:
                os.close(fd)
        return [order["number"] for order, _ in found]

    def number_at(self, child):
        """Return the number of the only one."""
        return self.numbers_at(child, 1)[0]

    def fill(self, child):
        """Leave no room for messages to a worker, until it reads."""
        while not child.channel.has_unsent:
            child.channel.send(FILLING)

    def silence(self, child):
        self.new.children.page(child)[Field.TICKED_AT] = time.monotonic_ns() - SILENT_NS - 1

    def end(self, child):
        """Let a worker be reaped."""
        self.new.children.kill(child)
        self.system.workers_ends[child.pid].close()
        self.system.ends.append((child.pid, 9))
        for ended, *_ in self.new.children.reap(lambda pid, how: None):
            self.moves.on_end(ended)

    def back(self, child, number):
        """Let a worker give a request back that it got; with descriptors of its own."""
        file = RequestFile()
        file.write(b"octets")
        fds = [os.open(os.devnull, os.O_RDONLY), file.detach()]
        take_request(fds[1])
        self.say(child, "request", fds, to=0, giver=self.home.page, number=number)


def is_open(client):
    """Whether a process has the other end of a client's connection."""
    try:
        return os.read(client, 1) != b""
    except BlockingIOError:
        return True


@pytest.fixture
def moving(new, system):
    moving = Way(new, system)
    yield moving
    moving.moves.let_go()
    for client in moving.clients:
        os.close(client)


def test_one_that_arrives(moving):
    """It goes to the worker that it is meant for, and nothing of it is left here once that has taken it."""
    client = moving.give(moving.other)
    number = moving.number_at(moving.other)
    assert is_open(client)
    moving.say(moving.other, "taken", number=number)
    assert not is_open(client)
    moving.say(moving.other, "taken", number=number)  # as after an upgrade in place


def test_a_worker_that_is_killed_before(moving, caplog):
    """Its requests go home, each once, and the log says so; those that it had taken are its own."""
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
    """Then the worker with the fewest connections gets it."""
    moving.give(moving.other)
    moving.number_at(moving.other)
    moving.end(moving.home)
    moving.end(moving.other)
    assert moving.number_at(moving.third)


def test_the_server_ends(moving):
    """No worker serves on: one that drains yet gets it, not one that hangs."""
    moving.give(moving.other)
    moving.number_at(moving.other)
    moving.end(moving.home)
    for child in (moving.other, moving.third):
        moving.new.children.drain(child, is_replaced=False)
        assert moving.system.workers_ends[child.pid].receive()[0]["do"] == "drain"
    moving.end(moving.other)
    assert moving.number_at(moving.third)


def test_no_worker_is_left(moving, caplog):
    """It waits for the successor, and is told of as lost if there is none until the server ends."""
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
    """It goes home at once: its worker hangs or has ended, or as many as may be are kept."""
    if how == "silent":
        moving.silence(moving.other)
    elif how == "gone":
        moving.end(moving.other)
    else:
        monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    moving.give(moving.other)
    assert moving.number_at(moving.home)


def test_one_that_is_not_kept(moving, monkeypatch):
    """It is among the losses of the worker that is killed before it has taken it."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    client = moving.give(moving.other)
    moving.number_at(moving.home)
    assert not is_open(client)  # only the worker has it
    moving.end(moving.home)
    assert moving.home.was_at == [(0.0, UNKNOWN)]


def test_home_hangs(moving):
    """A request does not go back there while another worker may take it."""
    moving.silence(moving.home)
    moving.silence(moving.other)
    moving.give(moving.other)
    assert moving.number_at(moving.third)


def test_one_that_comes_back(moving):
    """It goes home, also where that drains; what was kept of it before is closed."""
    client = moving.give(moving.other)
    number = moving.number_at(moving.other)
    moving.new.children.drain(moving.home, is_replaced=True)
    moving.back(moving.other, number)
    assert not is_open(client)
    assert moving.system.workers_ends[moving.home.pid].receive()[0]["do"] == "drain"
    assert moving.number_at(moving.home) != number


@pytest.mark.parametrize("is_home", [True, False])
def test_one_that_goes_round(moving, is_home):
    """Its home has ended, or cannot have it back either: it waits for the next second, and makes no second round before."""
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
    """What it has not read is given to another, and is not there when it goes on; what it has read is its own."""
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
    """Its message has not been sent yet, or there is no descriptor: it stays, until the worker goes on or ends."""
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
    """The worker had no descriptor for it: it goes home, from what is kept here."""
    client = moving.give(moving.other)
    moving.say(moving.other, "missed", number=moving.number_at(moving.other))
    assert is_open(client) and moving.number_at(moving.home)
    moving.say(moving.other, "missed", number=99)


def test_one_that_is_not_kept_and_could_not_be_received(moving, monkeypatch):
    """It is lost with its message, and nothing of it is left."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    moving.give(moving.other)
    moving.say(moving.home, "missed", number=moving.number_at(moving.home))
    assert moving.moves._by_number == {}


def test_one_that_the_kernel_does_not_send(moving, monkeypatch):
    """What was given up waits here until the kernel sends again, also what was to go home; one that is not kept is lost with its message."""

    def refuse(*args):
        raise OSError(errno.ETOOMANYREFS, "Too many references")

    moving.silence(moving.other)  # it goes home
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


def test_over_an_upgrade_in_place(moving):
    """Each request is kept by the next code; what was sent before it may still be taken, what was not sent goes out again."""
    sent = moving.give(moving.other)
    number = moving.number_at(moving.other)
    moving.fill(moving.other)
    unsent = moving.give(moving.other)
    states = json.loads(json.dumps(moving.moves.describe()))
    after = Moves(moving.new.children, Takers(moving.new.children, Fleet(None, 0)))
    after.adopt(states)
    after.by_word["taken"](moving.other, {"number": number}, [])
    assert not is_open(sent) and is_open(unsent)
    after.on_second()
    moving.moves = after  # the descriptors are its own
    assert moving.number_at(moving.home) > moving.number_at(moving.other) > number and is_open(unsent)


def test_in_a_forked_child(moving):
    """Nothing stays open there: a client would not see the end of its connection."""
    clients = [moving.give(moving.other) for _ in range(2)]
    moving.numbers_at(moving.other, 2)
    moving.moves.let_go()
    assert not any(is_open(client) for client in clients)


def test_one_of_another_version(moving):
    """It waits here, and goes to the worker with the fewest connections with the next second, whatever the page that it names."""
    file = RequestFile()
    file.write(write_request(Exchange(VARS, 2)))
    message = {"listener": 0, "peer": {}, "giver": moving.other.page, "until": 1e9, "to": 0}
    moving.moves.keep(message, [os.open(os.devnull, os.O_RDONLY), file.detach()])
    moving.got(moving.home, 0)
    moving.moves.on_second()
    assert moving.number_at(moving.home)


def test_one_that_comes_back_is_lost_on_its_way(moving):
    """Its worker has read it, and this process had no descriptor for it: what is kept can be read again."""
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
    """The worker's message waits for room, or it was killed before: no other begins the request again."""
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
    """A worker speaks only of what it was sent: else descriptors were closed whose numbers a message has that waits."""
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
    """It is not its home: the worker with the fewest connections gets the request."""
    moving.give(moving.other)
    number = moving.number_at(moving.other)
    page = moving.home.page
    moving.end(moving.home)
    successor = moving.new(1)
    moving.new.children.admit(successor)
    assert successor.page == page
    moving.new.children.page(successor)[Field.CONNECTIONS] = 8
    moving.end(moving.other)
    moving.got(successor, 0)
    assert moving.number_at(moving.third) != number


def test_a_mute_worker(moving):
    """It hears no order: what is on its way to it goes to another, and it gets nothing back."""
    moving.give(moving.other)
    moving.other.is_mute = moving.home.is_mute = True
    moving.moves.on_second()
    assert moving.number_at(moving.third)
    moving.numbers_at(moving.other, 1)


# Connections at rest


def test_one_at_rest(moving):
    """It goes to the other worker with the fewest, and nothing of it is left here once that has taken it."""
    client = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    assert is_open(client) and moving.third.given_count == 1
    moving.say(moving.third, "taken", number=number)
    assert not is_open(client)


def test_one_at_rest_on_its_way_to_a_worker_that_is_killed(moving, caplog):
    """Another gets it, and the client notices nothing."""
    caplog.set_level("INFO", "aserve")
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    moving.end(moving.third)
    assert "connections at rest that were on their way to it are kept for another worker: 1" in caplog.text
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client) and moving.third.was_at == []


@pytest.mark.parametrize("event", ["end", "second"])
def test_one_at_rest_that_was_taken_without_a_word(moving, event):
    """A request of it may have been read: no other worker gets the connection."""
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


@pytest.mark.parametrize("is_next", [True, False])
def test_one_at_rest_without_a_worker(moving, is_next):
    """It waits for one that starts, and is closed if none does."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    for child in moving.workers:
        moving.end(child)
    assert is_open(client)
    successor = moving.new(1) if is_next else None
    moving.moves.on_second()
    assert is_open(client) is is_next and not moving.moves.end()
    if successor is not None:
        moving.new.children.admit(successor)
        moving.moves.on_second()
        os.close(moving.rest_at(successor)[1])


def test_one_at_rest_that_could_not_be_received(moving):
    """The worker had no descriptor for it: another gets it, from what is kept here."""
    client = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    moving.say(moving.third, "missed", number=number)
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client)


def test_one_at_rest_that_comes_back(moving):
    """It goes to another than the one that had no room, not to one that drains; what was kept of it before is closed."""
    moving.new.children.drain(moving.home, is_replaced=True)
    before = moving.give_rest(moving.home)
    number, fd = moving.rest_at(moving.third)
    os.close(fd)
    after = moving.give_rest(moving.third, returns=1, number=number)
    os.close(moving.rest_at(moving.other)[1])
    assert not is_open(before) and is_open(after)


@pytest.mark.parametrize("drains", [False, True])
def test_one_at_rest_that_no_other_can_have(moving, drains):
    """A giver that serves on gets it back; that of one that drains is closed."""
    for child in (moving.other, moving.third):
        moving.end(child)
    if drains:
        moving.new.children.drain(moving.home, is_replaced=True)
    client = moving.give_rest(moving.home)
    assert is_open(client) is not drains
    if not drains:
        os.close(moving.rest_at(moving.home)[1])


def test_many_at_rest(moving, monkeypatch):
    """More than may be kept go as they are: they are the worker's alone, and no request is lost with it."""
    monkeypatch.setattr(moves_module, "MAX_KEPT", 0)
    client = moving.give_rest(moving.home)
    ((order, (fd,)),) = moving.got(moving.third)
    os.close(fd)
    assert not is_open(client) and moving.moves._by_number == {}
    assert "number" not in order  # it answers nothing; and if it has no descriptor, its log says that the connection is closed
    moving.end(moving.third)
    assert moving.third.was_at == []


def test_one_at_rest_over_an_upgrade_in_place(moving):
    """The next code keeps it, and gives it to another where its worker is killed. What a worker does not answer for stays there."""
    client = moving.give_rest(moving.home)
    os.close(moving.rest_at(moving.third)[1])
    states = json.loads(json.dumps(moving.moves.describe()))
    moving.moves = Moves(moving.new.children, moving.moves._takers)
    moving.moves.adopt(states)
    moving.silence(moving.third)
    moving.moves.on_second()
    moving.got(moving.home, 0)
    moving.end(moving.third)
    os.close(moving.rest_at(moving.home)[1])
    assert is_open(client)


def test_one_at_rest_of_another_version(moving):
    """It goes to a worker that serves; without one the caller keeps it."""
    client, connection = os.pipe()
    moving.clients.append(client)
    assert moving.moves.give({"listener": 0}, [connection])
    os.close(moving.rest_at(moving.home)[1])
    for child in moving.workers:
        moving.silence(child)
    assert not moving.moves.give({"listener": 0}, [connection])
