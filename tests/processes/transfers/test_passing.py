"""Connections between workers, sent and received by one: on a loop of the test, with a server led by the test."""

import asyncio
import errno
import os
import time

import pytest

from aserve.connections.drain.detaching import Detached
from aserve.processes.transfers import passing as passing_module
from aserve.processes.transfers import request_file as request_file_module
from aserve.processes.transfers.passing import MAX_RETURNS, Passing
from aserve.processes.transfers.request_file import RequestFile, is_begun, look_at_request, take_request


class Server:
    """Has connections and waiting requests to give, and takes both as the test allows."""

    def __init__(self):
        self.idle, self.waiting, self.taken, self.refused = [], [], [], []
        self.takes, self.takes_its_own, self.refuses, self.asked = True, False, True, []

    def detach_idle(self, count):
        return [self.idle.pop(0) for _ in range(len(self.idle) if count is None else min(count, len(self.idle)))]

    def detach_waiting(self, count, before):
        self.asked.append(count)
        found = []
        try:
            while self.waiting and len(found) < count:
                before(self.waiting[0].request)
                found.append(self.waiting.pop(0))
        except OSError:
            pass
        return found

    async def adopt(self, detached, is_own=False, when_taken=None):
        takes = self.takes or (is_own and self.takes_its_own)
        if takes and when_taken is not None:
            when_taken()
        self.taken += [detached] if takes else []
        return takes

    async def refuse(self, detached, when_taken):
        self.refused.append(detached)
        if self.refuses:
            when_taken()
        return self.refuses


class Board:
    """A load board with free threads elsewhere."""

    def __init__(self, *free):
        self.free = list(free)

    def free_threads(self):
        return self.free


class Led:
    """A worker with page 1, and with words to the supervisor."""

    def __init__(self, *free, board=True):
        self.server, self.said, self.is_heard = Server(), [], True
        self.passing = Passing(
            asyncio.get_running_loop(),
            self.server,
            Board(*free) if board else None,
            1,
            lambda message, fds=(): self.said.append((message, fds)),
            10.0,
            lambda: self.is_heard,
        )

    async def get(self, message, fds):
        """Let the worker get a connection, and wait until done."""
        self.passing.on_adopt({"listener": 0, "peer": {}, **message}, fds)
        while self.passing._adopting:
            await asyncio.sleep(0)

    async def get_request(self, fd, octets=b"octets", giver=2, seconds=10.0):
        """Let the worker get a request with so much time left."""
        until = time.monotonic() + seconds
        await self.get({"giver": giver, "number": 7, "until": until, "to": 1}, [fd, file_of(octets)])


@pytest.fixture
def files():
    """Return a function to open a descriptor; open ones are closed at the end."""
    fds = []

    def new():
        fds.append(os.open(os.devnull, os.O_RDONLY))
        return fds[-1]

    yield new
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass


def file_of(octets):
    """Return the descriptor of a file with a request."""
    file = RequestFile()
    file.write(octets)
    return file.detach()


REQUEST = {"giver": 1, "number": 7}
TAKEN = ({"say": "taken", "number": 7}, ())


def waiting(fd=100, request=b"the request"):
    return Detached(fd, 2, {"address": "a"}, request)


def idle(fd=100):
    return Detached(fd, 2, {"address": "a"})


def read(fd):
    """Return the octets behind a sent descriptor, and close the descriptor."""
    octets = look_at_request(fd)
    os.close(fd)
    return octets


# Giving


async def test_idle_ones_by_order():
    """As many as the supervisor says."""
    led = Led()
    led.server.idle = [idle(100), idle(101), idle(102)]
    led.passing.begin({"count": 2}, [])
    led.passing.stop()
    way = {"to": 0, "returns": 0}
    assert led.said == [({"say": "idle", "listener": 2, "peer": {"address": "a"}, **way}, [fd]) for fd in (100, 101)]


async def test_the_worker_that_the_order_names():
    """The named worker gets the connections; an order without a name takes back the last order, and so does the end."""
    led = Led()
    for order, to in (({"count": 1, "to": 3}, 3), ({"count": 1}, 0)):
        led.server.idle = [idle()]
        led.passing.begin(order, [])
        assert led.said.pop()[0]["to"] == to
    led.passing.begin({"count": 0, "to": 3}, [])
    led.passing.stop()
    led.server.idle = [idle()]
    led.passing._give_idle(1)
    assert led.said.pop()[0]["to"] == 0


