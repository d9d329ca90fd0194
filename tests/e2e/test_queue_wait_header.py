"""--queue-wait-header: each response tells for how long its request has waited for a thread."""

from __future__ import annotations

import threading

import pytest
from harness import apps
from harness.waiting import wait_until

NAME = "X-Queue-Wait"


@pytest.mark.also_inline
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator])
def test_each_response(start_server, raw_client, app):
    """It has the field once, and other servers' have none."""
    settings = {"healthcheck_path": "/-/health"}
    client = raw_client(start_server(app, queue_wait_header=NAME, **settings))
    for _ in range(3):
        fields = [value for name, value in client.fetch().fields if name == NAME]
        assert len(fields) == 1 and 0 <= float(fields[0]) < 60_000
    assert client.fetch("/-/health/ready").get(NAME) is None
    assert raw_client(start_server(app, **settings)).fetch().get(NAME) is None


def test_a_wait(start_server, raw_client):
    """A request that finds no thread tells of it."""
    gate = threading.Event()

    def app(environ, start_response):
        assert gate.wait(20)
        return apps.hello(environ, start_response)

    server = start_server(app, threads=1, queue_wait_header=NAME)
    first, second = raw_client(server), raw_client(server)
    first.request()
    wait_until(lambda: server.statistics().connections_running == 1 and not server.statistics().requests_waiting)
    second.request()
    wait_until(lambda: server.statistics().requests_waiting_seconds > 0.1)
    gate.set()
    assert first.recv_response().status == 200
    assert float(second.recv_response().get(NAME)) >= 100.0
