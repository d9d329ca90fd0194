"""Plain requests with a time-out that are promoted and end in time: nothing is interrupted here (test_native_deadlines.py)."""

import pytest
from harness import apps
from harness.hanging import HOUR, deadlines_of
from harness.plain import engine_of
from harness.waiting import wait_until

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]


@pytest.mark.parametrize(("app", "status"), [(apps.hello, 200), (apps.raises, 500), (apps.written, 200)])
@pytest.mark.parametrize("is_promoted", [True, False])
@pytest.mark.provokes("raised")
def test_one_that_ends_in_time(start_server, raw_client, app, status, is_promoted):
    """A watched request is answered as ever, and its deadline is forgotten."""
    gate = apps.Gate(app)
    server = start_server(gate, is_checked=False, native="auto", request_seconds=HOUR)
    client = raw_client(server)
    client.request("/")
    gate.wait_entered()
    if is_promoted:
        engine_of(server).promote_all()
        assert len(deadlines_of(server).runs) == 1
    gate.open()
    assert client.recv_response().status == status
    wait_until(lambda: not deadlines_of(server).runs)


def test_a_drain_closes_behind_a_running_request(start_server, raw_client):
    gate = apps.Gate()
    server = start_server(gate, is_checked=False, native="auto")
    client = raw_client(server)
    client.request("/")
    gate.wait_entered()
    server.call(server.server._listening.lane.drain)
    gate.open()
    assert client.recv_response().get("Connection") == "close"
