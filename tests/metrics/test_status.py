"""What a status says."""

from __future__ import annotations

import os
import types

from aserve.connections.statistics import Statistics
from aserve.core.footprint import Footprint, Memory
from aserve.metrics.status import MAX_REQUESTS, describe_footprint, describe_requests, describe_single
from aserve.settings import Config

NOTHING = Statistics(*[0] * len(Statistics._fields))


def test_a_process():
    """One that serves by itself: a row, with what it is at and takes."""
    now = NOTHING._replace(requests=7, workers=3, workers_idle=1, workers_busy_lately=1.26, requests_stalled_seconds=2)
    server = types.SimpleNamespace(
        config=Config(threads=3), urls=["http://a", "http://b"], statistics=lambda: now, ongoing=lambda count: [(1.26, "GET /")] * count,
        slow_requests=lambda: [{"number": 1}], listening=lambda: ["a listener"],
    )  # fmt: skip
    footprints = types.SimpleNamespace(
        of=lambda pid: Footprint(Memory(3, 2, 1), 20, 100) if pid == os.getpid() else None
    )
    found = describe_single(server, 12.34, footprints)
    (worker,) = found["workers"]
    assert (found["text"], found["seconds"], found["threads"]) == ("serving on http://a, http://b", 12.3, 3)
    names = ("slot", "state", "requests", "threads_busy", "threads_busy_now", "stalled_seconds")
    assert [worker[name] for name in names] == [0, "ready", 7, 1.3, 2, 2]
    assert (worker["rss_bytes"], worker["pss_bytes"], worker["uss_bytes"]) == (3, 2, 1)
    assert (worker["descriptors"], worker["descriptor_limit"]) == (20, 100)
    assert found["slow"] == [{"number": 1}] and found["listening"] == ["a listener"]
    assert worker["at"] == [[1.3, "GET /"]] * MAX_REQUESTS
    now = now._replace(is_draining=True)
    found = describe_single(server, 12.34, footprints)
    assert found["text"].startswith("draining on") and found["workers"][0]["state"] == "draining"


def test_what_is_not_known():
    """A process that is not there yet, and a system that does not tell."""
    assert (
        set(describe_footprint(None).values())
        == set(describe_footprint(Footprint(None, None, None)).values())
        == {None}
    )


def test_requests():
    """So many, and no more, to a tenth of a second; without their queries, unless these are wanted."""
    assert describe_requests([(2.04, "GET /")] * 20, shows_queries=False) == [[2.0, "GET /"]] * MAX_REQUESTS
    assert describe_requests([(2.04, "GET /?token=x")], shows_queries=False) == [[2.0, "GET /?..."]]
    assert describe_requests([(2.04, "GET /?token=x")], shows_queries=True) == [[2.0, "GET /?token=x"]]
