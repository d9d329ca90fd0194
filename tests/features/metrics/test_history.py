"""The last minute, from samples of the counts."""

import pytest

from aserve.features.metrics import history as module
from aserve.features.metrics.history import BEYOND, SECONDS, History
from aserve.features.metrics.table import BUCKETS, PLACES, REFUSALS, SUM, WORDS


@pytest.fixture
def sampled(monkeypatch):
    """A history, and the words of its next sample: sampled.pass_second(name=raised by, ...)."""

    class Sampled:
        def __init__(self):
            self.history, self.words, self.now = History(), [0] * WORDS, 50.0
            monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
            self.history.add(self.words)

        def raise_(self, name, by=1, offset=0):
            self.words[PLACES[name] + offset] += by

        def pass_second(self):
            self.now += 1
            self.history.add(self.words)

    return Sampled()


def test_nothing_yet_has_all_places():
    found = History().describe()
    assert found["minute"]["requests"] == found["now"]["threads_busy"] == 0 and found["minute"]["per_second"] == 0.0
    assert found["minute"]["queue"] == {"count": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    assert found["recent"] == {"all_busy_seconds": 0.0, "busy_share": 0.0, "queue_seconds": 0.0}
    assert found["series"]["per_second"] == []


def test_what_came_in_the_minute(sampled):
    """Requests count by their ends, refusals by status, and earlier ones are not among them."""
    sampled.raise_("aserve_requests_total", 100, 4)
    sampled.pass_second()
    sampled.history = History()
    sampled.history.add(sampled.words)
    sampled.raise_("aserve_requests_total", 7, 4)
    sampled.raise_("aserve_requests_total", 2, 11)
    sampled.raise_("aserve_requests_refused_total", 3, REFUSALS.index(431))
    sampled.raise_("aserve_app_exceptions_total", 4)
    sampled.raise_("aserve_response_body_bytes_total", 5000)
    sampled.pass_second()
    sampled.pass_second()
    minute = sampled.history.describe()["minute"]
    assert minute["ends"] == {"2xx complete": 7, "5xx cut": 2} and minute["refused"] == {"431": 3}
    assert (minute["requests"], minute["per_second"], minute["seconds"]) == (9, 4.5, 2.0)
    assert (minute["exceptions"], minute["body_bytes"]) == (4, 5000)
    assert sampled.history.describe()["series"]["per_second"] == [9.0, 0.0]


def test_times_are_bounds_of_buckets(sampled):
    """A quantile is the bound of its bucket, the mean is exact; a time beyond all bounds is more."""
    for bucket, count in ((0, 50), (3, 44), (BUCKETS, 6)):
        sampled.raise_("aserve_request_queue_seconds", count, bucket)
    sampled.raise_("aserve_request_queue_seconds", 25_000_000, SUM)
    sampled.pass_second()
    queue = sampled.history.describe()["minute"]["queue"]
    assert queue == {"count": 100, "mean": 0.25, "p50": 0.001, "p95": BEYOND, "p99": BEYOND}
    assert sampled.history.describe()["series"]["queue_seconds"] == [0.25]
    assert sampled.history.describe()["recent"]["queue_seconds"] == 0.25


def test_a_minute_is_kept(sampled):
    """Older samples are forgotten."""
    sampled.raise_("aserve_requests_total")
    sampled.pass_second()
    for _ in range(SECONDS):
        sampled.pass_second()
    found = sampled.history.describe()
    assert found["minute"]["requests"] == 0 and found["minute"]["seconds"] == SECONDS
    assert len(found["series"]["per_second"]) == SECONDS


def test_all_threads_busy(sampled):
    """The time without a break is told, each mean over the last ten seconds, and the recent load."""
    sampled.raise_("aserve_threads_limit", 4)
    for busy in (4000, 3800, 4000, 3970, 3980):
        sampled.words[PLACES["aserve_threads"]] = busy
        sampled.pass_second()
    recent = sampled.history.describe()["recent"]
    assert recent["all_busy_seconds"] == 12.0 and recent["busy_share"] == 0.99
    sampled.words[PLACES["aserve_threads"]] = 3800
    sampled.pass_second()
    recent = sampled.history.describe()["recent"]
    assert recent["all_busy_seconds"] == 0.0 and recent["busy_share"] == 0.95
    assert sampled.history.describe()["series"]["threads_busy"] == [0.0, 4.0, 3.8, 4.0, 4.0, 4.0, 3.8]
    sampled.history = History()
    sampled.words[PLACES["aserve_threads"]] = 4000
    sampled.pass_second()
    sampled.pass_second()
    assert sampled.history.describe()["recent"]["all_busy_seconds"] == 11.0  # since the first sample


def test_gauges_of_now(sampled):
    sampled.raise_("aserve_threads", 3000, 3)
    sampled.raise_("aserve_connections", 9, 1)
    sampled.raise_("aserve_spool_files", 2, 1)
    sampled.pass_second()
    now = sampled.history.describe()["now"]
    assert (now["threads_stuck"], now["connections_idle"], now["spool_files_responses"]) == (3, 9, 2)


def test_numbers_that_fall(sampled):
    """Old code has left less than it had counted: nothing came."""
    sampled.raise_("aserve_requests_total", 10)
    sampled.pass_second()
    sampled.words = [0] * WORDS
    sampled.pass_second()
    assert sampled.history.describe()["series"]["per_second"] == [10.0, 0.0]
    assert sampled.history.describe()["minute"]["requests"] == 0
