"""A supervisor's counts."""

import pytest

from aserve.core.tally import CELLS, RELOADS, RESTARTS, Tally
from aserve.features.metrics.table import SUPERVISED


def lines(tally):
    """Return its numbers but zeros, in Prometheus' form."""
    return [f"{name}{{{cell}}} {count}" for name, cell, count in tally if count]


def test_restarts_count_by_their_reason():
    """A restart counts by its expected reason, or its own, or else as a reload."""
    tally = Tally()
    assert lines(tally) == []
    tally.expect_restart(1, "recycle")
    tally.expect_restart(2, "hung")
    for slot, reason in ((1, ""), (1, ""), (2, "crash"), (3, "")):
        tally.count_restart(slot, reason)
    assert lines(tally) == [
        f'{RESTARTS}{{reason="{reason}"}} {count}' for reason, count in (("crash", 1), ("recycle", 1), ("reload", 2))
    ]


def test_other_code_goes_on_with_the_numbers():
    tally, again = Tally(), Tally()
    tally.count(RELOADS, 'result="done"')
    again.count(RELOADS, 'result="done"')
    again.restore({**tally.describe(), "gone": 7})
    assert lines(again) == [f'{RELOADS}{{result="done"}} 2']


def test_what_is_not_in_the_table():
    with pytest.raises(KeyError):
        Tally().count("aserve_unknown_total")


def test_each_has_a_metric():
    """Metrics tell a supervisor's counts, in the same order."""
    assert [(metric.name, tuple(metric.cells)) for metric in SUPERVISED] == [*CELLS.items()]
