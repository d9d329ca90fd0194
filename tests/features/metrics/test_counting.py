"""A process's counts of each request, and once a second."""

import mmap
import threading
import time
import types

import pytest
from harness.ends import ended

from aserve.connections.monitoring.statistics import Statistics
from aserve.core.errors import RequestRefused
from aserve.core.exchange import CUT, Exchange
from aserve.features.metrics.counting import Counters, read_words
from aserve.features.metrics.table import BOUNDS, BUCKETS, KEYS, METRICS, PAGE_WORDS, PLACES, SUM


def new_exchange(code=200, sent_bytes=0, waited=0.0, took=0.0, **other):
    """Return an exchange that ends now."""
    exchange = Exchange("", 0)
    exchange.connection = types.SimpleNamespace(remote_addr="")
    exchange.response = types.SimpleNamespace(code=code, sent_bytes=sent_bytes) if code is not None else None
    exchange.began_at = time.monotonic() - took
    exchange.arrived_at, exchange.thread_id = exchange.began_at - waited, 1
    for name, value in other.items():
        setattr(exchange, name, value)
    return exchange


class Counted:
    """Counters, and their memory."""

    def __init__(self, threads=3):
        self.memory = mmap.mmap(-1, PAGE_WORDS * 8)
        self.counters = Counters(self.memory, threads)

    def __getitem__(self, key):
        name, _, rest = key.partition(" ")
        words = read_words(self.memory)
        if key in KEYS:
            return words[KEYS[key]]
        return words[PLACES[name] + METRICS[name].cells.index(rest)]


@pytest.fixture
def counted():
    """Counters of a process with three threads."""
    return Counted()


@pytest.mark.parametrize(
    ("exchange", "status", "end"),
    [
        (new_exchange(200), "2xx", "complete"),
        (new_exchange(304), "3xx", "complete"),
        (new_exchange(404, end=CUT), "4xx", "cut"),
        (new_exchange(599), "5xx", "complete"),
        (new_exchange(0), "none", "complete"),
        (new_exchange(None, end=CUT), "none", "cut"),
        (new_exchange(999), "none", "complete"),  # no status of HTTP's
    ],
)
def test_each_request_ends_in_one_class_and_way(counted, exchange, status, end):
    counted.counters.write([ended(exchange)])
    found = {
        key: count
        for key, place in KEYS.items()
        if (count := read_words(counted.memory)[place]) and "requests_total" in key
    }
    assert found == {f'aserve_requests_total status="{status}",end="{end}"': 1}


def test_octets_and_exceptions(counted):
    """Both are added up."""
    for exchange in (new_exchange(sent_bytes=5), new_exchange(500, sent_bytes=7, has_app_failed=True)):
        counted.counters.write([ended(exchange)])
    assert counted["aserve_response_body_bytes_total "] == 12
    assert counted["aserve_app_exceptions_total "] == 1


def test_what_c_has_counted(counted):
    """C's sums are added (native/counts.c)."""
    counted.counters.add([(PLACES["aserve_response_body_bytes_total"], 7)], 1.5)
    assert counted["aserve_response_body_bytes_total "] == 7 and counted.counters.thread_seconds == 1.5


def test_times_are_in_bucket_and_sum(counted):
    """Wait and duration of a request are counted each in a bucket, and in the sum: microseconds."""
    counted.counters.write([ended(new_exchange(waited=0.003, took=100.0))])
    counted.counters.write([ended(new_exchange(waited=0.0, took=0.0))])
    words = read_words(counted.memory)
    queue, duration = PLACES["aserve_request_queue_seconds"], PLACES["aserve_request_duration_seconds"]
    assert words[queue : queue + SUM] == [1, 0, 1, *[0] * (BUCKETS - 2)]
    assert words[queue + SUM] == pytest.approx(3000, abs=5)
    assert words[duration + BUCKETS] == 1 and sum(words[duration : duration + SUM]) == 2
    assert 100_000_000 <= words[duration + SUM] < 200_000_000


def test_a_request_that_no_thread_has_begun(counted):
    """The request waited until its client left, and took no time in a thread."""
    counted.counters.write([ended(new_exchange(None, waited=0.003, took=1.0, thread_id=0))])
    words = read_words(counted.memory)
    queue, duration = PLACES["aserve_request_queue_seconds"], PLACES["aserve_request_duration_seconds"]
    assert words[queue : queue + SUM] == [0, 0, 1, *[0] * (BUCKETS - 2)]
    assert words[duration : duration + SUM + 1] == [0] * (SUM + 1) and counted.counters.thread_seconds == 0.0


