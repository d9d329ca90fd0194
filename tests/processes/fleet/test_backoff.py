"""Delays between tries."""

import pytest

from aserve.processes.fleet.backoff import CALM_SECONDS, Backoff


def test_delays_double_up_to_a_limit():
    """From a tenth of a second on, up to half a minute."""
    backoff = Backoff()
    assert backoff.due_at == 0
    delays = [backoff.fail(1000.0) for _ in range(11)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert backoff.due_at == 1030.0


@pytest.mark.parametrize(("seconds", "delay"), [(0.5, 0.4), (CALM_SECONDS, 0.1)])
def test_who_has_served_long_enough_begins_anew(seconds, delay):
    """A worker that ends soon after its start continues the last delays."""
    backoff = Backoff()
    backoff.fail(0.0)
    backoff.fail(0.0)
    backoff.succeed(seconds)
    assert backoff.fail(0.0) == delay


def test_who_has_begun_well_hardly_waits():
    """Only the first time; then the delays are the usual ones."""
    backoff = Backoff()
    assert [backoff.fail_later(7.0) for _ in range(3)] == [0.01, 0.1, 0.2]
    backoff.succeed(CALM_SECONDS)
    assert backoff.fail_later(7.0) == 0.01 and backoff.due_at == 7.01
    assert backoff.fail(7.0) == 0.1


def test_a_reset_allows_a_try_at_once():
    """Repaired code is tried at once."""
    backoff = Backoff()
    backoff.fail(5.0)
    backoff.reset()
    assert backoff.due_at == 0 and backoff.fail(5.0) == 0.1
