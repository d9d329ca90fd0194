"""Which clients are accepted, and when: real sockets on a real event loop, connections that only count."""

import asyncio
import errno
import mmap
import socket

import pytest
from harness.descriptors import closed_stdin
from harness.executors import until
from harness.fakes import Harness
from harness.limits import Counted, CountedLane, lines

import aserve.connections.accepting.acceptor
import aserve.core.incident
from aserve.connections.accepting.acceptor import Acceptor, accept_queued, protocol_factory
from aserve.connections.accepting.greeting import Greeting
from aserve.connections.accepting.tls_transport import TLSTransport
from aserve.connections.listeners import open_listeners
from aserve.connections.load_board import NOBODY, Load, LoadBoard
from aserve.connections.loop.wire_loop import LoopWire
from aserve.core.descriptors import is_open
from aserve.proxies.peers import Peers
from aserve.settings import parse_bind


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


# Accepting


async def run_acceptor(limit, scenario):
    """Run scenario(acceptor, listening, connect) with an acceptor on its own socket."""
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


async def test_a_standard_descriptor_that_the_app_has_closed(limit):
    async def scenario(acceptor, listening, connect):
        connect(1)
        with closed_stdin():
            acceptor._on_ready()
            assert limit.pending and not is_open(0)
        await until(lambda: limit)

    await run_acceptor(limit, scenario)


async def test_the_lane_evicts(limit, caplog):
    """An idle connection of the lane is closed for a waiting client."""

    async def scenario(acceptor, listening, connect):
        limit.include_lane(CountedLane(count=3, idle_count=2))
        connect(1)
        await until(lambda: limit)
        assert limit.count == 2 and lines(caplog) == []

    await run_acceptor(limit, scenario)


async def test_out_of_descriptors(limit, caplog):
    """Accepting is tried again each second, and the lack told once."""

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
    """An error of accept(2) about one client is no reason not to take the next."""

    async def scenario(acceptor, listening, connect):
        listening.errors = [errno.ECONNABORTED, errno.EPROTO]
        connect(1)
        await until(lambda: limit)

    await run_acceptor(limit, scenario)


async def test_a_transport_that_cannot_be_made(limit, monkeypatch):
    """The descriptor is closed, and its place is free."""

    async def scenario(acceptor, listening, connect):
        async def fail(factory, sock):
            raise OSError(errno.ECONNRESET, "as told")

        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail)
            (client,) = connect(1)
            client.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 30) == b""
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
        for _ in range(5):  # a reader would see the waiting client at the next turn
            await asyncio.sleep(0)
        assert limit.count == 2

    await run_acceptor(limit, scenario)


async def test_many_at_once(limit):
    """More clients than one turn of the loop takes are all accepted."""
    limit.find_limit(500, threads=1)

    async def scenario(acceptor, listening, connect):
        connect(100)
        await until(lambda: limit.count == 100)

    await run_acceptor(limit, scenario)
    assert limit.count == 0


async def test_what_the_kernel_has_queued(limit):
    """A client connected before the end is served; a later client is not let in."""
    [listener] = open_listeners([parse_bind("127.0.0.1:0")])
    address = listener.address
    with socket.create_connection(address):
        await accept_queued(asyncio.get_running_loop(), listener, lambda: Counted(limit))
        assert limit.count == 1
        with pytest.raises(OSError):
            socket.create_connection(address)
        next(iter(limit)).transport.abort()
        await until(lambda: not limit)


# How a connection begins


@pytest.mark.parametrize(
    ("bind", "kind"),
    [("127.0.0.1:80", LoopWire), ("proxy+http://127.0.0.1:80", Greeting), ("https://:443", TLSTransport)],
)
def test_a_listeners_connections_begin_as_its_bind(bind, kind):
    """A listener's connections begin with TLS, with a header of the PROXY protocol, or with a request."""
    bind, service = parse_bind(bind), Harness(None).service
    service.peers = Peers(["10.0.0.0/8"])
    service.wrap = print if bind.protocol == "https" else None
    make = protocol_factory(service, bind)
    assert type(make()) is kind and make() is not make()


