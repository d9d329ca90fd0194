"""--queue-wait-header: each response tells how long its request waited for a thread."""

import threading
import time

import pytest
from harness import apps
from harness.waiting import wait_until

NAME = "X-Queue-Wait"


@pytest.mark.also_inline
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator])
def test_each_response_has_the_field_once(start_server, raw_client, app):
    settings = {"healthcheck_path": "/-/health"}
    client = raw_client(start_server(app, queue_wait_header=NAME, **settings))
    for _ in range(3):
        fields = [value for name, value in client.fetch().fields if name == NAME]
        assert len(fields) == 1 and 0 <= float(fields[0]) < 60_000
    assert client.fetch("/-/health/ready").get(NAME) is None
    assert raw_client(start_server(app, **settings)).fetch().get(NAME) is None


def test_a_wait_for_a_thread_is_told(start_server, raw_client):
    gate = threading.Event()

    def app(environ, start_response):
        assert gate.wait(20)
        return apps.hello(environ, start_response)

    server = start_server(app, threads=1, queue_wait_header=NAME)
    first, second = raw_client(server), raw_client(server)
    first.request()
    wait_until(lambda: server.statistics().connections_running == 1 and not server.statistics().requests_waiting)
    second.request()
    wait_until(lambda: server.statistics().requests_waiting == 1)
    came_before = time.monotonic()
    wait_until(lambda: time.monotonic() > came_before + 0.05)
    least_seconds = time.monotonic() - came_before
    gate.set()
    assert first.recv_response().status == 200
    assert float(second.recv_response().get(NAME)) >= least_seconds * 1000 - 0.1  # rounded
