"""When each request came and was begun: on every way, if a reader asks; otherwise Python takes no time."""

import threading
import time

import pytest
from harness import apps

from aserve.features.access_log.log import AccessLog


@pytest.fixture
def told(monkeypatch, start_server, tmp_path):
    """told(app, wants_times) -> a server, and the times of each ended request: came, begun, ended."""

    def start(app, wants_times=True, **settings):
        found = []
        # With a field of the response the lines are Python's, so C tells all it knows.
        settings["access_log_format"] = "%(duration) %({x-a}o)s" if wants_times else "combined"

        def write(log, ended):
            found.extend((arrived_at, began_at, ended_at) for *_, arrived_at, began_at, _, ended_at, _, _, _ in ended)

        monkeypatch.setattr(AccessLog, "write", write)
        return start_server(app, access_log=str(tmp_path / "log"), **settings), found

    return start


@pytest.mark.also_inline
@pytest.mark.parametrize("body", [b"", b"12345", bytes(300_000)])
def test_times_of_a_request_are_in_order(told, raw_client, wait_until, body):
    """A request came before its begin, and began before its end; a request with a body came when its body was whole."""
    server, found = told(apps.echo)
    client = raw_client(server)
    before = time.monotonic()
    client.fetch("/", method="POST", body=body)
    wait_until(lambda: found)
    client.fetch("/", method="POST", body=body)
    wait_until(lambda: len(found) == 2)
    (first, *_), second = found
    assert before <= first <= found[0][1] <= found[0][2] <= second[0] <= second[1] <= second[2]


def test_waiting_for_a_worker(told, raw_client, wait_until):
    """A request that waits for the only worker came before the worker was free, and began after."""
    go_on, seen = threading.Event(), []

    def app(environ, start_response):
        seen.append(environ["PATH_INFO"])
        assert go_on.wait(30)
        return apps.hello(environ, start_response)

    server, found = told(app, threads=1, extra_threads=0)
    first, second = raw_client(server), raw_client(server)
    first.request("/1")
    wait_until(lambda: seen)
    second.request("/2")
    wait_until(lambda: server.statistics().requests_waiting)
    freed_at = time.monotonic()
    go_on.set()
    first.recv_response()
    second.recv_response()
    wait_until(lambda: len(found) == 2)
    arrived_at, began_at, _ = max(found, key=lambda one: one[1])  # the first may be told of last
    assert arrived_at <= freed_at <= began_at


@pytest.mark.also_inline
def test_nobody_wants_to_know(told, raw_client, wait_until):
    """Unwanted begin times are not taken by Python; the arrival is taken once for a batch. C takes all, at little cost."""
    server, found = told(apps.echo, wants_times=False, native="off")
    raw_client(server).fetch("/", method="POST", body=b"1")
    wait_until(lambda: found)
    assert found[0][1] == 0.0
