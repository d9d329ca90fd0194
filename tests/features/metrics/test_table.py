"""The table of metrics: names, places and help."""

import re

import pytest

from aserve.core.page import PAGE_BYTES, WORD_BYTES, Field
from aserve.features.metrics.table import (
    BOUNDS,
    BUCKETS,
    COUNTED,
    COUNTER,
    FIRST_WORD,
    GAUGE,
    HISTOGRAM,
    KEYS,
    METRICS,
    PAGE_WORDS,
    PLACES,
    WORDS,
)

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_names_follow_prometheus(metric):
    """Names are Prometheus': base units, and _total for counts; the help is a sentence, on one line."""
    assert re.fullmatch("(aserve|process)(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert metric.kind in (COUNTER, GAUGE, HISTOGRAM)
    assert metric.help.endswith(".") and "\n" not in metric.help
    if metric.kind == HISTOGRAM:
        assert metric.name.endswith("_seconds") and len(metric.cells) == 1


def test_places_do_not_overlap():
    """Each metric has its own words, and all fit into a page behind the older fields."""
    taken = [PLACES[metric.name] + index for metric in COUNTED for index in range(metric.width)]
    assert taken == list(range(WORDS))
    assert max(Field) < FIRST_WORD and PAGE_WORDS <= PAGE_BYTES // WORD_BYTES


def test_keys_name_each_word():
    assert sorted(KEYS.values()) == [
        PLACES[metric.name] + index for metric in COUNTED if metric.kind != GAUGE for index in range(metric.width)
    ]
    assert KEYS['aserve_requests_total status="2xx",end="cut"'] == PLACES["aserve_requests_total"] + 5


def test_bounds_double_from_a_millisecond():
    assert BOUNDS[0] == 0.001 and BOUNDS[-1] > 60 and len(BOUNDS) == BUCKETS
    assert all(high == 2 * low for low, high in zip(BOUNDS, BOUNDS[1:]))


def test_gauges_are_written():
    """Each cell of a gauge has its number, but constant ones."""
    for metric in COUNTED:
        if metric.kind == GAUGE and metric.name != "aserve_threads_limit":
            assert len(metric.reads) == len(metric.cells)
