"""Who is let in, and when: real sockets on a real event loop, connections that only count."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket

import pytest

import aserve.connections.acceptor
import aserve.episode
from aserve.budgets import default_spool_files
from aserve.connections.acceptor import Acceptor, ConnectionLimit, default_limit, descriptor_limit


class Counted(asyncio.Protocol):
    """A connection, as far as a limit knows one."""

    def __init__(self, limit, idle_seconds=0.0):
        self.limit, self.idle_seconds = limit, idle_seconds
        self.is_drained = False
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.limit.add(self)

    def connection_lost(self, exc):
        self.limit.discard(self)

    def drain(self):
        self.is_drained = True

    def abort(self):
        self.transport.abort()


class CountedLane:
    """A lane, as far as a limit knows one."""

    def __init__(self, count=0, idle_count=0):
        self.count, self.idle_count = count, idle_count
        self.max_count = self.others_count = None
        self.pause_counts = (0, 0)

    def limit(self, max_count):
        self.max_count = max_count

    def allow_for(self, others_count):
        self.others_count = others_count

    def make_room(self):
        closed, self.idle_count = self.idle_count, 0
        self.count -= closed
        return closed


class Scripted:
    """A listening socket whose accept() fails as told, and else accepts."""

    def __init__(self, real):
        self.real, self.errors = real, []

    def fileno(self):
        return self.real.fileno()

    def accept(self):
        if self.errors:
            raise OSError(self.errors.pop(0), "as told")
        return self.real.accept()


@pytest.fixture
def limit(monkeypatch, caplog):
    """A limit of three at most, without the log's line on that."""
    caplog.set_level(logging.INFO, "aserve")
    monkeypatch.setattr(aserve.episode, "CALM_SECONDS", 1)
    limit = ConnectionLimit()
    limit.open(3, threads=1)
    return limit


def lines(caplog):
    """Return what was logged since the last call."""
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


# The limit


@pytest.mark.parametrize(
    ("descriptors", "threads", "limit"),
    [(1024, 32, 576), (1024, 0, 704), (256, 32, 128), (1, 0, 1), (1 << 20, 32, (1 << 20) - 448), (None, 32, 1_000_000)],
)
def test_default_limit(monkeypatch, descriptors, threads, limit):
    """What the limit of descriptors leaves, half of it at least."""
    monkeypatch.setattr(aserve.connections.acceptor, "descriptor_limit", lambda: descriptors)
    assert default_limit(threads, 256) == limit


@pytest.mark.parametrize(("soft", "limit"), [(1024, 1024), (resource.RLIM_INFINITY, None)])
def test_descriptor_limit(monkeypatch, soft, limit):
    """RLIMIT_NOFILE, the one in force."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: {resource.RLIMIT_NOFILE: (soft, 1 << 20)}[which])
    assert descriptor_limit() == limit


@pytest.mark.parametrize(
    ("descriptors", "chosen", "told"),
    [
        (1024, 0, ""),
        (256, 0, "at most 128 connections at once, since `ulimit -n` is 256"),
        (1024, 10, ""),
        (1024, 1024, "--max-connections 1024 needs more file descriptors than `ulimit -n` allows (1024)"),
        (None, 1_000_000, ""),
    ],
)
def test_a_limit_is_told(monkeypatch, caplog, descriptors, chosen, told):
    """At the start, if it is lower than one may think, or higher than it can be."""
    monkeypatch.setattr(aserve.connections.acceptor, "descriptor_limit", lambda: descriptors)
    limit = ConnectionLimit()
    limit.open(chosen, threads=8)
    assert told in caplog.text and bool(told) == bool(caplog.text)
    assert limit.max_count == (chosen or default_limit(8, default_spool_files()))


def test_connections_and_files_are_told_together(monkeypatch, caplog):
    """Each may be had, but not both at once."""
    monkeypatch.setattr(aserve.connections.acceptor, "descriptor_limit", lambda: 1024)
    ConnectionLimit().open(900, threads=8, spool_files=200)
    assert "900 connections (--max-connections) and 200 temporary files (--spool-files) need more" in caplog.text


# Counting


def test_the_lane_counts_too(limit):
    """Either side knows of the other."""
    early = Counted(limit)
    limit.add(early)
    lane = CountedLane(count=1)
    limit.join(lane)
    assert (lane.max_count, lane.others_count, limit.count, limit.is_full()) == (3, 1, 2, False)
    late = Counted(limit)
    limit.add(late)
    assert (lane.others_count, limit.count, limit.is_full()) == (2, 3, True)
    limit.discard(early)
    assert (lane.others_count, limit.count) == (1, 2)
    limit.join(None)
    assert (limit.count, limit.is_full()) == (1, False)


def test_what_is_pending_counts_once(limit):
    """A connection that has its transport, and whose task has not ended yet, is one."""
    connections = [Counted(limit) for _ in range(3)]
    limit.pending.update(connections[:2])
    limit.add(connections[1])
    assert not limit.is_full()
    limit.pending.add(connections[2])
    assert limit.is_full()


# The stories that the log tells


def test_the_lane_is_full(limit, caplog):
    """One line when it begins, one when accepting has not been paused for a while."""
    lane = CountedLane(count=3)
    limit.join(lane)
    limit.on_second()
    assert lines(caplog) == []
    for count in (1, 5, 6):
        lane.pause_counts = (count, 0)
        limit.on_second()
    (line,) = lines(caplog)
    assert "3 connections, the limit (--max-connections)" in line
    limit.on_second()
    (line,) = lines(caplog)
    assert "accepting goes on" in line
    limit.on_second()
    assert lines(caplog) == []


def test_the_lane_is_full_and_others_idle(limit, caplog):
    """Connections on the general path make room for those of the lane."""
    idle = Counted(limit, idle_seconds=2.0)
    limit.add(idle)
    lane = CountedLane(count=2)
    limit.join(lane)
    lane.pause_counts = (1, 0)
    limit.on_second()
    assert idle.is_drained and lines(caplog) == []


def test_the_lane_has_no_descriptors(limit, caplog):
    """The same for descriptors; it says what to do."""
    lane = CountedLane(count=2)
    limit.join(lane)
    lane.pause_counts = (0, 1)
    limit.on_second()
    lane.pause_counts = (0, 2)
    limit.on_second()
    (line,) = lines(caplog)
    assert "Too many open files" in line and "ulimit -n" in line and "2 open" in line
    limit.on_second()
    (line,) = lines(caplog)
    assert "descriptors are free again" in line


def test_the_oldest_make_room_first(limit):
    """One in eight of those that idle, and those that have just been used not at all."""
    connections = [Counted(limit, float(seconds)) for seconds in range(18)]
    limit.update(connections)
    limit.wait_for_room(Acceptor(None, limit, None, None))
    assert [connection.is_drained for connection in connections] == [False] * 16 + [True] * 2


# Accepting


async def run_acceptor(limit, scenario):
    """Run scenario(acceptor, listening, connect) with an acceptor on a socket of its own."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as real:
        real.setblocking(False)
        listening = Scripted(real)
        acceptor = Acceptor(loop, limit, listening, lambda: Counted(limit))
        acceptor.start()
        clients = []

        def connect(count):
            for _ in range(count):
                clients.append(socket.create_connection(real.getsockname()))
            return clients

        await scenario(acceptor, listening, connect)
        acceptor.stop()
        for connection in list(limit):
            connection.transport.abort()
        for client in clients:
            client.close()
        await asyncio.sleep(0)


