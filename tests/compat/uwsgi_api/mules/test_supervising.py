"""The processes of mules, in a supervisor's view."""

import sys

import pytest

from aserve.compat.uwsgi_api import memory as memory_module
from aserve.compat.uwsgi_api.mules.post import inherited
from aserve.compat.uwsgi_api.mules.supervising import Mules
from aserve.features import Config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mules need Linux")


def test_no_mules_mean_no_program(open_post):
    assert Mules(["aserve"]).programs(Config()) == []


def test_each_has_its_number(post, memory, monkeypatch):
    """By a variable; a mule inherits the memory and all queues, and may run without a limit."""
    monkeypatch.setattr(memory_module, "_memory", memory)
    one, two = Mules(["python", "-m", "aserve"]).programs(Config())
    assert [program.name for program in (one, two)] == ["mule", "mule-2"] and one.words == ("python", "-m", "aserve")
    number, fd, found = inherited(two.own.variables()["ASERVE_IS_MULE"])
    assert (number, fd, found.queues) == (2, memory.fd, post.queues)
    assert two.own.fds == [memory.fd, *post.fds] and not two.own.may_end and two.own.overdue() == ""
    two.own.on_end()
