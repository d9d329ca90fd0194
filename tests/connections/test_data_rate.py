"""The rate of a client, second by second."""

import pytest

from aserve.connections.data_rate import BODY_TOO_LATE, TOO_SLOW, DataRate, why_overdue
from aserve.core.body import BufferedBody
from aserve.settings import EngineSettings


@pytest.mark.parametrize(
    ("counts", "slow"),
    [
        ([0, 10, 20, 30, 40, 50, 60, 70], []),  # just the rate
        ([0, 9, 18, 27, 36, 45, 54, 63], [3, 6]),  # below it: at the end of each window
        ([0, 0, 0, 30, 30, 30, 60, 60], []),  # pauses within a window do no harm
        ([1000, 1000, 1000, 1000], [3]),  # octets before the first look do not count
        ([0, 1000, 1000, 1000, 1000, 1000, 1000], [6]),  # to have been fast does not help for ever
    ],
)
def test_windows_measure_ten_octets_a_second(counts, slow):
    rate, one = DataRate(), object()
    assert [at for at, count in enumerate(counts) if rate.is_slow(one, count, 2.0, 10)] == slow


def test_another_begins_anew():
    """The next body has its own window."""
    rate, one, two = DataRate(), object(), object()
    assert not any(rate.is_slow(one, 0, 1.5, 10) for _ in range(2))
    assert not any(rate.is_slow(two, 0, 1.5, 10) for _ in range(2))
    assert rate.is_slow(two, 0, 1.5, 10)


@pytest.mark.parametrize(
    ("min_rate", "quiet", "whys"),
    [
        (10, 2.0, ["", "", "", TOO_SLOW]),
        (0, 2.0, ["", "", "", ""]),
        (10, 2.1, [BODY_TOO_LATE] * 4),
    ],
)
def test_why_a_body_is_refused(min_rate, quiet, whys):
    """A body in arrival is refused after a pause, or at the end of a slow window; without a rate the pause alone counts."""
    body, rate, config = BufferedBody(1, False), DataRate(), EngineSettings(min_rate_bytes=min_rate, body_seconds=2.0)
    assert [why_overdue(body, rate, quiet, config) for _ in whys] == whys
