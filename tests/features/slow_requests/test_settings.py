"""The settings of reports of slow requests."""

from aserve.features import Config, supervised_of
from aserve.features.slow_requests import Slow
from aserve.features.slow_requests.settings import SlowRequestSettings


def test_a_reload_may_turn_it_on():
    """So a supervisor has its part from the start, and the row may change."""
    (row,) = [row for row in SlowRequestSettings.rows() if row.name == "slow_request_seconds"]
    assert not row.fixed and Config(slow_request_seconds="2s").slow_request_seconds == 2.0
    assert Slow in [type(one) for one in supervised_of(Config())._all]
