"""Memory that grows and grows; rises and falls do not count."""

import pytest

from aserve.core import growth as module
from aserve.core.footprint import Memory
from aserve.core.growth import SAMPLES, Growth, Growths
from aserve.core.page import Process

MIB = 1 << 20


def growth_of(*spans, peak=500):
    """Return the growth of a process with at least so many MiB in each ten minutes, and for a minute far more."""
    growth = Growth()
    for least in spans:
        for minute in range(SAMPLES):
            growth.add(None)
            growth.add(Memory((least if minute == 3 else peak) * MIB))
    return growth.describe()


def test_a_leak_is_told_over_forty_minutes():
    assert growth_of(50, 100, 110, 130, 150) == {"from_bytes": 100 * MIB, "to_bytes": 150 * MIB, "minutes": 40}
    assert growth_of(50, 60, 100, 110, 130, 150)["from_bytes"] == 100 * MIB
    assert growth_of(50, 200, 202, 230, 240)["to_bytes"] == 240 * MIB  # just enough in a step, and in all


@pytest.mark.parametrize(
    "spans",
    [(), (50, 100, 120, 140), (50, 100, 120, 119, 150), (50, 100, 120, 121, 150), (50, 100, 105, 110, 119), (9, 10, 20, 30, 40)],
)  # fmt: skip
def test_no_leak_without_steady_growth(spans):
    """A short look, returned memory, a standstill, or little growth is no leak."""
    assert growth_of(*spans) is None


def test_several_processes_are_looked_at_apart(monkeypatch):
    """Each process has its own; a former server is forgotten, and the next owner of its number begins anew."""
    one = Process(1, 4321, 7, "ready", 0.0, (), False, list, float)
    looks = []
    monkeypatch.setattr(module, "memory_of", lambda pid: Memory(len(looks) << 24) if not looks.append(pid) else None)
    growths = Growths()
    assert growths.describe(one) is None
    for _ in range(50):
        growths.look([one, one._replace(slot=2, pid=5)])
    assert looks == [4321, 5] * 50 and growths.describe(one)["minutes"] == 40
    assert growths.describe(one._replace(generation=8)) is None
    growths.look([one._replace(generation=8)])
    assert growths.describe(one) is None
