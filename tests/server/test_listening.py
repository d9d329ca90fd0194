"""What a server listens on: bound, served, drained and closed, or left to the processes that share it."""

import asyncio
import errno
import socket
import types

import pytest
from harness.asking import get, hello, is_open

from aserve._cparsers import lib
from aserve.connections.in_flight import TABLE_BYTES
from aserve.connections.listeners import bind_listeners
from aserve.features import Config, extensions_of
from aserve.server.app_threads import AppThreads
from aserve.server.commons import Commons
from aserve.server.listening import Listening

LOOPBACK = "127.0.0.1:0"


def serving(shared=None, **settings):
    """Return what serves hello on the running event loop, and its threads."""
    config = Config(bind=settings.pop("bind", LOOPBACK), **settings)
    listening, threads, commons = Listening(config, shared), AppThreads(config), Commons(config, extensions_of(config))
    commons.load()
    listening.bind()
    threads.start(asyncio.get_running_loop())
    services = commons.new_services(hello, listening, threads, is_alone=shared is None)
    listening.accept(services, threads)
    return listening, threads


async def end(listening, threads):
    """Do what a server does at its end."""
    await listening.stop_accepting()
    await listening.accept_queued()
    listening.close_listeners()
    listening.drain()
    while not listening.is_drained():
        await asyncio.sleep(0.001)
    loop = asyncio.get_running_loop()
    assert await threads.stop(loop, loop.time() + 20)
    await listening.end(threads)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("lane", ["auto", "off"])
async def test_a_life_ends_with_nothing_bound(threads, lane):
    """A listener serves from accept on; at the end every connection is closed."""
    listening, workers = serving(threads=threads, lane=lane)
    (address,) = (listener.address for listener in listening.listeners)
    octets, reader, writer = await get(address, keep_alive=True)
    assert octets.endswith(b"hello") and listening.count == 1
    assert bool(listening.lane) == bool(listening.fds) == (lane == "auto" and bool(lib.lane_available()))
    listening.on_second()
    statistics = listening.statistics(workers, types.SimpleNamespace(response_memory_bytes=7, lacks_room=True))
    assert (statistics.connections_open, statistics.responses_memory_bytes, statistics.requests) == (1, 7, 1)
    assert listening.ongoing(5) == [] and listening.thread_seconds(1.0) == 0
    await end(listening, workers)
    assert await reader.read() == b"" and not is_open(address)
    assert listening.count == 0 and listening.lane is None and listening.fds == [] and len(listening.bound) == 1
    writer.close()


async def test_what_is_said_while_it_serves():
    """Not to be ready is said by each listener; a drain has begun for all of them."""
    listening, threads = serving(bind=[LOOPBACK, LOOPBACK], threads=0)
    listening.set_unready("the database is gone")
    assert [service.warning() for service in listening.services] == ["the database is gone"] * 2
    assert not listening.is_draining
    listening.begin_draining(is_replaced=True)
    assert listening.is_draining and [service.is_draining for service in listening.services] == [False, False]
    listening.end_leave()
    assert [service.is_draining for service in listening.services] == [True, True]
    await end(listening, threads)


async def test_listeners_of_others_stay():
    """What is shared is not closed."""
    shared = bind_listeners(Config(bind=LOOPBACK))
    listening, threads = serving(shared, threads=0)
    await listening.stop_accepting()
    listening.close_listeners()
    assert listening.listeners == [] and is_open(shared[0].address)
    await end(listening, threads)
    for listener in shared:
        listener.close()


async def test_a_connection_that_idles_goes_on_elsewhere():
    """One server lets go of it, and another with the same listeners serves it; not one that drains."""
    shared = bind_listeners(Config(bind=LOOPBACK))
    one, other = (serving(shared, threads=0) for _ in range(2))
    with socket.create_connection(shared[0].address) as client:
        while not (one[0].count + other[0].count):
            await asyncio.sleep(0.001)
        (old, _), (new, _) = sorted((one, other), key=lambda pair: -pair[0].count)
        (detached,) = old.detach_idle(None)
        old.begin_draining(is_replaced=True)
        assert not await old.adopt(detached)
        assert await new.adopt(detached) and (old.count, new.count) == (0, 1)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        loop = asyncio.get_running_loop()
        client.setblocking(False)
        assert (await asyncio.wait_for(loop.sock_recv(client, 4096), 30)).endswith(b"hello")
    for each in (one, other):
        await end(*each)
    for listener in shared:
        listener.close()


async def test_clients_that_are_gone(monkeypatch):
    """Of those that the kernel has queued, one that is gone again holds up nobody."""
    listening, threads = serving(threads=0)

    async def fail(*_):
        raise OSError(errno.ECONNRESET, "Connection reset by peer")

    with socket.create_connection(listening.listeners[0].address):
        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fail)
        await end(listening, threads)


async def test_what_is_left_is_cut_off():
    """Behind the deadline of a drain no connection is spared, on the event loop or in the lane."""
    for lane in ("off", "auto"):
        listening, threads = serving(threads=1, lane=lane)
        (address,) = (listener.address for listener in listening.listeners)
        with socket.create_connection(address) as client:
            while not listening.count:
                await asyncio.sleep(0.001)
            has_lane = listening.lane is not None
            await listening.stop_accepting()
            listening.close_listeners()
            listening.abort()
            await threads.stop(threads.executor._loop, 0.0)
            answers = [False, True]  # a leader that has not come back yet is woken until it has
            await listening.end(types.SimpleNamespace(executor=Leader(answers)))
            assert answers == ([] if has_lane else [False, True]) and listening.lane is None
            client.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


class Leader:
    """An executor whose leader waits as often as these answers say."""

    def __init__(self, answers):
        self._answers = answers

    @property
    def is_leader_waiting(self):
        return self._answers.pop()


def test_which_requests_others_see():
    """Only where another process looks are the requests on the event loop shown."""
    assert Listening(Config()).new_in_flight() is None
    assert Listening(Config(), in_flight=bytearray(TABLE_BYTES)).new_in_flight() is not None
