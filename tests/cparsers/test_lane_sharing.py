"""A lane on a listener shared with more processes: connections left to these, and words on the board."""

import os
import select
import socket
import threading
import time

import pytest
from harness.lanes import GET, LAST_GET, LEFT, PATIENCE_SECONDS, WHOLE, Lane, post, scgi, uwsgi

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")

NOBODY = (1 << 64) - 1


class Board:
    """Two processes' words: the lane's, and the test's own for another."""

    def __init__(self, threads: int = 4) -> None:
        self.words = ffi.new("uint64_t[]", [0, NOBODY])
        self.waits = ffi.new("load_wait[]", 2)
        self.struct = ffi.new("load_board *", {"words": self.words, "waits": self.waits, "stride": 1, "count": 2})
        self.struct.threads = threads

    @property
    def own(self) -> tuple[int, int, int]:
        """The lane's words: connections, requests, turns."""
        word = self.words[0]
        return word & 0xFFFFF, word >> 20 & 0xFFFFF, word >> 40

    def show(self, connections: int = 0, requests: int = 0, turns: int = 0) -> None:
        """Show this as the other process."""
        self.words[1] = turns << 40 | requests << 20 | connections


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def shared(new_lane, board):
    """A lane on the given board."""
    return new_lane(board=board.struct)


# Few at a time


def test_as_many_as_make_it_as_busy(shared, board):
    """A poll accepts as many connections as the neighbour has, and one; the rest stays, or waits for the next poll."""
    for _ in range(9):
        shared.connect(GET)
    board.show(requests=2)
    assert len(shared.poll()) == 3 and board.own == (3, 3, 3)
    board.show(requests=9)
    assert len(shared.poll()) == 2 and board.own == (5, 5, 5)
    board.show(requests=9)
    assert len(shared.poll()) == 1 and board.own == (6, 6, 6)


def test_one_while_another_has_nothing_to_do(shared, board):
    """The other is given the time to take the next."""
    for _ in range(3):
        shared.connect(GET)
    board.show()
    assert len(shared.poll()) == 1 and board.own == (1, 1, 1)
    assert shared.poll(20) == [] and board.own == (1, 1, 1)
    board.show(requests=1, connections=1, turns=1)
    assert len(shared.poll()) == 1 and board.own == (2, 2, 2)


def test_without_others_all_are_accepted(new_lane):
    """Alone the lane accepts as many as a batch holds; so, too, with the rest gone."""
    board = Board(threads=100)
    for lane in (new_lane(), new_lane(board=board.struct)):
        for _ in range(20):
            lane.connect(GET)
        assert len(lane.poll()) == 20


# Leaving the listener alone


def test_who_is_ahead_leaves_it_to_the_other(shared, board):
    """The lane waits until the other has accepted, or is busier; then the lane goes on alone."""
    clients = [shared.connect(GET) for _ in range(3)]
    board.show()
    assert len(shared.poll()) == 1
    assert shared.poll(20) == [] and shared.set.nconns == 1
    board.show(requests=1, connections=1, turns=1)
    assert shared.poll_one().is_first and len(clients) == 3


def test_it_goes_on_with_its_connections(shared, board):
    """Requests of open connections are not left alone."""
    clients = [shared.connect(GET) for _ in range(3)]
    board.show()
    fds = [arrival.fd for arrival in shared.poll()]
    assert len(fds) == 1 and shared.poll(0) == []
    shared.reply(fds[0])
    [kept] = select.select(clients, [], [], PATIENCE_SECONDS)[0]
    assert kept.recv(9) == b"ok"
    kept.sendall(GET)
    assert shared.poll_one().fd == fds[0]


def test_a_rest_that_is_no_longer_due(shared, board):
    """When requests have ended, the next poll accepts again."""
    for _ in range(2):
        shared.connect(LAST_GET)
    board.show()
    fds = [arrival.fd for arrival in shared.poll()]
    assert shared.poll(0) == [] and shared.set.is_resting
    for fd in fds:
        shared.reply(fd, keep=False)
    assert len(shared.poll()) == 1 and not shared.set.is_resting


