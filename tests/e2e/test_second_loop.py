"""Synchronous code that runs coroutines: an app finds no running event loop, with worker threads and with --threads 0."""

import asyncio
import contextlib
import importlib.util
import signal

import pytest
from harness.client import RawClient


class Body:
    """Two pieces; each piece, and the end, runs a coroutine."""

    def __init__(self, found):
        self.found, self.left = found, 2

    def __iter__(self):
        return self

    def __next__(self):
        self.found.append(coroutines_run())
        if not self.left:
            raise StopIteration
        self.left -= 1
        return b"piece "

    def close(self):
        self.found.append(coroutines_run())


def coroutines_run():
    async def answer():
        await asyncio.sleep(0)
        return True

    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    return asyncio.run(answer())


@pytest.mark.also_inline
def test_asyncio_run_in_the_app(start_server, raw_client, wait_until):
    """asyncio.run works in the call, for each piece and in close(); the server goes on, on its own loop."""
    found = []

    def app(environ, start_response):
        found.append(coroutines_run())
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Body(found)

    client = raw_client(start_server(app))
    for _ in range(2):
        assert client.fetch("/").body == b"piece piece "
    wait_until(lambda: len(found) >= 10)  # the last is behind the answer
    assert found == [True] * 10


# As in code for synchronous servers of one thread: Python makes a loop, up to 3.13.
OWN_LOOP = """
import asyncio, os, signal

def app(environ, start_response):
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    loop.run_until_complete(asyncio.sleep(0))
    loop.add_signal_handler(signal.SIGWINCH, print)  # it takes the process's wake-up descriptor
    loop.remove_signal_handler(signal.SIGWINCH)
    loop.stop()
    loop.run_forever()
    start_response("200 OK", [])
    return [b"%d" % os.getpid()]
"""


@pytest.mark.parametrize("loop", ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])])
@pytest.mark.parametrize("flags", [(), ("--workers", "1")], ids=" ".join)
def test_an_app_that_stops_its_loop(start_process, tmp_path, flags, loop):
    """The app's own loop runs and stops; the server goes on, and hears its signals."""
    (tmp_path / "own_loop.py").write_text(OWN_LOOP)
    process = start_process("own_loop:app", "--threads", "0", "--loop", loop, *flags)
    with contextlib.closing(RawClient(process.address)) as client:
        for _ in range(3):
            client.request("/")
            assert client.recv_response().status == 200
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.also_inline
@pytest.mark.one_way
def test_django_finds_no_loop(start_server, raw_client):
    """Django's ORM looks for a loop before each query, and asgiref before each async view."""
    async_unsafe = pytest.importorskip("django.utils.asyncio").async_unsafe
    async_to_sync = pytest.importorskip("asgiref.sync").async_to_sync

    @async_unsafe("no")
    def query():
        return b"rows"

    async def view():
        await asyncio.sleep(0)
        return b" of a view"

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [query() + async_to_sync(view)()]

    assert raw_client(start_server(app)).fetch("/").body == b"rows of a view"
