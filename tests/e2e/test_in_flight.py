"""A server's requests in the view of other processes, by every way of serving: each from its beginning to its end."""

from __future__ import annotations

import mmap
import threading
from typing import Any

import pytest

from aserve.connections.in_flight import TABLE_BYTES, read_in_flight
from aserve.connections.load_board import NOBODY, Load, LoadBoard


class Seen:
    """The shown numbers of a server."""

    def __init__(self) -> None:
        self._words, self._table = memoryview(mmap.mmap(-1, 8)).cast("Q"), mmap.mmap(-1, TABLE_BYTES)
        self._words[0] = NOBODY
        self.settings = {"load_board": LoadBoard(self._words, 0, 1), "in_flight": self._table}
        self.server: Any = None

    @property
    def texts(self) -> list[str]:
        """The requests in flight, the oldest first."""
        return [text for _, text in read_in_flight(self._table)]

    @property
    def load(self) -> tuple[int, int] | None:
        """Return connections and requests; None: the server accepts no more."""
        load = Load.of(self._words[0])
        return None if load is None else load[:2]

    @property
    def requests(self) -> int:
        """How many there were."""
        return self.server.statistics().requests


@pytest.fixture
def seen(start_server):
    """Start a watched server: seen(app, **settings) -> Seen."""

    def start(app: Any, **settings: Any) -> Seen:
        seen = Seen()
        seen.server = start_server(app, **seen.settings, **settings)
        return seen

    return start


def many_ways(environ, start_response):
    """Answer in the form of the path."""
    path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
    if path == "/none":
        start_response("204 No Content", [])
        return []
    start_response("200 OK", [] if path == "/unknown" else [("Content-Length", str(2_000_000 + len(body)))])
    if path == "/large":
        return [bytes(2_000_000) + body]
    return (bytes(500_000) if number else body for number in range(5))


@pytest.mark.also_inline
def test_each_form_of_a_response(seen, raw_client, wait_until):
    """Whatever becomes of its connection, no number is left over."""
    server = seen(many_ways)
    client = raw_client(server.server)
    count = 0
    for _ in range(3):
        for path in ("/none", "/large", "/pieces", "/none", "/unknown"):
            client.request(path)
            client.recv_response()
            count += 1
            wait_until(lambda: server.load == (1, 0) and server.texts == [])
            assert server.requests == count
    client.close()
    wait_until(lambda: server.load == (0, 0))
    server.server.stop()
    assert server.load is None and server.texts == []


def new_gated():
    """Return an app that waits for its gate, and a semaphore of entries: app, gate, entered."""
    gate, entered = threading.Event(), threading.Semaphore(0)

    def app(environ, start_response):
        entered.release()
        gate.wait(30)
        return many_ways(environ, start_response)

    return app, gate, entered


@pytest.mark.parametrize("path", ["/none", "/large", "/pieces"])
def test_while_the_app_has_it(seen, raw_client, wait_until, path):
    """The request is seen with its target, however answered, and waits or runs."""
    app, gate, entered = new_gated()
    server = seen(app, threads=2)
    clients = [raw_client(server.server) for _ in range(3)]
    for number, client in enumerate(clients):
        client.request(f"{path}?{number}")
    assert entered.acquire(timeout=30) and entered.acquire(timeout=30)
    wait_until(lambda: sorted(server.texts) == [f"GET {path}?{number}" for number in range(3)])
    assert server.load == (3, 3)
    gate.set()
    for client in clients:
        client.recv_response()
    wait_until(lambda: server.load == (3, 0) and server.texts == [])


def test_a_client_that_leaves(seen, raw_client, wait_until):
    """The app still has its request; the next owner of its descriptor is another."""
    app, gate, entered = new_gated()
    server = seen(app, threads=4)
    clients = [raw_client(server.server) for _ in range(2)]
    for client in clients:
        client.request("/pieces")
        assert entered.acquire(timeout=30)
        client.close()
    other = raw_client(server.server)
    other.request("/none")
    assert entered.acquire(timeout=30)
    wait_until(lambda: sorted(server.texts) == ["GET /none", "GET /pieces", "GET /pieces"])
    gate.set()
    assert other.recv_response().status == 204
    wait_until(lambda: server.load == (1, 0) and server.texts == [])
