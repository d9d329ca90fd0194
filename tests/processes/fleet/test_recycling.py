"""Workers at the end of their time, and the reasons told."""

import random

import pytest

from aserve.core.footprint import Memory
from aserve.features import Config
from aserve.processes.fleet.recycling import Due, Lifespan, Recycling, WorkerFacts

MIB = 1 << 20
FRESH = WorkerFacts(1, Lifespan(), 0, 0.0)


def recycling(**settings):
    return Recycling(Config(workers=1, **settings), random.Random(1))


def test_by_default_nobody_is_replaced():
    """Without a limit any worker may go on."""
    old = WorkerFacts(1, recycling().new_lifespan(), 10**9, 1e9, Memory(1 << 40, 1 << 40, 1 << 40))
    assert recycling().due([old]) is None
    assert not recycling().needs_memory and not recycling().needs_shares


@pytest.mark.parametrize(
    ("name", "needs_memory", "needs_shares"),
    [
        ("max_rss_bytes", True, False),
        ("max_pss_bytes", True, True),
        ("max_uss_bytes", True, True),
        ("max_requests", False, False),
    ],
)
def test_what_must_be_looked_at(name, needs_memory, needs_shares):
    """Memory is read only where a limit asks for it, and costly memory only for its own limit."""
    found = recycling(**{name: 1000})
    assert (found.needs_memory, found.needs_shares) == (needs_memory, needs_shares)


@pytest.mark.parametrize(
    ("settings", "below", "reached", "why"),
    [
        (
            {"max_requests": 1000},
            {"requests": 999},
            {"requests": 1000},
            "it has answered 1000 requests (--max-requests 1000)",
        ),
        (
            {"max_lifetime_seconds": 3600},
            {"age_seconds": 3599.9},
            {"age_seconds": 3601.2},
            "it has served for 3601 s (--max-lifetime 3600)",
        ),
        (
            {"max_rss_bytes": "100M"},
            {"memory": Memory(100 * MIB - 1)},
            {"memory": Memory(101 * MIB)},
            "its RSS is 101.0 MiB (--max-rss 100MiB)",
        ),
        (
            {"max_pss_bytes": "100M"},
            {"memory": Memory(300 * MIB, 99 * MIB, 1)},
            {"memory": Memory(300 * MIB, 100 * MIB, 1)},
            "its PSS is 100.0 MiB (--max-pss 100MiB)",
        ),
        (
            {"max_uss_bytes": "100M"},
            {"memory": Memory(300 * MIB, 200 * MIB, 99 * MIB)},
            {"memory": Memory(300 * MIB, 200 * MIB, 130 * MIB)},
            "its USS is 130.0 MiB (--max-uss 100MiB)",
        ),
        ({"max_uss_bytes": "100M"}, {"memory": None}, {"memory": Memory(1, 1, 1 << 40)}, "its USS is 1048576.0 MiB (--max-uss 100MiB)"),
    ],
)  # fmt: skip
def test_each_limit_is_told_with_its_setting(settings, below, reached, why):
    """From its limit on a worker is due; the reason has the value reached, and the setting."""
    found = recycling(**settings)
    worker = FRESH._replace(lifespan=found.new_lifespan())
    assert found.due([worker._replace(**below)]) is None
    assert found.due([worker._replace(**reached)]) == Due(1, why)


def test_memory_that_was_not_looked_at():
    """Unknown PSS and USS are beyond no limit."""
    assert recycling(max_pss_bytes=1).due([FRESH._replace(memory=Memory(1 << 40))]) is None


def test_jitter_gives_each_worker_its_limits():
    """Each worker has limits of its own, from the setting up to the jitter beyond, and they are told."""
    found = recycling(max_requests=100, max_requests_jitter=3, max_lifetime_seconds=50, max_lifetime_jitter_seconds=10)
    drawn = [found.new_lifespan() for _ in range(200)]
    assert {lifespan.requests for lifespan in drawn} == {100, 101, 102, 103}
    assert all(50 <= lifespan.seconds <= 60 for lifespan in drawn)
    assert len({lifespan.seconds for lifespan in drawn}) > 100
    worker = WorkerFacts(1, Lifespan(102, 53.5), 102, 0.0)
    assert found.due([worker]) == Due(1, "it has answered 102 requests (--max-requests 100, with jitter 102)")
    worker = WorkerFacts(1, Lifespan(102, 53.5), 0, 53.7)
    assert found.due([worker]) == Due(1, "it has served for 54 s (--max-lifetime 50, with jitter 53.5)")


def test_jitter_is_of_chance():
    """Two supervisors do not draw the same."""
    config = Config(workers=1, max_lifetime_seconds=50, max_lifetime_jitter_seconds=10)
    assert Recycling(config).new_lifespan() != Recycling(config).new_lifespan()


def test_the_worst_is_next():
    """Of several the one furthest beyond any of its limits is named."""
    found = recycling(max_requests=100, max_rss_bytes=100 * MIB)
    lifespan = found.new_lifespan()
    workers = [
        WorkerFacts(1, lifespan, 150, 0.0),
        WorkerFacts(2, lifespan, 99, 0.0, Memory(300 * MIB)),
        WorkerFacts(3, lifespan, 180, 0.0, Memory(200 * MIB)),
        WorkerFacts(4, lifespan, 50, 0.0, Memory(50 * MIB)),
    ]
    assert found.due(workers).slot == 2
    assert found.due([*workers[:1], *workers[2:]]).slot == 3
    assert found.due(workers[:1]).slot == 1
    assert found.due(workers[3:]) is None
