"""A server without a supervisor, as a list of one."""

import os
import time
import types

import pytest

from aserve.connections.monitoring.statistics import Statistics
from aserve.core import footprint
from aserve.core.footprint import Memory
from aserve.core.page import Field
from aserve.features import Config
from aserve.features.metrics.counting import Counters, read_words
from aserve.features.metrics.table import PLACES
from aserve.lifecycle.lone import Lone

NOTHING = Statistics(*[0] * len(Statistics._fields))


@pytest.fixture
def server(monkeypatch):
    """A server of three threads; server.now is its state."""
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: Memory(3, 2, 1))
    monkeypatch.setattr(footprint, "descriptors_of", lambda pid: (20, 100))
    server = types.SimpleNamespace(config=Config(threads=3), shown_urls=["http://a", "http://b"], now=NOTHING)
    server.statistics = lambda: server.now
    server.ongoing = lambda count: [(1.26, "GET /?a=b")] * count
    server.ask = lambda name: [{"number": 1}] if name == "slow" else None
    server.listening = lambda: ["a listener"]
    return server


def test_its_status_is_one_row(server):
    lone = Lone(server)
    server.now = NOTHING._replace(
        requests=7, workers=3, workers_idle=1, workers_busy_lately=1.26, requests_stalled_seconds=2, requests_waiting_seconds=12.34
    )  # fmt: skip
    found = lone.statuses.describe()
    (worker,) = found["workers"]
    assert (found["text"], found["threads"], found["pid"]) == ("serving on http://a, http://b", 3, os.getpid())
    assert (found["workers_wanted"], found["workers_ready"], found["crashes"]) == (0, 0, [])
    names = ("slot", "pid", "generation", "state", "requests", "threads_busy", "threads_busy_now", "stalled_seconds")
    assert [worker[name] for name in names] == [0, os.getpid(), 1, "ready", 7, 1.3, 2, 2]
    assert (worker["waiting_seconds"], worker["silent_seconds"]) == (12.3, 0.0)
    assert (worker["rss_bytes"], worker["pss_bytes"], worker["uss_bytes"]) == (3, 2, 1)
    assert (worker["descriptors"], worker["descriptor_limit"]) == (20, 100)
    assert found["slow"] == [{"number": 1}] and found["listening"] == ["a listener"]
    assert worker["at"] == [[1.3, "GET /?..."]] * 10
    server.now, server.config = NOTHING._replace(is_draining=True), Config(show_queries=True)
    found = lone.statuses.describe()
    assert found["text"].startswith("draining on") and found["workers"][0]["state"] == "draining"
    assert found["workers"][0]["at"][0][1] == "GET /?a=b"


def test_what_balancers_ask(server):
    """The state is of the last look; a caller within the process finds its event loop turning."""
    lone = Lone(server)
    assert (lone.process_count, lone.ready_count, lone.fleet) == (1, 1, None) and lone.listening == ["a listener"]
    server.now = NOTHING._replace(is_draining=True, told_unready="the database is gone")
    (process,) = lone.processes()
    assert lone.is_draining and lone.why_unready == "the database is gone" and process.still_seconds == 0


def test_what_it_counts(server):
    """Counts are in the same page; on the status page its slot is 0."""
    lone = Lone(server)
    Counters(lone.page, 5)
    assert [(slot, read_words(page)[PLACES["aserve_threads_limit"]]) for slot, page in lone.pages()] == [
        (0, 5)
    ] and lone.config is server.config


def test_its_page_is_written_at_each_look(server):
    lone = Lone(server)
    server.now = NOTHING._replace(connections_open=5)
    (process,) = lone.processes()
    assert process.page[Field.CONNECTIONS] == lone.page[Field.CONNECTIONS] == 5
    assert process.oldest_seconds() == 1.26 and process.began_at <= time.monotonic()
    server.ongoing = lambda count: []
    assert process.oldest_seconds() == 0.0
