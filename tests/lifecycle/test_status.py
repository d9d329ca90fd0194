"""The text of a status."""

from types import SimpleNamespace

import pytest

from aserve.core import footprint, growth
from aserve.core.footprint import Footprint, Memory
from aserve.core.growth import SAMPLE_SECONDS
from aserve.core.page import Field, Process, new_page
from aserve.features import Config
from aserve.lifecycle.status import MAX_REQUESTS, Statuses, Whole, describe_footprint, describe_requests


@pytest.fixture
def process():
    """A worker that serves."""
    return Process(2, 4321, 7, "ready", 0.0, new_page(), False, lambda: [(2.5, "GET /a?b")], lambda: 2.5)


def test_processes_have_a_row_each(process, monkeypatch):
    """As many rows as there are processes; a supervisor's own parts stand in their place."""
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: Memory(pid))
    process.page[Field.THREADS_BUSY_LATELY], process.page[Field.WAITING_MILLISECONDS] = 1260, 12_340
    whole, found = Whole("well", [], {}), []
    statuses = Statuses(lambda: Config(threads=5), lambda: (whole, found))
    alone = statuses.describe()
    assert (alone["text"], alone["threads"], alone["workers_wanted"], alone["workers"]) == ("well", 5, 0, [])
    found += [process, process._replace(slot=3, pid=0)]
    whole = whole._replace(workers_wanted=2, reload={"half_done": ""}, beside={"jobs": None})
    told = statuses.describe()
    assert told.keys() - alone.keys() == {"half_done", "jobs"} and told["workers_wanted"] == 2
    one, other = told["workers"]
    assert (one["slot"], one["pid"], one["generation"], one["at"]) == (2, 4321, 7, [[2.5, "GET /a?..."]])
    assert (one["threads_busy"], one["waiting_seconds"], one["silent_seconds"]) == (1.3, 12.3, None)
    assert (one["rss_bytes"], other["rss_bytes"]) == (4321, None)


def test_warnings_are_of_page_and_counts(process):
    statuses = Statuses(Config, lambda: (Whole("well", [], {}), [process]))
    process.page[Field.TICKED_AT] = 1
    (warning,) = statuses.describe_with_warnings()["warnings"]
    assert warning["text"].startswith("Worker 2: its event loop has not turned")
    recent = {"all_busy_seconds": 0.0, "busy_share": 0.0, "queue_seconds": 0.0}
    minute = {"requests": 10, "ends": {"5xx complete": 10}, "refused": {}, "lost_lines": 0, "gil": {"p50": None}}
    statuses.counted = lambda: ({"minute": minute, "recent": recent}, {})
    found = statuses.describe_with_warnings()
    assert len(found["warnings"]) == 2 and "minute" not in found


def test_memory_that_grows(process, monkeypatch):
    looks = []
    monkeypatch.setattr(growth, "memory_of", lambda pid: Memory(len(looks) << 24) if not looks.append(pid) else None)
    statuses = Statuses(Config, lambda: (Whole("well", [], {}), [process]))
    for _ in range(50 * SAMPLE_SECONDS):
        statuses.on_second(lambda: [process])
    assert looks == [4321] * 50
    (worker,) = statuses.describe()["workers"]
    assert worker["growth"] == {"from_bytes": 11 << 24, "to_bytes": 41 << 24, "minutes": 40}


def test_for_how_long(monkeypatch):
    """By its own clock, which an upgrade sets back."""
    monkeypatch.setattr("aserve.lifecycle.status.time", SimpleNamespace(monotonic=lambda: 100.0))
    statuses = Statuses(Config, lambda: (Whole("well", [], {}), []))
    statuses.began_at -= 12.34
    assert statuses.describe()["seconds"] == 12.3


def test_what_is_not_known():
    assert (
        set(describe_footprint(None).values())
        == set(describe_footprint(Footprint(None, None, None)).values())
        == {None}
    )


def test_requests_are_few_and_without_queries():
    """Only so many, to a tenth of a second; without queries, unless wanted."""
    assert describe_requests([(2.04, "GET /")] * 20, shows_queries=False) == [[2.0, "GET /"]] * MAX_REQUESTS
    assert describe_requests([(2.04, "GET /?token=x")], shows_queries=False) == [[2.0, "GET /?..."]]
    assert describe_requests([(2.04, "GET /?token=x")], shows_queries=True) == [[2.0, "GET /?token=x"]]
