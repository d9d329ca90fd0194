"""The pump of a lane: its bodies, the end of a response, and its own end."""

import errno
import functools
import os
import socket
import threading
from types import SimpleNamespace

import pytest

from aserve._cparsers import ffi, lib
from aserve.connections.loop import pump as pump_module
from aserve.connections.loop.pump import MOST_COUNT, Pump
from aserve.connections.server_budgets import Budgets
from aserve.features import Config
from aserve.wsgi import FileResponse

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a pump needs Linux")

LARGE = 3_000_000  # more than a socket takes
HEAD = b"head"


class FakeWire:
    """Notes the pump's words."""

    def __init__(self, fd):
        self.fd, self.session, self.calls, self.has_ended = fd, ffi.NULL, [], threading.Event()

    def __getattr__(self, name):
        def note(*arguments):
            self.calls.append((name, *arguments))
            self.has_ended.set()

        return note

    def wait(self, wait_until):
        wait_until(self.has_ended.is_set)
        return self.calls[0]


class FakeExecutor:
    """Runs nothing, and notes its jobs."""

    def __init__(self):
        self.posted, self.jobs = [], []

    def post(self, *what):
        self.posted.append(what)

    def submit(self, *job):
        self.jobs.append(job)


@pytest.fixture
def new():
    """new(...) -> a Pump; its executor, its budgets."""
    made = []

    def make(write_seconds=60.0, most_count=MOST_COUNT, **settings):
        executor, budgets = FakeExecutor(), Budgets(Config(**settings))
        made.append(Pump(budgets, executor, write_seconds, most_count))
        return made[-1], executor, budgets

    yield make
    for pump in made:
        pump.close()


@pytest.fixture
def pair():
    """Two ends of a connection: the client's, and ours, which does not block."""
    client, ours = socket.socketpair()
    ours.setblocking(False)
    client.settimeout(20)
    with client, ours:
        yield client, ours


@pytest.fixture
def file(tmp_path):
    """A file of LARGE octets, open."""
    (tmp_path / "file").write_bytes(bytes(LARGE))
    with open(tmp_path / "file", "rb") as file:
        yield file


def receive(client, count):
    """Return so many octets."""
    with client.makefile("rb") as file:
        return file.read(count)


def test_a_body_in_memory(pair, new, wait_until):
    """A body is counted while sent; then the wire goes on."""
    pump, _, budgets = new()
    wire, body = FakeWire(pair[1].fileno()), os.urandom(LARGE)
    exchange = object()
    assert pump.take(wire, exchange, (HEAD, body)) and budgets.memory.count == LARGE
    assert receive(pair[0], len(HEAD) + LARGE) == HEAD + body
    assert wire.wait(wait_until) == ("end_large", exchange) and budgets.memory.count == 0


def test_a_file_is_closed_before_the_wire_goes_on(pair, file, new, wait_until):
    """A file is closed, and counted no longer, before the wire goes on."""
    pump, executor, budgets = new()
    wire = FakeWire(pair[1].fileno())
    assert pump.take(wire, None, FileResponse(HEAD, file, 10, LARGE - 10, file.close)) and budgets.files.count == 2
    assert receive(pair[0], len(HEAD) + LARGE - 10) == HEAD + bytes(LARGE - 10)
    assert wire.wait(wait_until) == ("end_large", None)
    assert file.closed and budgets.files.count == 0 and executor.posted == []


def test_a_file_that_the_app_closes_in_its_own_way(pair, file, new, wait_until):
    """The app's close is for a worker, however long it takes. Its exceptions end nothing else."""
    pump, executor, budgets = new()
    wire = FakeWire(pair[1].fileno())

    def close():
        raise ValueError("the app's")

    pump.take(wire, None, FileResponse(HEAD, file, 0, 10, close))
    assert receive(pair[0], len(HEAD) + 10) == HEAD + bytes(10)
    wire.wait(wait_until)
    ((function, *arguments),) = executor.posted
    function(*arguments)
    ((function, argument),) = executor.jobs
    assert budgets.files.count == 2
    function(argument)
    assert budgets.files.count == 0


def test_a_client_that_leaves(pair, new, wait_until):
    """The wire drops the exchange, and nothing is counted any more."""
    pump, _, budgets = new()
    wire = FakeWire(pair[1].fileno())
    pair[0].close()
    pump.take(wire, None, (HEAD, bytes(LARGE)))
    assert wire.wait(wait_until) == ("drop", None) and budgets.memory.count == 0


def test_a_file_that_ends_early(pair, file, new, wait_until):
    """The response is cut short, in words for the log."""
    pump, _, budgets = new()
    wire = FakeWire(pair[1].fileno())
    os.truncate(file.name, 10)
    pump.take(wire, None, FileResponse(HEAD, file, 0, 25, file.close))
    assert wire.wait(wait_until) == ("fail", None, "the file ended 15 octets early")
    assert file.closed and budgets.files.count == 0


def test_a_file_that_the_app_has_closed(pair, file, new, wait_until):
    """The response is cut short, with the system's reason."""
    pump, _, _ = new()
    wire = FakeWire(pair[1].fileno())
    file.close()
    pump.take(wire, None, FileResponse(HEAD, file, 0, 25, file.close))
    assert wire.wait(wait_until) == ("fail", None, f"reading the file failed: {os.strerror(errno.EBADF)}")


