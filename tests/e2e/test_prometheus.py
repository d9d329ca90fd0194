"""What a real Prometheus makes of --metrics: of its text, of its numbers over crashes and reloads, of our alerts and dashboard."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from harness.client import RawClient
from harness.load import load
from harness.prometheus import HAS_PROMETHEUS, JOBS, running
from harness.waiting import wait_until

from aserve.request_log import MOST

ROOT = pathlib.Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "examples/prometheus/alerts.yml", ROOT / "examples/grafana/aserve.json"
pytestmark = [
    pytest.mark.checkout,
    pytest.mark.any_parser,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROMETHEUS, reason="prometheus is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux"),
]
APP = """\
import os
from prometheus_client import Counter
hits = Counter("site_hits", "Hits.")
def app(environ, start_response):
    hits.inc()
    start_response("200 OK", [])
    return [b"one %d" % os.getpid()]
"""
RISING = '{__name__=~"(aserve|site)_.+_(total|bucket|count|sum)"}'


def queries_of_dashboard():
    """Return each, with its variables filled in."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    found += [one["expr"] for one in board["annotations"]["list"]]
    return [re.sub(r"\$(job|instance)", ".*", expr).replace("$__rate_interval", "1m") for expr in found]


@pytest.mark.provokes("has crashed")
def test_two_workers(start_workers, tmp_path):
    """They are killed and reloaded under load: each scrape succeeds, and no counter has run backwards."""
    process = start_workers("--workers", "2", "--metrics", "127.0.0.1:0", app=APP)
    process.wait_for_workers(2)
    address = re.search(r"metrics on http://(\S+)/metrics", process.log)[1]
    with running(tmp_path, address, ALERTS) as prometheus:
        with load(lambda: RawClient(process.address)) as clients:
            for number in (signal.SIGKILL, signal.SIGHUP, signal.SIGKILL, signal.SIGHUP):
                prometheus.wait_for_scrapes()
                if number == signal.SIGHUP:
                    done = process.count("SIGHUP: done in")
                    process.signal(number)
                    wait_until(lambda done=done: process.count("SIGHUP: done in") > done, 60)
                else:
                    pid = process.wait_for_workers(2)[0]
                    os.kill(pid, number)
                    process.wait_for_log(rf"\(pid {pid}\) has crashed")
                    process.wait_for_workers(2)
            clients.failures.clear()  # those of the workers that were killed
        prometheus.wait_for_scrapes()
        names = [labels["__name__"] for labels, _ in prometheus.query(f"count by (__name__) ({RISING})")]
        rising = [(name, *found) for name in names for found in prometheus.query(f"resets({name}[1h])")]
        assert len(rising) > 300 and [found for found in rising if found[-1]] == []
        assert prometheus.query("min_over_time(up[1h])") and all(
            n == 1 for _, n in prometheus.query("min_over_time(up[1h])")
        )
        # A request that is lost with its worker is counted; the app may have counted it, too, or had not yet begun. And each of the two that
        # were killed has a batch that was not counted yet.
        uncounted = 2 * (MOST + 8)
        for job in JOBS:
            (((_, ours),), ((_, lost),), ((_, apps),)) = (
                prometheus.query(f'sum({name}{{job="{job}"}})')
                for name in ("aserve_requests_total", "aserve_requests_lost_total", "site_hits_total")
            )
            assert apps - uncounted <= ours - lost <= apps and ours >= clients.count - uncounted > 100
        assert prometheus.query(f'sum(aserve_worker_restarts_total{{reason="crash",job="{JOBS[0]}"}})')[0][1] == 2
        shown = [expr for expr in queries_of_dashboard() if prometheus.query(expr)]  # each of them can be read
        assert len(shown) > 20
    assert process.stop() == 0


def test_promtool(start_workers, raw_client, tmp_path):
    """It has nothing to say about our text; and the alerts are rules."""
    process = start_workers("--workers", "2", "--metrics", "127.0.0.1:0", app=APP)
    process.wait_for_workers(2)
    raw_client(process).fetch("/")
    address = re.search(r"metrics on http://(\S+)/metrics", process.log)[1]

    def scrape():
        with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read()
        return text if b"site_hits_total" in text else b""

    scraped = wait_until(scrape)
    done = subprocess.run(["promtool", "check", "metrics"], input=scraped, capture_output=True, check=False)
    assert (done.returncode, done.stderr + done.stdout) == (0, b"")
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert process.stop() == 0