async def test_requests_go_where_threads_are_free():
    """One request goes to each worker, the oldest first; each with all octets."""
    led = Led((1, 7), (4, 7))
    led.server.waiting = [waiting(fd, b"%d" % fd) for fd in range(100, 105)]
    assert led.passing.relieve()
    assert led.server.asked == [1, 1]
    assert [(message["to"], fds[0], read(fds[1])) for message, fds in led.said] == [(2, 100, b"100"), (5, 101, b"101")]


async def test_a_worker_that_hangs(monkeypatch):
    """A hanging worker looks free, and gets one request: the next only after a new word on the board, or after a while."""
    monkeypatch.setattr(passing_module, "REST_SECONDS", 60.0)
    monkeypatch.setattr(passing_module, "SOON_SECONDS", 60.0)
    led = Led((1, 7))
    led.server.waiting = [waiting(fd) for fd in range(100, 104)]
    for _ in range(3):
        assert led.passing.relieve()
    assert len(led.said) == 1
    led.passing._board.free = [(1, 8)]
    led.passing.relieve()
    led.passing._given[1] = 8, asyncio.get_running_loop().time() - passing_module.REST_SECONDS
    led.passing.relieve()
    assert len(led.said) == 3
    for _, (_, fd) in led.said:
        read(fd)


async def test_few_descriptors_keep_requests_here(monkeypatch):
    """No request is given, as a gift takes two descriptors: the request waits on."""
    monkeypatch.setattr(passing_module, "is_short_of_descriptors", lambda: True)
    led = Led((1, 7))
    led.server.waiting = [waiting()]
    assert not led.passing.relieve() and led.said == []


async def test_a_thread_that_will_be_free_soon(monkeypatch):
    """After a request was given, the next looks follow soon, for a while."""
    monkeypatch.setattr(passing_module, "SOON_SECONDS", 60.0)
    led = Led((1, 1))
    led.server.waiting = [waiting()]
    assert led.passing.relieve() and led.passing.relieve()
    read(led.said[0][1][1])
    led.passing._soon_until = asyncio.get_running_loop().time()
    assert not led.passing.relieve()


async def test_no_free_thread():
    """Without a free thread, a movable request or another worker, nothing is given."""
    for led in (Led(), Led((1, 1)), Led(board=False)):
        assert not led.passing.relieve() and led.said == []


async def test_one_that_drains_gives_all(monkeypatch):
    """Idle connections go, time and again, to the supervisor's choice, and waiting requests to workers with free threads."""
    monkeypatch.setattr(passing_module, "HAND_OVER_SECONDS", 0.0)
    led = Led((1, 7))
    led.server.idle, led.server.waiting = [idle(100)], [waiting(101)]
    led.passing.give_all()
    assert [(message["to"], fds[0]) for message, fds in led.said] == [(2, 101), (0, 100)]
    read(led.said[0][1][1])
    led.server.idle.append(idle(102))
    while len(led.said) < 3:
        await asyncio.sleep(0)


async def test_no_descriptor_for_a_request(monkeypatch):
    """The request stays in place, and is taken only when all is ready."""

    def open_none(name):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(request_file_module, "open_memory_file", open_none)
    led, one = Led((1, 1)), waiting()
    led.server.waiting = [one]
    assert not led.passing.relieve()
    assert led.server.waiting == [one] and led.said == []


# Getting


async def test_taking_over_is_told_to_the_supervisor(files):
    """A request, told to the supervisor, and a connection at rest are taken over."""
    led, (one, other), file = Led(), (files(), files()), file_of(b"octets")
    kept = os.dup(file)
    await led.get({"giver": 2, "number": 7, "until": time.monotonic() + 10.0, "to": 1}, [one, file])
    assert is_begun(kept)  # before the word: the channel may be full
    os.close(kept)
    await led.get({}, [other])
    assert led.server.taken == [Detached(one, 0, {}, b"octets"), Detached(other, 0, {}, None)] and led.said == [TAKEN]


async def test_a_worker_that_cannot(files):
    """The worker returns a request for another, with all descriptors."""
    led, fd = Led(), files()
    led.server.takes = False
    await led.get_request(fd)
    [(message, fds)] = led.said
    until = message.pop("until")
    assert message == {"say": "request", "listener": 0, "peer": {}, "to": 0, "giver": 2, "number": 7}
    assert fds[0] == fd and read(fds[1]) == b"octets" and led.server.refused == [] and until > time.monotonic()


async def test_one_that_was_taken_back(files):
    """This worker did not answer for a while: another has the request by now; nothing stays kept for this worker."""
    led, fd, file = Led(), files(), file_of(b"octets")
    assert take_request(file)
    await led.get({"giver": 2, "number": 7, "until": 0.0}, [fd, file])
    assert led.server.taken == [] and led.said == [TAKEN]
    for each in (fd, file):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)


