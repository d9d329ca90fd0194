"""Waiting requests of gone clients are dropped after a second, on either wire, and all others are served."""

import socket
import types

import pytest
from harness import apps, lanes
from harness.metrics import scrape

from aserve.connections.lane.disconnects import Departed
from aserve.core.exchange import Exchange

pytestmark = pytest.mark.any_parser


class Site:
    """A server whose only thread is inside the app."""

    def __init__(self, start_server, raw_client, **settings):
        self.gate = apps.Gate()
        self.server = start_server(self.gate, threads=1, **settings)
        self.server.hold_clock()
        self.new = lambda: raw_client(self.server)
        self.first = self.ask("/first")
        self.gate.wait_entered()

    def ask(self, target):
        client = self.new()
        client.request(target=target)
        return client

    def wait_for(self, count, wait_until):
        wait_until(lambda: self.server.statistics().requests_waiting == count)

    @property
    def waiting_count(self):
        return self.server.statistics().requests_waiting


@pytest.fixture
def site(start_server, raw_client):
    """Make a site, with these settings."""
    return lambda **settings: Site(start_server, raw_client, **settings)


def test_a_gone_clients_request_is_dropped(site, wait_until, caplog, tmp_path):
    """A gone client's request is dropped after a second, not before; the access log has it, and the connection is closed."""
    log = tmp_path / "log"
    served = site(access_log=str(log), access_log_format="%(path)s %(status)s %(end)s")
    gone, stays = served.ask("/gone"), served.ask("/stays")
    served.wait_for(2, wait_until)
    gone.close()
    served.server.pass_seconds(1)
    assert served.waiting_count == 2
    served.server.pass_seconds(1)
    assert served.waiting_count == 1
    served.server.pass_seconds(2)
    served.gate.open(2)
    assert stays.recv_response().status == served.first.recv_response().status == 200
    assert served.gate.paths == ["/first", "/stays"]
    wait_until(lambda: served.server.server.connection_count == 2)
    served.server.stop()
    lines = log.read_text().splitlines()
    assert sorted(lines) == ["/first 200 answered", "/gone 0 client_gone", "/stays 200 answered"]
    (line,) = [record.getMessage() for record in caplog.records if "had left" in record.getMessage()]
    assert line == "requests that were not begun, as their clients had left while they waited for a thread: 1"


def test_the_wait_of_a_client_that_leaves(site, wait_until, caplog, tmp_path):
    """The wait ends when the client leaves: access log, histogram and slow requests have it, and no time in a thread."""
    log, metrics = tmp_path / "log", tmp_path / "metrics"
    served = site(
        access_log=str(log), access_log_format="%(path)s %(queue_wait)s %(duration)s %(thread)s",
        metrics=f"unix:{metrics}", slow_request_seconds=0.001,
    )  # fmt: skip
    gone = served.ask("/gone")
    served.wait_for(1, wait_until)
    gone.close()
    served.server.pass_seconds(2)
    served.server.call(served.server.server._commons.ends.flush)
    (line,) = log.read_text().splitlines()
    path, queue_wait, duration, thread = line.split()
    assert (path, thread) == ("/gone", "-") and 0.0 < float(queue_wait) <= float(duration) < float(queue_wait) + 1.0
    (slow,) = [each for each in served.server.server.slow_requests() if each["request"] == "GET /gone"]
    assert 0.0 < slow["queue_seconds"] <= slow["seconds"] and slow["thread"] == "none" and slow["end"] == "client_gone"
    served.server.pass_seconds(1)
    numbers, _ = scrape(metrics)
    assert numbers["aserve_request_queue_seconds_count",] == 1
    assert numbers["aserve_request_duration_seconds_count",] == 0
    served.gate.open()
    assert served.first.recv_response().status == 200