@pytest.mark.parametrize("lacking", ["arrived_at", "began_at"])
def test_times_that_are_not_known(counted, lacking):
    """A request without a worker has no times; one without a queue has not waited."""
    counted.counters.write([ended(new_exchange(waited=9.0, **{lacking: 0.0}))])
    words, queue = read_words(counted.memory), PLACES["aserve_request_queue_seconds"]
    assert words[queue : queue + SUM + 1] == ([1, *[0] * BUCKETS, 0] if lacking == "arrived_at" else [0] * (SUM + 1))


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("number", range(BUCKETS))
def test_buckets_have_inclusive_bounds(counted, number, late):
    """A time is in the first bucket with a bound no smaller."""
    exchange = new_exchange()
    exchange.arrived_at, exchange.began_at = 1.0, 1.0 + BOUNDS[number] + late * 2e-6
    counted.counters.write([ended(exchange)])
    queue = PLACES["aserve_request_queue_seconds"]
    words = read_words(counted.memory)[queue : queue + SUM]
    assert words.index(1) == number + late and sum(words) == 1


def test_refusals_count_by_status(counted):
    """Refusals count by status; a status outside the table is not lost."""
    for status in (400, 431, 400, 426):
        counted.counters.write_refused(None, None, RequestRefused(status, "why"))
    name = "aserve_requests_refused_total"
    assert [counted[f'{name} status="{status}"'] for status in (400, 431, "other", 503)] == [2, 1, 1, 0]


def test_gauges_are_of_the_moment(counted):
    """Gauges are the numbers of the moment, and fall as well."""
    names = ("workers_busy_lately", "workers_idle", "connections_idle", "responses_spooled_bytes")
    for numbers in ((2.25, 1, 7, 100), (0.0, 5, 2, 0)):
        counted.counters.on_second(Statistics(*[0] * len(Statistics._fields))._replace(**dict(zip(names, numbers))))
        busy, idle = (counted[f'aserve_threads state="{state}"'] for state in ("busy", "idle"))
        assert (busy, idle) == (numbers[0] * 1000, numbers[1] * 1000)
        assert counted['aserve_connections state="idle"'] == numbers[2]
        assert counted["aserve_spool_bytes "] == numbers[3]
    assert counted["aserve_threads_limit "] == 3
    assert Counted(threads=0)["aserve_threads_limit "] == 1  # the event loop's


def test_lines_that_logs_have_lost(counted):
    """Their own numbers are shown."""
    counted.counters.on_second(Statistics(*[0] * len(Statistics._fields)), 7, lost_messages=8)
    assert counted["aserve_access_log_lines_lost_total "] == 7
    assert counted["aserve_error_log_lines_lost_total "] == 8


def test_how_long_threads_are_busy(counted):
    """Threads are busy until the end of a request, even if the event loop sends the rest; the counter follows once a second."""
    sent_on = new_exchange(took=9.0)
    sent_on.left_at = sent_on.began_at + 2.0
    counted.counters.write([ended(new_exchange(took=0.5)), ended(sent_on), ended(new_exchange(began_at=0.0))])
    assert counted.counters.thread_seconds == pytest.approx(2.5, abs=0.1)
    counted.counters.on_second(Statistics(*[0] * len(Statistics._fields)), busy_seconds=2.75)
    assert counted["aserve_threads_busy_seconds_total "] == 2_750_000


def test_many_threads_lose_no_count(counted):
    """None is lost when threads end exchanges side by side."""

    def end_many():
        for _ in range(2000):
            counted.counters.write([ended(new_exchange(sent_bytes=3))])

    threads = [threading.Thread(target=end_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted['aserve_requests_total status="2xx",end="complete"'] == 8000
    assert counted["aserve_response_body_bytes_total "] == 24000


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.0005, 0), (0.001, 0), (0.0011, 1), (0.005, 3), (100.0, BUCKETS)]
)
def test_waits_for_the_gil(counted, seconds, bucket):
    counted.counters.note_gil_wait(seconds)
    place = PLACES["aserve_gil_wait_seconds"]
    words = read_words(counted.memory)[place : place + SUM + 1]
    assert words[:SUM] == [int(index == bucket) for index in range(SUM)] and words[SUM] == int(seconds * 1e6)
