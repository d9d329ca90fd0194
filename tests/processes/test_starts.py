"""A start that is due: the role of a child that is forked here, and the fault that it is to show."""

from __future__ import annotations

import os
import signal
import types

import pytest
from harness.supervising import COMMAND

from aserve.core.page import MOLD
from aserve.features import Config, supervised_of
from aserve.processes import molds
from aserve.processes.plan import Plan
from aserve.processes.site import Site
from aserve.processes.supervisor import Supervisor


@pytest.mark.parametrize("preload", [False, True])
def test_in_a_child(monkeypatch, tmp_path, preload):
    """What run returns there: who it is, with what it needs, and nothing of the supervisor's is left; this process is that child."""
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(molds, "lib", types.SimpleNamespace(subreaper_begin=lambda: 0))
    before = signal.getsignal(signal.SIGTERM)
    plan = Plan(Config(workers=2, preload=preload, control=str(tmp_path / "control")), None)
    role = Supervisor(Site(plan, lambda before: plan, (), COMMAND, supervised_of(plan.config).supervise)).run()
    assert (role.slot, role.name) == ((MOLD, "the mold") if preload else (1, "worker 1"))
    assert role.plan is plan and role.supervisor_pid == os.getppid() and role.pages is not None
    assert (role.load_board is None) == preload and signal.getsignal(signal.SIGTERM) == before
    role.channel.close()
    assert (tmp_path / "control").exists()  # the parent answers there
