"""statsd hears of a server and of workers, without --metrics."""

import collections
import os
import signal
import socket

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until

pytestmark = [pytest.mark.any_parser, pytest.mark.long_on_pypy]


class Collector:
    """Adds up the received metrics."""

    def __init__(self, sock):
        self._socket = sock
        sock.setblocking(False)
        self.counts, self.gauges = collections.Counter(), {}

    def hear(self):
        """Take the received packets."""
        while True:
            try:
                lines = self._socket.recv(65536).decode().split("\n")
            except BlockingIOError:
                return self
            for line in lines:
                name, _, rest = line.partition(":")
                value, kind, *rate = rest.split("|")
                if kind == "g":
                    self.gauges[name] = float(value)
                else:
                    self.counts[name] += float(value) if kind == "c" else 1 / float(rate[0][1:] if rate else 1)


@pytest.fixture
def collector():
    """A collector on a real UDP socket; `address` names it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        collector = Collector(sock)
        collector.address = "127.0.0.1:%d" % sock.getsockname()[1]
        yield collector


def test_one_process_tells_its_numbers(start_process, raw_client, collector):
    """Requests, their times and threads come within a second or two; the last ones before the end."""
    process = start_process("hello", "--statsd", collector.address, "--threads", "3")
    client = raw_client(process)
    for _ in range(5):
        client.fetch("/")
    wait_until(lambda: collector.hear().counts["aserve.requests"] == 5)
    assert round(collector.counts["aserve.request.duration"]) == 5 == collector.counts["aserve.request.status.2xx"]
    assert collector.gauges["aserve.threads.limit"] == 3 and collector.gauges["aserve.workers"] == 1
    client.fetch("/", "Connection: close")
    process.signal()
    assert process.wait() == 0
    assert collector.hear().counts["aserve.requests"] == 6 and collector.gauges["aserve.workers"] == 0


@NEEDS_LINUX
@pytest.mark.provokes("has crashed")
def test_workers_send_each_number_once(start_workers, raw_client, collector):
    """No number is sent twice, lost with a worker, or counted again by new code."""
    process = start_workers("--workers", "2", "--statsd", collector.address, "--statsd-prefix", "shop.gunicorn")
    process.wait_for_workers(2)
    for number in (signal.SIGKILL, signal.SIGUSR2, None):
        pids = {int(raw_client(process).fetch("/", "Connection: close").body.split()[1]) for _ in range(10)}
        if number == signal.SIGKILL:
            wait_until(lambda: collector.hear().counts["shop.gunicorn.requests"] == 10)
            for pid in pids:
                os.kill(pid, number)
                process.wait_for_log(rf"\(pid {pid}\) has crashed")
            process.wait_for_workers(2)
        elif number == signal.SIGUSR2:
            wait_until(lambda: collector.hear().counts["shop.gunicorn.requests"] == 20)
            process.signal(number)
            process.wait_for_log("SIGUSR2: done in", 60)
    wait_until(lambda: collector.hear().counts["shop.gunicorn.requests"] == 30, explain=lambda: str(collector.counts))
    wait_until(lambda: collector.hear().gauges["shop.gunicorn.workers"] == 2)
    assert process.stop() == 0
    assert collector.hear().counts["shop.gunicorn.requests"] == 30
