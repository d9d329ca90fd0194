"""How many threads are busy: a mean of ten seconds, from requests' times or from looks."""

import pytest

from aserve.workers.busy import Busy


def test_nothing_yet_means_none_busy():
    busy = Busy(4)
    assert (busy.mean, busy.seconds) == (0.0, 0.0)
    busy.look(50.0, 4, 0)
    assert (busy.mean, busy.seconds) == (0.0, 0.0)


def test_looks_stand_for_the_time_before():
    busy = Busy(4)
    for second, count in enumerate((0, *[3, 0] * 10)):
        busy.look(50.0 + second, count, 0)
    assert (busy.mean, busy.seconds) == (1.5, 30.0)
    busy.look(72.0, 0, 0)  # a second late
    assert busy.mean == pytest.approx(12 / 11) and busy.seconds == 30.0


def test_a_server_that_has_just_started():
    """What was before the start counts as idle."""
    busy = Busy(4)
    for second in range(3):
        busy.look(50.0 + second, 4, 0)
    assert busy.mean == 0.8


def test_times_of_requests():
    """They count, also where no look has found a thread busy."""
    busy = Busy(16)
    for second in range(12):
        busy.look(50.0 + second, 0, 0, counted_seconds=9.5 * second)
    assert busy.mean == pytest.approx(9.5) and busy.seconds == 9.5 * 11


def test_never_more_than_there_are():
    """A batch that ends late may bring the time of two seconds into one."""
    busy = Busy(2)
    for second, counted in enumerate((0.0, 30.0)):
        busy.look(50.0 + second, 2, 0, counted_seconds=counted)
    assert busy.mean == 2


def test_the_counter_never_falls():
    """What has ended and is not counted yet is missing for a moment."""
    busy = Busy(2)
    for second, counted in enumerate((5.0, 4.0, 6.5)):
        busy.look(50.0 + second, 2, 0, counted_seconds=counted)
        assert busy.seconds == max(counted, 5.0)


def test_compensated_threads_are_not_among_them():
    """Theirs are the slots of others."""
    busy = Busy(2)
    for second in range(11):
        busy.look(50.0 + second, 1, 3, counted_seconds=4.0 * second)
    assert busy.mean == 1.0
