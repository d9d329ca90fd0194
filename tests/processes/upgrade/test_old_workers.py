"""Workers of another version: messages between them through the supervisor are theirs."""

import os
import selectors

import pytest

from aserve.processes.children.channel import Channel
from aserve.processes.transfers.request_file import RequestFile, put_request_back, take_request
from aserve.processes.upgrade import old_workers as old_workers_module
from aserve.processes.upgrade.old_workers import OldWorkers

FAREWELL = {"do": "drain", "stopping": False}
REQUEST = {"say": "request", "to": 1, "listener": 0, "peer": {}, "giver": 1, "until": 1e9}


class Both:
    """Two strangers with the pages 1 and 2, and a new worker that takes gifts, if allowed."""

    def __init__(self, moves=()):
        pairs = [Channel.pair() for _ in range(2)]
        self.workers = [theirs for _, theirs in pairs]
        fds = [ours.detach() for ours, _ in pairs]
        self.selector, self.given, self.may_give = selectors.DefaultSelector(), [], False
        children = [{"channel": fd, "page": page, "pid": 100 + page} for fd, page in zip(fds, (1, 2))]
        self.old_workers = OldWorkers(fds, FAREWELL, children, moves)

    def listen(self):
        self.old_workers.listen(self.selector, self.give, self.keep)
        return self

    def give(self, message, fds):
        if self.may_give:
            self.given.append(message)
            for fd in fds:
                os.close(fd)
        return self.may_give

    def keep(self, message, fds):
        self.may_give = True
        self.give(message, fds)

    def turn(self):
        """Read the new messages."""
        for key, _ in self.selector.select(0):
            key.data()

    def received(self, place, takes=True):
        """Return a worker's message, and its taken request; None: no message has come."""
        try:
            message, fds = self.workers[place - 1].receive()
        except BlockingIOError:
            return None
        if len(fds) == 1:
            os.set_blocking(fds[0], not takes)
        octets = take_request(fds[1]) if len(fds) > 1 and takes else b""
        for fd in fds:
            os.close(fd)
        return message, octets


@pytest.fixture
def both():
    """Make them: both(moves) -> Both; all is closed at the end."""
    made = []

    def make(moves=()):
        made.append(Both(moves))
        return made[-1]

    yield make
    for each in made:
        each.old_workers.close()
        each.selector.close()
        for worker in each.workers:
            worker.close()


def connection():
    """Return a descriptor that is no other connection's."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def request():
    """Return descriptors of a connection and of a read file."""
    file = RequestFile()
    file.write(b"octets")
    fds = [connection(), file.detach()]
    assert take_request(fds[1]) == b"octets"
    return fds


def test_a_request_goes_back_to_where_it_waited(both):
    """Also after the order to drain; a message without descriptors has no effect."""
    it = both().listen()
    it.old_workers.dismiss()
    it.workers[0].send(REQUEST, request())
    it.workers[0].send({"say": "left"})
    it.turn()
    assert it.received(1) == (FAREWELL, b"")
    assert it.received(1) == ({**REQUEST, "do": "adopt", "number": 0}, b"octets")
    assert it.received(1) is None and it.received(2) == (FAREWELL, b"")


@pytest.mark.parametrize("back", [{"number": 7}, {"returns": 1}])
def test_a_request_that_comes_back(both, back):
    """The request goes home in the next second, or to another where home has ended."""
    it = both().listen()
    for home in (1, 2):
        it.workers[1].send({**REQUEST, **back}, request())
        it.turn()
        assert it.received(home) is None
        it.old_workers.on_second()
        message, octets = it.received(home)
        assert message["do"] == "adopt" and octets == b"octets"
        it.workers[0].close()


def test_connections_at_rest(both):
    """A new worker gets them; without one, or with fields of another kind, they go back."""
    it = both().listen()
    for it.may_give, message, is_given in (
        (True, REQUEST, True),
        (True, {"say": "idle"}, False),
        (False, REQUEST, False),
    ):
        it.workers[0].send(message, [connection()])
        it.turn()
        found = it.given.pop() == message if is_given else it.received(1)[0]["do"] == "adopt"
        assert found and not it.given


def test_what_was_on_its_way_at_the_exec(both):
    """The request goes home; one sent to a living worker does so only if that ends before taking it."""
    moves = [{"message": {**REQUEST, "giver": 2}, "fds": request(), "pid": pid} for pid in (0, 101, 101)]
    put_request_back(moves[1]["fds"][1])
    it = both(moves).listen()
    for _ in range(2):
        message, octets = it.received(2)
        assert message["do"] == "adopt" and octets == b"octets"
        assert it.received(2) is None
        it.workers[0].close()
        it.turn()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(moves[2]["fds"][0])


@pytest.mark.parametrize("has_taken", [False, True])
def test_a_worker_that_is_killed(both, has_taken):
    """Untaken requests go to another, or to a new worker; taken ones are lost with it."""
    it = both().listen()
    it.workers[0].send(REQUEST, request())
    it.workers[0].send({"say": "idle"}, [connection()])
    it.turn()
    assert all(it.received(1, takes=has_taken) for _ in range(2))
    it.workers[0].close()
    it.turn()
    found = [it.received(2), it.received(2)]
    assert [each and each[1] for each in found] == ([None, None] if has_taken else [b"octets", b""])
    assert len(it.old_workers._sent) == (0 if has_taken else 2)
    it.old_workers.on_second()
    assert it.old_workers._sent == []


def test_one_that_comes_back_is_not_kept_twice(both):
    """A connection given once more by its worker is one; else two processes could get it."""
    it = both().listen()
    fd = connection()
    for _ in range(2):
        it.workers[0].send({"say": "idle"}, [os.dup(fd)])
        it.turn()
        assert it.received(1, takes=False) and len(it.old_workers._sent) == 1
    os.close(fd)


def test_more_than_may_be_kept(both, monkeypatch):
    monkeypatch.setattr(old_workers_module, "MAX_KEPT", 0)
    it = both().listen()
    it.workers[0].send(REQUEST, request())
    it.turn()
    assert it.received(1) and it.old_workers._sent == []


def test_the_last_one_ends(both):
    """An untaken connection at rest is closed, if no new worker can have it."""
    it = both().listen()
    it.workers[0].send({"say": "idle"}, [connection()])
    it.turn()
    for worker in it.workers:
        worker.close()
    it.turn()
    assert it.old_workers._sent == [] and len(it.old_workers) == 0


def test_without_strangers_a_new_worker_gets_requests(both, caplog):
    """A new worker gets the request; an unreadable one is lost, and logged."""
    fds = [request(), request()]
    moves = [{"message": each, "fds": fd, "pid": 0} for each, fd in zip(({"new": 1}, REQUEST), fds)]
    it = both(moves)
    assert len(it.old_workers) == 2
    for worker in it.workers:
        worker.close()
    it.listen()
    it.turn()
    assert it.given == [REQUEST] and len(it.old_workers) == 0
    assert caplog.text.count("is lost: they have ended") == 1
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fds[0][0])


def test_nothing_stays_open_when_let_go(both):
    fds = request()
    it = both([{"message": REQUEST, "fds": fds, "pid": 0}])
    it.old_workers.close()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)