def test_a_client_that_does_not_read(pair, file, new, wait_until):
    """The event loop gets the rest, still counted, soon enough for any --write-timeout."""
    pump, _, budgets = new(write_seconds=0.1)
    wire, body = FakeWire(pair[1].fileno()), os.urandom(LARGE)
    pump.take(wire, None, (HEAD, body))
    _, large, (head, rest) = wire.wait(wait_until)
    assert head == b"" and rest.obj is body and budgets.memory.count == LARGE
    assert receive(pair[0], len(HEAD) + LARGE - len(rest)) == HEAD + body[: LARGE - len(rest)]
    large.close()
    assert budgets.memory.count == 0

    wire = FakeWire(pair[1].fileno())
    pump.take(wire, None, FileResponse(HEAD, file, 0, LARGE, file.close))
    _, large, reply = wire.wait(wait_until)
    assert reply is large.reply and reply.head == b"" and 0 < reply.offset == LARGE - reply.size
    assert not file.closed and budgets.files.count == 2
    large.close()
    assert file.closed and budgets.files.count == 0


def never_patient(reserve, body, is_patient=False):
    """Reserve without waiting."""
    assert not is_patient
    return reserve(body)


def test_no_room_in_the_budgets(new, file):
    """The event loop has other means: it waits for room, and counts the lack."""
    pump, _, budgets = new(response_memory_bytes=LARGE, spool_files=1)
    assert budgets.memory.reserve_body(bytes(LARGE))
    budgets.memory.reserve_body = functools.partial(never_patient, budgets.memory.reserve_body)
    assert not pump.take(FakeWire(-1), None, (HEAD, bytes(LARGE)))
    assert not pump.take(FakeWire(-1), None, FileResponse(HEAD, file, 0, LARGE, file.close))
    assert budgets.refused_count == 0


def test_no_room_in_the_table(pair, new):
    """Bodies never outnumber the table's places; an ended body frees its place at once."""
    pump, _, _ = new(most_count=1)
    body, wires = bytes(LARGE), [FakeWire(pair[1].fileno()) for _ in range(3)]
    assert [pump.take(wire, None, (HEAD, body)) for wire in wires] == [True, False, False]
    assert receive(pair[0], len(HEAD) + LARGE)
    wires[0].has_ended.wait(20)
    assert pump.take(wires[1], None, (HEAD, b"next")) and receive(pair[0], 8) == b"headnext"


@pytest.mark.parametrize("lack", ["descriptors", "threads"])
def test_what_it_needs_is_not_there(new, monkeypatch, lack):
    """The event loop sends, and a later body tries again."""
    pump, _, _ = new()
    if lack == "descriptors":
        monkeypatch.setattr(
            pump_module, "lib", SimpleNamespace(pump_open=lambda _: errno.EMFILE, pump_close=lambda _: None)
        )
    else:

        def start(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
    assert not pump.take(FakeWire(-1), None, (HEAD, b"")) and pump.fds == []


@pytest.mark.provokes("internal error")
def test_a_bug_in_the_end_of_one(pair, new, wait_until, caplog):
    """A bug is logged, and the next response is sent."""
    pump, _, _ = new()
    broken = SimpleNamespace(fd=pair[1].fileno(), session=ffi.NULL)
    pump.take(broken, None, (HEAD, b"first"))
    wire = FakeWire(pair[1].fileno())
    assert receive(pair[0], 9) == b"headfirst"
    pump.take(wire, None, (HEAD, b"second"))
    assert receive(pair[0], 10) == b"headsecond"
    wire.wait(wait_until)
    assert [record.getMessage()[:14] for record in caplog.records] == ["internal error"]


@pytest.mark.provokes("which the app forked, ends")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_its_thread(pair, new):
    """A finalizer of the app's may run here, and fork: the child ends, and the parent goes on."""
    pump, _, _ = new()
    wire, children = FakeWire(pair[1].fileno()), []
    wire.end_large = lambda exchange: children.append(os.fork())
    pump.take(wire, None, (HEAD, b"first"))
    assert receive(pair[0], 9) == b"headfirst"
    pump.take(FakeWire(pair[1].fileno()), None, (HEAD, b"second"))
    assert receive(pair[0], 10) == b"headsecond"
    _, status = os.waitpid(children[0], 0)
    assert os.WEXITSTATUS(status) == 1


def test_the_end_loses_all_bodies(pair, new):
    """The lane has shut its connections down before: all bodies under way are lost, and no body is taken any more."""
    pump, _, budgets = new()
    first, second = FakeWire(pair[1].fileno()), FakeWire(pair[1].fileno())
    body = bytes(LARGE)
    assert pump.take(first, None, (HEAD, body)) and len(pump.fds) == 2
    assert receive(pair[0], 4) == HEAD
    pair[1].shutdown(socket.SHUT_RDWR)
    pump.close()
    assert first.calls == [("drop", None)] and budgets.memory.count == 0 and pump.fds == []
    assert not pump.take(second, None, (HEAD, body))
    pump.close()
