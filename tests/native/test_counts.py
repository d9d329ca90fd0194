"""C's counts of plain requests, beside Counters.write."""

import mmap

import pytest
from harness.examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from aserve.core.ends import Ended
from aserve.core.exchange import ANSWERED, CLIENT_GONE
from aserve.features.metrics.counting import Counters, read_words
from aserve.features.metrics.table import BOUNDS, PAGE_WORDS, PLACES, SUM

native = pytest.importorskip("aserve._native", reason="aserve._native is not built here")

SUMS = {PLACES[name] + SUM for name in ("aserve_request_queue_seconds", "aserve_request_duration_seconds")}
SECONDS = st.one_of(st.floats(0.0, 100.0), st.sampled_from([0.0, *BOUNDS, *(bound + 2e-6 for bound in BOUNDS)]))
BEGAN_AT = 256.0  # later than any wait: an arrival at 0.0 has no time
ENDS = st.lists(
    st.tuples(st.integers(100, 999), st.booleans(), st.integers(0, 1 << 40), st.booleans(), SECONDS, SECONDS)
)


def record(status, is_cut, size, was_timed, wait, run):
    """Return Python's counts of such a request: begun at 0 by the clock, as differences of later times are not exact."""
    began_at, end = (-0.0 if not was_timed else BEGAN_AT), CLIENT_GONE if is_cut else ANSWERED
    return Ended("", False, "", status, size, end, began_at - wait, began_at, 0.0, began_at + run, 1, False, b"")


@settings(EXAMPLES, max_examples=50)
@given(ENDS)
def test_the_same_numbers(ends):
    """Requests by class and end, octets, and times by bucket; the sums to the microsecond for each."""
    memories = [mmap.mmap(-1, PAGE_WORDS * 8) for _ in range(2)]
    in_python, in_c = (Counters(memory, 1) for memory in memories)
    exact = [
        (*end[:4], *((BEGAN_AT - (BEGAN_AT - end[4]), (BEGAN_AT + end[5]) - BEGAN_AT))) for end in ends
    ]  # in the form for both
    in_python.write([record(*end) for end in ends])
    in_c.add(*native.make_counts(Counters.places, exact))
    words = [read_words(memory) for memory in memories]
    assert in_c.thread_seconds == pytest.approx(in_python.thread_seconds)
    for place, (one, other) in enumerate(zip(*words)):
        assert abs(one - other) <= (place in SUMS), place


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.001, 0), (2.0**29 / 1000, 29), (2.0**30 / 1000, 30), (2.0**31 / 1000, 31), (9e12, 31)],
)
def test_as_many_buckets_as_there_is_room_for(seconds, bucket):
    """Times beyond the last bound are in the last bucket, however long."""
    found, _ = native.make_counts(((0,) * 10, 1000, 100, 200, 31), [(200, False, 0, True, seconds, seconds)])
    assert [place for place, _ in found if 100 <= place < 132] == [100 + bucket]


@pytest.mark.parametrize("status", [-(1 << 31), -100, -1, 0, 99, 999, 1000, (1 << 31) - 1])
def test_a_status_without_a_class(status):
    """Any status counts in one of the classes."""
    found, _ = native.make_counts((tuple(range(10, 30, 2)), 1, 2, 3, 4), [(status, False, 0, False, 0.0, 0.0)])
    assert len(found) == 1 and found[0][0] in range(10, 30, 2) and found[0][1] == 1


@pytest.mark.parametrize(
    "places",
    [(), ((1, 2), 1, 2, 3, 4), ((0,) * 10, 1, 2, 3, 32), ((0,) * 10, 1, 2, 3, -5), ((1 << 32,) * 10, 1, 2, 3, 4), None],
)
def test_places_that_are_none(places):
    """Wrong places are refused."""
    with pytest.raises((TypeError, ValueError, OverflowError)):
        native.make_counts(places, [])
