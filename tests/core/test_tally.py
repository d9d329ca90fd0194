"""What a supervisor counts."""

from __future__ import annotations

import pytest

from aserve.core.tally import CELLS, RELOADS, RESTARTS, Tally
from aserve.features.metrics.table import SUPERVISED


def lines(tally):
    """Return its numbers that are not 0, as Prometheus reads them."""
    return [f"{name}{{{cell}}} {count}" for name, cell, count in tally if count]


def test_restarts():
    """A worker is replaced for the reason that was expected, or its own, or else by a reload."""
    tally = Tally()
    assert lines(tally) == []
    tally.expect_restart(1, "recycle")
    tally.expect_restart(2, "hung")
    for slot, reason in ((1, ""), (1, ""), (2, "crash"), (3, "")):
        tally.count_restart(slot, reason)
    assert lines(tally) == [
        f'{RESTARTS}{{reason="{reason}"}} {count}' for reason, count in (("crash", 1), ("recycle", 1), ("reload", 2))
    ]


def test_other_code():
    """It goes on with the numbers of before, and drops what it does not know."""
    tally, again = Tally(), Tally()
    tally.count(RELOADS, 'result="done"')
    again.count(RELOADS, 'result="done"')
    again.restore({**tally.describe(), "gone": 7})
    assert lines(again) == [f'{RELOADS}{{result="done"}} 2']


def test_what_is_not_in_the_table():
    """A name that nobody would find is a bug."""
    with pytest.raises(KeyError):
        Tally().count("aserve_unknown_total")


def test_each_has_a_metric():
    """What a supervisor counts is told by metrics, in the same order."""
    assert [(metric.name, tuple(metric.cells)) for metric in SUPERVISED] == [*CELLS.items()]
