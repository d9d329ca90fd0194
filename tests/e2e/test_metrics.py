"""A server's numbers at --metrics count every request, once, and no number ever falls."""

import os
import signal

import pytest
from harness import apps
from harness.client import RawClient
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.load import KINDS, Load, load
from harness.metrics import requests, scrape, scraping
from harness.waiting import wait_until

from aserve.core.ends import MOST

DONE = r"%s: done in [\d.]+ s: code and settings of 2 workers are new"


@pytest.fixture
def served(start_server, tmp_path):
    """Start a server with metrics: served(app, **settings) -> the server, and the path of its metrics' socket."""

    def start(app, **settings):
        path = tmp_path / "m"
        return start_server(app, metrics=f"unix:{path}", **settings), path

    return start


@pytest.mark.also_inline
def test_how_requests_end(served, raw_client):
    """By class of status, and whether their responses were whole; with their octets and exceptions."""

    def app(environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/raise":
            raise ValueError(path)
        start_response("404 Not Found" if path == "/no" else "200 OK", [("Content-Length", "10")])
        return [b"short"] if path == "/cut" else [b"0123456789"]

    server, path = served(app, healthcheck_path="/-/health")
    for target in ("/", "/", "/no", "/raise", "/-/health/live"):
        raw_client(server).fetch(target, "Connection: close")
    cut = raw_client(server)
    cut.send(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
    with pytest.raises((RawClient.Truncated, OSError)):
        cut.recv_response()

    def ends():
        numbers, _ = scrape(path)
        return {key[1:3]: count for key, count in numbers.items() if key[0] == "aserve_requests_total" and count}

    expected = {("complete", "2xx"): 2, ("complete", "4xx"): 1, ("complete", "5xx"): 1, ("cut", "2xx"): 1}
    wait_until(lambda: ends() == expected, explain=lambda: str(ends()))
    numbers, _ = scrape(path)
    assert numbers["aserve_response_body_bytes_total", "1"] == 3 * 10 + 5
    assert numbers["aserve_app_exceptions_total", "1"] == 2
    for name in ("queue", "duration"):
        assert numbers[f"aserve_request_{name}_seconds_count",] == 5
        assert 0 < numbers[f"aserve_request_{name}_seconds_sum",] < 600


@pytest.mark.also_inline
def test_refused_requests_are_counted_by_status(served, raw_client):
    server, path = served(apps.hello)
    for octets, status in ((b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 70000, 431)):
        client = raw_client(server)
        client.send(octets)
        assert client.recv_response().status == status

    def refused():
        numbers, _ = scrape(path)
        return {key[1]: count for key, count in numbers.items() if key[0] == "aserve_requests_refused_total" and count}

    wait_until(lambda: refused() == {"400": 1, "431": 1})
    assert requests(path, status="none") == requests(path, status="4xx") == 0


def test_gauges_show_waiting_and_busy(served, raw_client, tmp_path):
    """A waiting request and a busy thread are seen: the time counts before the end, and the gauge falls behind the end."""
    server, path = served(apps.steered, threads=1)
    first, second = raw_client(server), raw_client(server)
    first.send(b"GET /wait%b HTTP/1.1\r\nHost: a\r\n\r\n" % bytes(tmp_path / "one"))
    wait_until(lambda: (tmp_path / "one.in").exists())
    second.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    def gauges():
        server.pass_seconds(1)
        numbers, _ = scrape(path)
        names = ("threads_limit", "requests_waiting", "requests_in_flight")
        assert 0 <= numbers["aserve_threads", "busy", "1"] <= 1
        is_busy = [numbers[name] > 0 for name in busy]
        return is_busy, [numbers[f"aserve_{name}", "1"] for name in names]

    busy = [("aserve_threads_busy_seconds_total", "1"), ("aserve_threads", "busy", "1")]
    wait_until(lambda: gauges() == ([True, True], [1, 1, 2]))
    (tmp_path / "one.go").touch()
    first.recv_response()
    second.recv_response()
    wait_until(lambda: gauges() == ([True, False], [1, 0, 0]))  # the gauge looks back ten seconds


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.any_parser
@pytest.mark.slow
@pytest.mark.provokes("has crashed")
def test_no_number_falls(start_workers, tmp_path):
    """Workers are replaced, recycled and killed, and the supervisor becomes new code: in the end every answered request is counted."""
    path = tmp_path / "m"
    process = start_workers("--workers", "2", "--threads", "4", "--max-requests", "500", "--metrics", f"unix:{path}")
    process.wait_for_workers(2)
    answered = 0
    with scraping(path) as scraper:
        with load(lambda: RawClient(process.address)) as clients:
            for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGHUP):
                before, count = process.count(DONE % number.name), clients.count
                process.signal(number)
                wait_until(lambda before=before, name=number.name: process.count(DONE % name) > before, 60)
                wait_until(lambda count=count: clients.count > count + 50)
            # Not at the log's announcement: a reload may come first.
            wait_until(lambda: scrape(path)[0]["aserve_worker_restarts_total", "recycle"] >= 1, 60)
        answered += clients.count
        wait_until(lambda: requests(path) == answered, explain=lambda: f"{requests(path)} of {answered}")
        for pid in process.wait_for_workers(2):  # nothing runs
            os.kill(pid, signal.SIGKILL)
            process.wait_for_log(rf"worker \d \(pid {pid}\) has crashed")
        process.wait_for_workers(2)
        assert requests(path) == answered
        with load(lambda: RawClient(process.address)) as clients:
            wait_until(lambda: clients.count > 50)
        answered += clients.count
        wait_until(lambda: requests(path) == answered)

        # Killed within requests: a worker's uncounted requests are one batch, and the latest of each thread.
        clients = Load(lambda: RawClient(process.address), kinds=KINDS * 2)
        wait_until(lambda: clients.count > 50)
        killed = process.wait_for_workers(2)
        os.kill(killed[0], signal.SIGKILL)
        process.wait_for_log(rf"\(pid {killed[0]}\) has crashed")
        process.wait_for_workers(2)
        clients.stop()
        low, high = answered + clients.count - MOST - 4, answered + clients.count + len(clients.failures)
        wait_until(lambda: low <= requests(path) <= high, explain=lambda: f"{low} <= {requests(path)} <= {high}")
        assert scraper.count > 5
    numbers, _ = scrape(path)
    assert numbers["aserve_worker_restarts_total", "crash"] == 3
    assert (
        numbers["aserve_worker_restarts_total", "reload"] >= 4
        and numbers["aserve_worker_restarts_total", "recycle"] >= 1
    )
    assert numbers["aserve_reloads_total", "done"] == 3
    assert process.stop() == 0 and not path.exists()


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.any_parser
def test_while_no_worker_can(start_workers, raw_client, tmp_path):
    """The supervisor answers, whatever becomes of its workers, and shows how long a worker's request lasts."""
    path = tmp_path / "m"
    process = start_workers("--workers", "2", "--metrics", f"unix:{path}")
    pids = process.wait_for_workers(2)
    client = raw_client(process)
    client.send(b"GET /wait%b HTTP/1.1\r\nHost: a\r\n\r\n" % bytes(tmp_path / "one"))
    wait_until(lambda: (tmp_path / "one.in").exists())
    halt(*pids)
    numbers, _ = scrape(path)
    assert numbers["aserve_workers", "ready"] == 2
    assert max(numbers["aserve_oldest_request_seconds", slot] for slot in "12") > 0
    assert all(numbers["aserve_worker_unique_bytes", slot] > 1 << 20 for slot in "12")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    (tmp_path / "one.go").touch()
    assert client.recv_response().status == 200
    wait_until(lambda: requests(path) == 1)
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.any_parser
def test_workers_of_a_mold_count_too(start_workers, raw_client, tmp_path):
    path = tmp_path / "m"
    process = start_workers("--workers", "1", "--preload", "--metrics", f"unix:{path}")
    process.wait_for_log("worker 1 .* is ready")
    assert raw_client(process).fetch("/").status == 200
    wait_until(lambda: requests(path) == 1)
    assert process.stop() == 0 and not path.exists()
