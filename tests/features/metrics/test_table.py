"""The table of metrics: names, places and help."""

from __future__ import annotations

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
def test_names(metric):
    """As Prometheus has them: base units, and _total for what is counted; the help is a sentence, on one line."""
    assert re.fullmatch("(aserve|process)(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert metric.kind in (COUNTER, GAUGE, HISTOGRAM)
    assert metric.help.endswith(".") and "\n" not in metric.help
    if metric.kind == HISTOGRAM:
        assert metric.name.endswith("_seconds") and len(metric.cells) == 1


def test_places():
    """Each has its own words, and all fit into a page behind what was there before."""
    taken = [PLACES[metric.name] + index for metric in COUNTED for index in range(metric.width)]
    assert taken == list(range(WORDS))
    assert max(Field) < FIRST_WORD and PAGE_WORDS <= PAGE_BYTES // WORD_BYTES


def test_keys():
    """What must not be forgotten has a name of its own for each word."""
    assert sorted(KEYS.values()) == [
        PLACES[metric.name] + index for metric in COUNTED if metric.kind != GAUGE for index in range(metric.width)
    ]
    assert KEYS['aserve_requests_total status="2xx",end="cut"'] == PLACES["aserve_requests_total"] + 5


def test_bounds():
    """From a millisecond to more than a minute, each twice the one before."""
    assert BOUNDS[0] == 0.001 and BOUNDS[-1] > 60 and len(BOUNDS) == BUCKETS
    assert all(high == 2 * low for low, high in zip(BOUNDS, BOUNDS[1:]))


def test_gauges_are_written():
    """Each cell of a gauge has its number, but one that never changes."""
    for metric in COUNTED:
        if metric.kind == GAUGE and metric.name != "aserve_threads_limit":
            assert len(metric.reads) == len(metric.cells)