def test_a_poll_that_waits_for_ever(shared, board):
    """The poll goes on when the other is busier; the caller hears of nothing in between, and nobody need wake the lane."""
    for _ in range(2):
        shared.connect(GET)
    board.show()
    assert len(shared.poll()) == 1
    found = []
    waiter = threading.Thread(target=lambda: found.append(shared.poll(-1)), daemon=True)
    waiter.start()
    while waiter.is_alive() and not shared.set.is_resting:  # a rest is 1 ms: a slow test may miss the rest
        time.sleep(0.0001)
    board.show(requests=9)
    waiter.join(PATIENCE_SECONDS)
    assert [len(arrivals) for arrivals in found] == [1]


def test_a_poll_that_waits_for_ever_is_woken(shared, board):
    """lane_wake ends the poll at any time."""
    for _ in range(2):
        shared.connect(GET)
    board.show()
    assert len(shared.poll()) == 1
    lib.lane_wake(shared.set)
    assert shared.poll(-1) == []


def test_somebody_else_was_quicker(new_lane):
    """A connection gone before its acceptance is nothing to tell."""
    board = Board()
    one = new_lane(board=board.struct)
    board.show(requests=1)
    found = []
    waiter = threading.Thread(target=lambda: found.append(one.poll(-1)), daemon=True)
    waiter.start()
    for _ in range(20):  # whoever gets the connection: us, or the poll
        client = one.connect()
        try:
            one.listeners[0].accept()[0].close()
        except BlockingIOError:
            client.close()
    one.connect(GET)
    waiter.join(PATIENCE_SECONDS)
    assert [[arrival.kind for arrival in arrivals] for arrivals in found] == [[WHOLE]]


def test_one_who_does_not_accept_is_waited_for_once(shared, board):
    """An idle process without accepts keeps nobody waiting for long."""
    for _ in range(12):
        shared.connect(GET)
    board.show()
    assert len(shared.poll_all(12)) == 12


def test_the_end_while_it_is_left_alone(shared, board):
    """A listener that is off stays off."""
    for _ in range(3):
        shared.connect(GET)
    board.show()
    assert len(shared.poll()) == 1 and shared.poll(0) == []
    assert shared.set.is_resting
    lib.lane_unlisten(shared.set, 0)
    board.show(requests=9)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while shared.set.is_resting and time.monotonic() < deadline:
        assert shared.poll(20) == []
    assert not shared.set.is_resting and shared.poll(0) == []


# Words


def numbers(lane: Lane, board: Board) -> tuple[int, int]:
    """Return connections and requests on the board, equal to the lane's own count."""
    connections, requests, _ = board.own
    assert connections == lane.set.nconns
    return connections, requests


@pytest.mark.parametrize("kind", ["kept", "closed", "lost", "released"])
def test_from_a_request_to_its_end(shared, board, kind):
    """A request is counted while in the hands of the caller."""
    client = shared.connect(LAST_GET if kind == "closed" else GET)
    arrival = shared.poll_one()
    assert numbers(shared, board) == (1, 1)
    if kind == "released":
        assert lib.lane_release(shared.set, arrival.fd) == 1
        assert numbers(shared, board) == (1, 0)
        os.close(arrival.fd)
        lib.lane_left(shared.set)
    elif kind == "lost":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        while shared.reply(arrival.fd) == 2 and shared.state(arrival.fd):
            shared.poll(20)
    else:
        assert shared.reply(arrival.fd, keep=kind == "kept") == 2
    assert numbers(shared, board) == ((1, 0) if kind == "kept" else (0, 0))
    assert board.own[2] == 1 and shared.set.nrequests == 1


def test_a_reply_in_parts(shared, board):
    """A response refused by the socket runs until the caller has the response elsewhere."""
    shared.connect(GET)
    fd = shared.poll_one().fd
    large = bytes(1 << 24)
    assert 0 <= shared.reply(fd, large) < len(large) and numbers(shared, board) == (1, 1)
    assert lib.lane_release(shared.set, fd) == 1 and numbers(shared, board) == (1, 0)
    os.close(fd)
    lib.lane_left(shared.set)


