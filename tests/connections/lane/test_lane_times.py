"""When requests of the lane have come; tests/e2e/test_request_times.py looks at both ways."""

import time

import pytest
from harness import apps

from aserve.core.ends import Ends


@pytest.mark.one_way
@pytest.mark.also_inline
@pytest.mark.parametrize("form", ["%(duration)", "combined"])
def test_when_a_request_was_whole(start_server, raw_client, wait_until, monkeypatch, tmp_path, form):
    """A request with a body in parts is whole at its last part; also where only Ends asks for the time."""
    times = []
    monkeypatch.setattr(Ends, "write", lambda ends, exchange, may_wait=False: times.append(exchange.arrived_at))
    server = start_server(
        apps.echo, access_log=str(tmp_path / "log"), access_log_format=form, lane="auto", native="off"
    )
    client = raw_client(server)
    before = time.monotonic()
    client.fetch("/")
    client.request("/", "Content-Length: 5", method="POST")
    client.send(b"123")
    wait_until(lambda: server.has_received(3))
    middle = time.monotonic()
    client.send(b"45")
    assert client.recv_response().body == b"12345"
    wait_until(lambda: len(times) == 2)
    assert before <= times[0] <= middle <= times[1] <= time.monotonic()


@pytest.mark.one_way
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_who_may_wait(start_server, raw_client, wait_until, monkeypatch, tmp_path, lane):
    """The end of a request of the lane: behind other requests nobody tells a pause."""
    told = []
    monkeypatch.setattr(Ends, "write", lambda ends, exchange, may_wait=False: told.append(may_wait))
    client = raw_client(start_server(apps.hello, access_log=str(tmp_path / "log"), lane=lane, native="off"))
    for _ in range(3):
        client.fetch("/")
    wait_until(lambda: len(told) == 3)
    assert set(told) == {lane == "auto"}