# Beside other processes


@pytest.fixture
def others(limit):
    """A limit on a board of two processes: others(connections, requests) shows the other's numbers; and our own Load."""
    words = memoryview(mmap.mmap(-1, 16)).cast("Q")
    words[0] = words[1] = NOBODY
    board, other = LoadBoard(words, 0, 2), LoadBoard(words, 1, 2)
    limit.find_limit(500, threads=1)
    limit.join_board(board, 2)

    kept = [object() for _ in range(100)]

    def show(connections, requests):
        other.open(2)
        other.set_connections(connections)
        for number in range(requests):
            other.begin(kept[number])

    return show, lambda: Load.of(words[0])


async def test_few_at_a_time(limit, others, monkeypatch):
    """One turn accepts the quota; later turns accept all."""
    show, own = others
    show(100, 1)
    turns = []

    async def scenario(acceptor, listening, connect):
        on_ready = Acceptor._on_ready
        monkeypatch.setattr(Acceptor, "_on_ready", lambda self: (on_ready(self), turns.append(own().turns)))
        acceptor.stop()
        connect(10)
        acceptor.start()
        await until(lambda: limit.count == 10 and not limit.pending)
        assert own() == Load(connections=10, requests=0, turns=10)

    await run_acceptor(limit, scenario)
    assert turns[:3] == [2, 4, 6] and own().connections == 0


async def test_others_have_less_to_do(limit, others, monkeypatch):
    """A listener is left to less busy processes, but not without end if they accept nothing."""
    show, own = others
    show(0, 0)
    rest, turns = limit.rest_acceptor, []  # taken when the rest began
    monkeypatch.setattr(limit, "rest_acceptor", lambda acceptor: (turns.append(own().turns), rest(acceptor)))

    async def scenario(acceptor, listening, connect):
        connect(1)
        await until(lambda: own().connections == 1)
        connect(1)
        await until(lambda: own().turns == 2)
        assert set(turns) == {1}

    await run_acceptor(limit, scenario)


async def test_a_rest_that_is_no_longer_due(limit, others, monkeypatch):
    """When connections have ended, the acceptor goes on at once."""
    show, own = others
    monkeypatch.setattr(aserve.connections.accepting.acceptor, "REST_SECONDS", 1000)

    async def scenario(acceptor, listening, connect):
        connect(3)
        await until(lambda: own().connections == 3)
        show(0, 0)
        connect(1)
        await until(lambda: limit._resting == [acceptor])
        first, second, third = limit
        first.transport.abort()
        await until(lambda: own().connections == 2)
        assert own().turns == 3
        second.transport.abort()
        await until(lambda: own().connections == 1)
        third.transport.abort()
        await until(lambda: own().turns == 4)
        assert limit._resting == []

    await run_acceptor(limit, scenario)


async def test_stop_while_others_accept(limit, others, monkeypatch):
    """A stopped acceptor does not start again."""
    show, own = others
    monkeypatch.setattr(aserve.connections.accepting.acceptor, "REST_SECONDS", 1000)

    async def scenario(acceptor, listening, connect):
        connect(2)
        await until(lambda: own().connections == 2)
        show(0, 0)
        connect(1)
        await until(lambda: limit._resting == [acceptor])
        acceptor.stop()
        assert acceptor._rest.cancelled() and own().turns == 2

    await run_acceptor(limit, scenario)


async def test_a_connection_that_is_lost_at_once(limit, others, monkeypatch):
    """A connection lost at once was accepted, and counts no more."""
    show, own = others

    async def scenario(acceptor, listening, connect):
        async def fail(factory, sock):
            raise OSError(errno.ECONNRESET, "as told")

        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail)
            connect(1)
            await until(lambda: own() == Load(connections=0, requests=0, turns=1))

    await run_acceptor(limit, scenario)