async def test_its_own_request_waits_here_again(files):
    """A returned request waits here again, though this draining worker takes no new requests."""
    led, fd = Led(), files()
    led.server.takes, led.server.takes_its_own = False, True
    await led.get_request(fd, giver=1)
    assert [each.fd for each in led.server.taken] == [fd] and led.said == [TAKEN]


@pytest.mark.parametrize("is_home", [True, False])
async def test_one_of_its_page(files, is_home):
    """The page may have been an ended worker's: the request counts here as foreign, goes on if there is no room, and lets this worker give."""
    led, fd = Led((1, 1)), files()
    led.server.takes, led.server.takes_its_own, led.server.waiting = False, True, [waiting()]
    await led.get(
        {**REQUEST, "home": os.getpid() if is_home else 1, "until": time.monotonic() + 10}, [fd, file_of(b"octets")]
    )
    assert [message["say"] for message, _ in led.said] == ["taken" if is_home else "request"]
    assert led.passing.relieve() is not is_home
    for _, fds in led.said:
        for each in fds[1:]:
            os.close(each)


@pytest.mark.parametrize("is_gone", [False, True])
async def test_none_that_can(files, is_gone):
    """After the time the request is refused; if the client has left, the connection is closed. The request goes round no more."""
    led, fd = Led(), files()
    led.server.takes, led.server.refuses = False, not is_gone
    await led.get_request(fd, seconds=0.0)
    assert [each.fd for each in led.server.refused] == [fd] and led.said == [TAKEN]
    if is_gone:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    else:
        os.fstat(fd)  # now the server's


async def test_a_connection_at_rest_that_no_worker_can_have(files):
    """The connection is returned, a few times, and then closed."""
    led, fd = Led(), files()
    led.server.takes = False
    await led.get({"returns": MAX_RETURNS - 1}, [fd])
    assert led.said == [({"say": "idle", "listener": 0, "peer": {}, "to": 0, "returns": MAX_RETURNS}, [fd])]
    await led.get({"returns": MAX_RETURNS}, [fd])
    assert len(led.said) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_one_at_rest_that_the_supervisor_keeps(files):
    """The supervisor hears of a connection taken, returned, or closed."""
    led, fds = Led(), [files() for _ in range(3)]
    await led.get({"number": 7}, [fds[0]])
    assert led.said.pop() == TAKEN
    led.server.takes = False
    await led.get({"number": 7, "returns": 1}, [fds[1]])
    back = {"say": "idle", "listener": 0, "peer": {}, "to": 0, "returns": 2, "number": 7}
    assert led.said.pop() == (back, [fds[1]])
    await led.get({"number": 7, "returns": MAX_RETURNS}, [fds[2]])
    assert led.said == [TAKEN]


async def test_one_at_rest_that_is_given_again_at_once(files, monkeypatch):
    """The supervisor hears of the receipt first: else two copies would be kept, for two workers."""
    led = Led()
    adopt = led.server.adopt

    async def adopt_and_give(detached, **how):
        is_taken = await adopt(detached, **how)
        led.server.idle = [detached]
        led.passing._give_idle(1)
        return is_taken

    monkeypatch.setattr(led.server, "adopt", adopt_and_give)
    await led.get({"number": 7}, [files()])
    assert [message["say"] for message, _ in led.said] == ["taken", "idle"]


async def test_one_that_could_not_be_received():
    """The supervisor hears of a connection without room, still kept there; of the remaining messages there is no need."""
    led = Led()
    led.passing.on_dropped({"do": "adopt", "number": 7})
    led.passing.on_dropped({"do": "adopt"})
    assert led.said == [({"say": "missed", "number": 7}, ())]


async def test_what_comes_back(files):
    """Workers seeming free are not: for a second nothing is given."""
    led = Led((1, 1))
    led.server.waiting = [waiting()]
    await led.get_request(files(), giver=1)
    assert not led.passing.relieve() and led.said == [TAKEN]
    led.passing._rests_until = 0.0
    assert led.passing.relieve()
    read(led.said[1][1][1])


async def test_an_end_of_the_supervisor(files):
    """A waiting request stays here, as no process would take the request."""
    one = Led((1, 0))
    one.is_heard = False
    one.server.waiting = [Detached(files(), 0, {}, b"octets")]
    assert not one.passing.relieve() and one.said == []


async def test_a_request_without_a_number(files):
    """A request from a supervisor of another version is taken as any request."""
    one = Led()
    await one.get({"giver": 2, "until": time.monotonic() + 10, "to": 1}, [files(), file_of(b"octets")])
    assert len(one.server.taken) == 1