def test_a_body_in_parts(shared, board):
    """A request begins when whole."""
    client = shared.connect(post(3) + b"a")
    fd = shared.poll_one().fd
    assert numbers(shared, board) == (1, 0) and shared.set.nrequests == 0
    client.sendall(b"bc")
    shared.poll_one()
    assert numbers(shared, board) == (1, 1) and shared.set.nrequests == 1
    shared.reply(fd)
    assert numbers(shared, board) == (1, 0)


def test_a_body_that_does_not_come(shared, board):
    """A refused request runs."""
    shared.connect(post(3) + b"a")
    fd = shared.poll_one().fd
    assert lib.lane_own(shared.set, fd) == 1 and numbers(shared, board) == (1, 1)
    assert lib.lane_release(shared.set, fd) == 1 and numbers(shared, board) == (1, 0)
    assert shared.set.nrequests == 0
    os.close(fd)
    lib.lane_left(shared.set)


def test_what_leaves_at_once(shared, board):
    """A request not for the lane was none here."""
    shared.connect(b"GET / HTTP/9.9\r\n\r\n")
    arrival = shared.poll_one()
    assert arrival.kind == LEFT and numbers(shared, board) == (1, 0) and shared.set.nrequests == 0
    assert lib.lane_adopt(shared.set, arrival.fd, 0, ffi.NULL, 1) == 1
    lib.lane_left(shared.set)
    assert numbers(shared, board) == (1, 0) and board.own[2] == 1
    assert lib.lane_sweep(shared.set, -1, -1) == 1 and numbers(shared, board) == (0, 0)


def test_who_idles_and_leaves(shared, board):
    """An idle connection leaving takes no request along, and is no turn on return."""
    shared.connect(GET)
    fd = shared.poll_one().fd
    shared.reply(fd)
    assert shared.release_idle() == [(fd, 0, 1)] and numbers(shared, board) == (0, 0)
    assert lib.lane_adopt(shared.set, fd, 0, ffi.NULL, 1) == 1
    assert numbers(shared, board) == (1, 0) and board.own[2] == 1


def test_the_end_of_the_lane(shared, board):
    """Idle connections are counted no more; busy ones until done."""
    idle = shared.accept()
    shared.connect(GET)
    fd = shared.poll_one().fd
    assert idle != fd and numbers(shared, board) == (2, 1)
    lib.lane_close(shared.set)
    assert numbers(shared, board) == (1, 1)
    shared.reply(fd)
    assert numbers(shared, board) == (0, 0)


def test_requests_are_counted_without_others(new_lane):
    """There need be no board for counts."""
    lane = new_lane("http", "uwsgi", "scgi")
    lane.connect(GET)
    lane.connect(uwsgi(), 1)
    lane.connect(scgi(), 2)
    assert len(lane.poll_all(3)) == 3 and lane.set.nrequests == 3


# Requests


@pytest.fixture
def noted(new_lane):
    """A lane with notes of requests: a lane, and a function returning the notes."""
    entries, used = ffi.new("in_flight_entry[]", 1024), ffi.new("uint64_t *")
    lane = new_lane("http", "uwsgi", entries=entries, entries_used=used)

    def notes():
        assert all(not entries[fd].since for fd in range(used[0], 1024))
        return [ffi.string(entries[fd].text, 88).decode("ascii") for fd in range(used[0]) if entries[fd].since]

    yield lane, notes
    lane.close()  # while there are entries


def test_notes_are_kept_of_each_request(noted):
    lane, notes = noted
    lane.connect(b"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n")
    lane.connect(uwsgi(), 1)
    before = time.monotonic_ns() // 1000
    fds = [arrival.fd for arrival in lane.poll_all(2)]
    assert sorted(notes()) == ["GET /a?b", "POST -"]
    assert all(before <= lane.set.entries[fd].since <= time.monotonic_ns() // 1000 for fd in fds)
    lane.reply(fds[0])
    assert len(notes()) == 1
    assert lib.lane_release(lane.set, fds[1]) == 1 and notes() == []
    os.close(fds[1])
    lib.lane_left(lane.set)


def test_notes_of_bodies_in_parts(noted):
    """Requests are noted when whole."""
    lane, notes = noted
    client = lane.connect(post(3))
    fd = lane.poll_one().fd
    assert notes() == []
    client.sendall(b"abc")
    lane.poll_one()
    assert notes() == ["POST /"]
    lane.reply(fd)
    assert notes() == []
