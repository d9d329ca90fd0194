"""When requests of the lane have come; tests/e2e/test_request_times.py looks at both ways."""

from __future__ import annotations

import time

import pytest
from harness import apps

from aserve.request_log import Ends


@pytest.mark.one_way
@pytest.mark.also_inline
@pytest.mark.parametrize("form", ["%(duration)", "combined"])
def test_when_a_request_was_whole(start_server, raw_client, wait_until, monkeypatch, tmp_path, form):
    """One with a body that comes in parts when the last of it has come; also where only Ends asks for that."""
    times = []
    monkeypatch.setattr(Ends, "write", lambda ends, exchange, may_wait=False: times.append(exchange.arrived_at))
    server = start_server(apps.echo, access_log=str(tmp_path / "log"), access_log_format=form, lane="auto")
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
