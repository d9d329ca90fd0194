"""Synchronous code that runs coroutines: an app finds no running event loop, with worker threads and with --threads 0."""

from __future__ import annotations

import asyncio

import pytest


class Body:
    """Two pieces; each of them, and the end, runs a coroutine."""

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
    """In the call, for each piece and in close(); the server goes on, on its own loop."""
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


@pytest.mark.also_inline
@pytest.mark.one_way
def test_django_finds_no_loop(start_server, raw_client):
    """What Django's ORM asks before each query, and asgiref before each async view."""
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
