"""From the lane to the event loop: a waiter gets the new wire, or learns that there will be none."""

import asyncio
import socket
import threading
from types import SimpleNamespace

import pytest
from harness.fakes import StepExecutor

from aserve._cparsers import ffi
from aserve.connections.connection import release_exchange
from aserve.connections.lane import handover as module
from aserve.connections.lane.handover import Handover, Handovers
from aserve.core.errors import ClientDisconnected
from aserve.core.exchange import CLIENT_GONE, Exchange


class Closing:
    is_closed = False

    def close(self):
        self.is_closed = True


@pytest.fixture
def handover():
    """A handover on its way, with its executor and its exchange."""
    executor, exchange = StepExecutor(), Exchange("", 0)
    exchange.response = object()
    ended = []
    service = SimpleNamespace(lost=set(), end_lost=ended.append)
    exchange.connection = SimpleNamespace(end_exchange=release_exchange, service=service)
    return SimpleNamespace(way=Handover(executor, exchange), executor=executor, exchange=exchange, ended=ended)


@pytest.mark.parametrize("is_ready", [True, False])
def test_what_is_to_be_done_then(handover, is_ready):
    """Acts wait for the wire, and are done in order."""
    done = []
    if is_ready:
        handover.way.on_ready("wire")
    for name in "ab":
        handover.way.call_when_ready(lambda wire, name=name: done.append((name, wire)), b"")
    if not is_ready:
        assert done == []
        handover.way.on_ready("wire")
    handover.executor.flush()
    assert done == [("a", "wire"), ("b", "wire")] and handover.exchange.response is not None


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_connection_that_is_lost(handover, is_ready):
    """Nothing is done; the exchange and the reply are released; an exchange with a written-off worker is ended here."""
    reply = Closing()
    if is_ready:
        handover.way.on_ready(None)
    handover.way.call_when_ready(pytest.fail, None)
    if not is_ready:
        handover.way.call_when_ready(pytest.fail, reply)
        handover.way.on_ready(None)
    else:
        handover.executor.flush()
        assert handover.exchange.response is not None
        handover.way.call_when_ready(pytest.fail, reply)
        handover.executor.flush()
    assert reply.is_closed and handover.exchange.response is None
    assert handover.ended == [handover.exchange]


@pytest.mark.parametrize("wire", ["wire", None])
def test_a_worker_that_waits(handover, wire):
    """A waiting worker gets the wire, or learns that the client has left."""
    got = []

    def wait():
        try:
            got.append(handover.way.wait())
        except ClientDisconnected:
            got.append(None)

    worker = threading.Thread(target=wait, daemon=True)
    worker.start()
    handover.way.on_ready(wire)
    worker.join(30)
    assert got == [wire]


@pytest.mark.provokes("please report this as a bug")
def test_a_bug_of_ours(handover, caplog):
    """A failure ends this connection; later acts are done."""
    done, aborts = [], []
    wire = SimpleNamespace(abort=lambda: aborts.append(1))
    handover.way.call_when_ready(lambda wire: 1 / 0)
    handover.way.call_when_ready(done.append)
    handover.way.on_ready(wire)
    assert done == [wire] and aborts == [1] and "please report this as a bug in aserve" in caplog.text


class ArrivingWire(asyncio.Protocol):
    """The wire at the end of the way."""

    def __init__(self, connection, octets, is_new, can_bypass):
        self.connection, self.aborts = connection, 0

    def connection_made(self, transport):
        self.transport = transport

    def abort(self):
        self.aborts += 1
        self.transport.abort()


@pytest.fixture
def idle(monkeypatch):
    """A connection without a request, and its exit from a lane: begin() returns its wire and its task, at their beginning."""
    monkeypatch.setattr(module, "LoopWire", ArrivingWire)
    executor, memory = StepExecutor(), SimpleNamespace(set=ffi.new("lane *"))
    service = SimpleNamespace(tells_wire=False, name="a", lost=set(), wrap=None)
    connection = SimpleNamespace(service=service, exchange=None, is_stream=False)

    def begin(fd):
        found.way = Handovers(memory, {}, asyncio.get_running_loop(), executor)
        found.way.begin_idle(fd, connection, b"GET", is_new=False)
        wire = executor.posts[0][1][1]
        executor.flush()
        return wire, *found.way._tasks

    found = SimpleNamespace(begin=begin, service=service)
    return found


@pytest.mark.parametrize("is_over", [False, True])
async def test_the_server_stops_meanwhile(idle, is_over):
    """A late arrival is closed, so that nobody waits for it; else it stays."""
    ours, theirs = socket.socketpair()
    wire, task = idle.begin(theirs.detach())
    if is_over:
        idle.way.close()
    await task
    assert wire.aborts == is_over
    wire.transport.abort()
    ours.setblocking(False)
    with ours:
        assert await asyncio.get_running_loop().sock_recv(ours, 9) == b""


async def test_one_without_a_request_is_lost(idle, monkeypatch, caplog):
    """A loss is logged, without a request to end."""
    caplog.set_level("INFO", "aserve")

    async def fail(*_):
        raise OSError("no memory")

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail, raising=False)
    ours, theirs = socket.socketpair()
    wire, task = idle.begin(theirs.detach())
    await task
    with ours:
        assert ours.recv(9) == b"" and not idle.service.lost and wire.aborts == 0
    assert "a: a connection was lost on its way: no memory" in caplog.text


async def test_a_stream_of_a_lost_connection_is_lost(monkeypatch):
    """The exchange is the worker's to end, and who waits for the wire learns that there will be none."""
    lane = SimpleNamespace(
        lane_carrier_of=lambda *_: 7, lane_take_stream=lambda *_: 1, lane_release_carrier=lambda *_: -1
    )
    monkeypatch.setattr(module, "lib", lane)
    handovers = Handovers(SimpleNamespace(set=None), {}, asyncio.get_running_loop(), StepExecutor())
    exchange, service, told = Exchange("", 0), SimpleNamespace(lost=set(), tells_wire=False), []
    wire = SimpleNamespace(connection=SimpleNamespace(service=service, exchange=exchange, is_stream=True))
    handovers._begin((9, wire), told.append)
    await asyncio.gather(*handovers._tasks)
    assert (told, service.lost, exchange.end) == ([None], {exchange}, CLIENT_GONE) and not handovers._carriers


@pytest.mark.parametrize("ending", ["arrives", "server stops", "is lost"])
async def test_a_handshake_goes_on_elsewhere(monkeypatch, ending):
    """The event loop's transport has it, until the server stops; one that is lost on its way is closed."""
    made = []

    class Shaking(asyncio.Protocol):
        def abort(self):
            self.transport.abort()

        def connection_made(self, transport):
            self.transport = transport

    def shaking(*arguments):
        made.append(Shaking())
        assert arguments == ("service", None, 2)
        return made[0]

    async def fail(*_):
        raise OSError("no memory")

    monkeypatch.setattr(module.TLSTransport, "shaking", shaking)
    executor = StepExecutor()
    handovers = Handovers(SimpleNamespace(set=ffi.new("lane *")), {}, asyncio.get_running_loop(), executor)
    if ending == "is lost":
        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail, raising=False)
    ours, theirs = socket.socketpair()
    handovers.begin_handshake(theirs.detach(), "service", 2)
    executor.flush()
    if ending == "server stops":
        handovers.close()
    for task in list(handovers._tasks):
        await task
    ours.setblocking(False)
    with ours:
        if ending == "arrives":
            with pytest.raises(BlockingIOError):
                ours.recv(9)
            made[0].abort()
        assert await asyncio.get_running_loop().sock_recv(ours, 9) == b""