async def until(condition):
    """Wait for what happens on this loop."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen in time")


async def test_accepting_up_to_the_limit(limit, caplog):
    """The fourth waits until one of the three leaves."""

    async def scenario(acceptor, listening, connect):
        clients = connect(4)
        await until(lambda: lines(caplog))
        await until(lambda: not limit.pending)  # the third may not have its transport yet
        assert limit.count == 3 and not limit.pending
        first = set(limit)
        clients.pop(0).close()
        await until(lambda: set(limit) - first)
        assert limit.count == 3

    await run_acceptor(limit, scenario)


async def test_the_lane_makes_room(limit, caplog):
    """What idles in the lane is closed for somebody who waits here."""

    async def scenario(acceptor, listening, connect):
        limit.join(CountedLane(count=3, idle_count=2))
        connect(1)
        await until(lambda: limit)
        assert limit.count == 2 and lines(caplog) == []

    await run_acceptor(limit, scenario)


async def test_out_of_descriptors(limit, caplog):
    """It is tried again each second, and told once."""

    async def scenario(acceptor, listening, connect):
        listening.errors = [errno.EMFILE, errno.ENFILE]
        connect(1)
        await until(lambda: len(listening.errors) == 1)
        await asyncio.sleep(0)
        (line,) = lines(caplog)
        assert "as told" in line and "raise `ulimit -n`" in line
        limit.on_second()
        await until(lambda: not listening.errors)
        assert not limit
        limit.on_second()
        await until(lambda: limit)
        assert lines(caplog) == []
        limit.on_second()
        (line,) = lines(caplog)
        assert "free again" in line

    await run_acceptor(limit, scenario)


async def test_a_client_that_is_gone_again(limit):
    """What accept(2) tells of one client is no reason not to take the next."""

    async def scenario(acceptor, listening, connect):
        listening.errors = [errno.ECONNABORTED, errno.EPROTO]
        connect(1)
        await until(lambda: limit)

    await run_acceptor(limit, scenario)


async def test_a_transport_that_cannot_be_made(limit, monkeypatch):
    """Its descriptor is closed, and its place is free."""

    async def scenario(acceptor, listening, connect):
        async def fail(factory, sock):
            raise OSError(errno.ECONNRESET, "as told")

        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail)
            (client,) = connect(1)
            client.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 5) == b""
        assert not limit.pending and not limit

    await run_acceptor(limit, scenario)


async def test_stop_while_paused(limit, caplog):
    """After its end nothing starts an acceptor again; the socket may be closed."""

    async def scenario(acceptor, listening, connect):
        connect(4)
        await until(lambda: lines(caplog))
        acceptor.stop()
        limit.on_second()
        next(iter(limit)).transport.abort()
        await until(lambda: limit.count == 2)
        for _ in range(5):  # whoever reads would see at the next turn that somebody waits
            await asyncio.sleep(0)
        assert limit.count == 2

    await run_acceptor(limit, scenario)


async def test_many_at_once(limit):
    """More than one turn of the loop takes are all accepted."""
    limit.open(500, threads=1)

    async def scenario(acceptor, listening, connect):
        connect(100)
        await until(lambda: limit.count == 100)

    await run_acceptor(limit, scenario)
    assert limit.count == 0