@pytest.mark.plain  # in TLS an alert comes before the end of the connection
@pytest.mark.parametrize("keep", [False, True])
def test_a_half_closed_client_counts_as_gone(site, wait_until, keep):
    """A half-closed client is taken for gone, unless the setting says that it may still read."""
    served = site(keep_half_closed=keep)
    half = served.ask("/half")
    served.wait_for(1, wait_until)
    half.end_sending()
    served.server.pass_seconds(2)
    assert served.waiting_count == keep
    served.gate.open(2)
    assert served.first.recv_response().status == 200
    if keep:
        assert half.recv_response().status == 200


def test_over_a_unix_socket(site, wait_until, tmp_path):
    """The kernel of a unix socket tells a closed client from a reading one."""
    served = site(bind=f"unix:{tmp_path}/s")
    half, gone = served.ask("/half"), served.ask("/gone")
    served.wait_for(2, wait_until)
    half.end_sending()
    gone.close()
    served.server.pass_seconds(2)
    assert served.waiting_count == 1
    served.gate.open(2)
    assert half.recv_response().status == 200 and served.gate.paths == ["/first", "/half"]


def test_a_reset_client_is_dropped(site, wait_until):
    """A client already lost for its transport is dropped as well."""
    served = site()
    reset = served.ask("/reset")
    served.wait_for(1, wait_until)
    reset.reset()
    if served.server.server._listening.lane is None:
        wait_until(lambda: served.server.server.connection_count == 1)
    served.server.pass_seconds(2)
    assert served.waiting_count == 0
    served.gate.open()
    assert served.first.recv_response().status == 200
    wait_until(lambda: not served.server.call(lambda: [*served.server.server._listening.services[0].lost]))


@pytest.mark.parametrize(("scheme", "packet"), [("uwsgi", lanes.uwsgi), ("scgi", lanes.scgi)])
def test_behind_a_front_server(start_server, wait_until, scheme, packet):
    """A front server closes its connection when its client goes; the received body is released."""
    gate = apps.Gate()
    server = start_server(gate, threads=1, bind=f"{scheme}://127.0.0.1:0")
    server.hold_clock()
    clients = [socket.create_connection(server.address, 20) for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(packet(body=b"body"))
        if not number:
            gate.wait_entered()
    wait_until(lambda: server.statistics().requests_waiting == 2)
    clients[1].close()
    server.pass_seconds(2)
    assert server.statistics().requests_waiting == 1
    gate.open(2)
    for client in (clients[0], clients[2]):
        assert b"200" in client.recv(1000)
        client.close()
    assert len(gate.paths) == 2


def test_pipelined_requests_are_dropped_together(site, wait_until):
    served = site()
    client = served.new()
    client.send(b"GET /a HTTP/1.1\r\nHost: test\r\n\r\n" * 3)
    served.wait_for(1, wait_until)
    client.close()
    served.server.pass_seconds(2)
    served.gate.open()
    assert served.first.recv_response().status == 200
    wait_until(lambda: served.server.server.connection_count == 1)
    assert served.gate.paths == ["/first"]


def drop(jobs):
    """Look for requests to drop among these waiting jobs."""
    queue_wait = types.SimpleNamespace(overdue=jobs)
    executor = types.SimpleNamespace(queue_wait=queue_wait, withdraw=lambda job: pytest.fail(f"{job} was dropped"))
    Departed(executor, False).on_second()


def test_a_request_begun_meanwhile_stays(site, wait_until):
    """A request just given to a worker is the worker's."""
    served = site()
    gone = served.ask("/gone")
    served.wait_for(1, wait_until)
    gone.close()
    served.server.server._threads.executor.withdraw = lambda job: False
    served.server.pass_seconds(2)
    assert served.waiting_count == 1
    served.gate.open(2)
    assert served.first.recv_response().status == 200
    wait_until(lambda: served.gate.paths == ["/first", "/gone"])


def test_other_jobs_are_left_alone():
    """Other jobs are not looked at, nor requests whose connection is on its way elsewhere."""
    connection = types.SimpleNamespace(run=print, wire=types.SimpleNamespace(fd=0))
    exchange, other = Exchange("", 0), Exchange("", 0)
    exchange.connection = other.connection = connection
    drop([(print, None), (print, exchange), (repr, other)])
    drop([])
