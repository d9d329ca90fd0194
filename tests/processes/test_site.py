"""A supervisor's given parts."""

from harness.supervising import COMMAND

from aserve.features import Config
from aserve.processes.fleet.plan import Plan
from aserve.processes.site import Site


def test_without_extensions_none_is_called():
    plan = Plan(Config(workers=1), None)
    site = Site(plan, lambda before: plan, (), COMMAND)
    assert site.supervise(None) == () and site.on_life(None, None) is None
