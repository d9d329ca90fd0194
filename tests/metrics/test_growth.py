"""Memory that grows and grows; what only goes up and down does not."""

from __future__ import annotations

import pytest

from aserve.core.footprint import Memory
from aserve.metrics.growth import SAMPLES, Growth

MIB = 1 << 20


def growth_of(*spans, peak=500):
    """Return what is found of a process that took at least so many MiB in each ten minutes, and for a minute far more."""
    growth = Growth()
    for least in spans:
        for minute in range(SAMPLES):
            growth.add(None)
            growth.add(Memory((least if minute == 3 else peak) * MIB))
    return growth.describe()


def test_a_leak():
    """Of the last forty minutes it is said from how much to how much."""
    assert growth_of(50, 100, 110, 130, 150) == {"from_bytes": 100 * MIB, "to_bytes": 150 * MIB, "minutes": 40}
    assert growth_of(50, 60, 100, 110, 130, 150)["from_bytes"] == 100 * MIB


@pytest.mark.parametrize(
    "spans",
    [(), (50, 100, 120, 140), (50, 100, 120, 119, 150), (50, 100, 120, 121, 150), (50, 100, 105, 110, 119), (9, 10, 20, 30, 40)],
)  # fmt: skip
def test_none(spans):
    """It has not been looked at for long enough, gives back what it takes, stands still, or grows by little."""
    assert growth_of(*spans) is None
