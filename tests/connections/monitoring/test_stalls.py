"""A stall of everything is in the log, once, and so is its end."""

from types import SimpleNamespace

import pytest
from harness import apps

from aserve.connections.monitoring import stalls
from aserve.connections.monitoring.stalls import StallWatch


@pytest.fixture
def watch(monkeypatch, caplog):
    """watch(stalled) -> the lines so far, after a second with a queue stalled for so long."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(stalls, "_monotonic", lambda: clock.now)
    monkeypatch.setattr(stalls, "describe_busy", lambda: "aserve-worker-1, at GET /:\n  File x\n")
    watched = StallWatch()

    def watch(stalled):
        clock.now += 1.0
        watched.on_second(SimpleNamespace(stalled_seconds=stalled, is_quiet=False, seconds=lambda: 12.4), 3)
        return [record.getMessage() for record in caplog.records]

    return watch


def test_a_stall_is_told_with_its_end(watch):
    """A stall is told after ten seconds, with the stacks; and its end, when it has not come back for a while."""
    for stalled in range(10):
        assert watch(stalled) == []
    expected = (
        "all threads busy: no queued request started for 10 s (3 queued, oldest 12 s); the threads are at (the last call first):\n"
        "aserve-worker-1, at GET /:\n  File x"
    )
    for stalled in range(10, 31):
        assert watch(stalled) == [expected]
    for _ in range(5):
        assert watch(0) == [expected]
    for _ in range(3):
        assert watch(0)[1:] == ["queued requests start again, after 30 s"]


def test_a_queue_that_hardly_moves(watch):
    """Each begun request begins another stall: the log tells one."""
    for _ in range(4):
        for stalled in range(13):
            said = watch(stalled)
    assert len(said) == 1
    for _ in range(6):
        said = watch(0)
    assert len(said) == 2
    for stalled in range(11):
        said = watch(stalled)
    assert len(said) == 3


def test_a_servers_stall_names_the_request(start_server, raw_client, monkeypatch, caplog):
    """The one thread hangs, and a second request waits: the line names the first."""
    monkeypatch.setattr(stalls, "LONG_STALL_SECONDS", 2)
    gate = apps.Gate()
    server = start_server(gate, threads=1)
    first, second = raw_client(server), raw_client(server)
    first.request("/hangs")
    gate.wait_entered()
    second.request("/waits")
    server.pass_seconds_until(lambda: any("all threads busy" in each.getMessage() for each in caplog.records))
    (line,) = [each.getMessage() for each in caplog.records if "all threads busy" in each.getMessage()]
    assert "(1 queued, oldest " in line and ", at GET /hangs" in line
    assert server.server.statistics().requests_waiting_seconds > 0.0
    gate.open(2)
    assert first.recv_response().status == second.recv_response().status == 200
    server.pass_seconds_until(lambda: "queued requests start again, after" in caplog.text)


@pytest.mark.parametrize("patience", [3, 8])
def test_a_server_whose_clients_give_up(start_server, raw_client, wait_until, caplog, patience):
    """The one thread hangs, each client leaves after some seconds and another comes: one stall, and the server is not ready until its end."""
    gate = apps.Gate()
    server = start_server(gate, threads=1, healthcheck_path="/health")
    server.hold_clock()
    first, probe = raw_client(server), raw_client(server)
    first.request("/hangs")
    gate.wait_entered()
    assert probe.fetch("/health/ready").status == 200
    for _ in range(24 // patience):
        client = raw_client(server)
        client.request("/gives-up")
        wait_until(lambda: server.statistics().requests_waiting == 1)
        server.pass_seconds(patience - 1)
        client.close()
        server.pass_seconds(1)
        assert server.statistics().requests_waiting == 0
    assert server.statistics().requests_stalled_seconds in (22, 23)
    lines = [each.getMessage() for each in caplog.records if "all threads busy" in each.getMessage()]
    assert len(lines) == 1 and "no queued request started for 10 s" in lines[0] and ", at GET /hangs" in lines[0]
    reply = probe.fetch("/health/ready")
    assert reply.status == 503 and b"more than --healthcheck-max-wait (10 s)" in reply.body
    gate.open()
    assert first.recv_response().status == 200 and gate.paths == ["/hangs"]
    server.pass_seconds_until(lambda: "no request waits for a thread any more, after" in caplog.text)
    assert "start again" not in caplog.text
    assert probe.fetch("/health/ready").status == 200
