"""What workers are started for."""

from __future__ import annotations

import pytest

from aserve.features import Config
from aserve.processes.fleet import plan as plan_module
from aserve.processes.fleet.plan import Plan
from aserve.processes.fleet.resources import Limits


def test_what_cannot_change():
    """Where it listens stays as it is, and is named; everything else is as it was read."""
    before = Plan(Config(workers=1, bind=":1", backlog=3, pid_file="a"), "a:app")
    plan, flags = Plan(Config(workers=2, bind=":2", backlog=3, threads=5, pid_file="b"), "b:app").keep_fixed(before)
    assert plan == Plan(Config(workers=2, bind=":1", backlog=3, threads=5, pid_file="a"), "b:app")
    assert flags == ["--bind", "--pid-file"]
    assert before.keep_fixed(before) == (before, [])


def read(**values):
    """Return the plan of sources that give these values."""
    return Plan(Config.of_given(values, is_at_terminal=True), None, given=frozenset(values), is_at_terminal=True)


def test_what_a_fixed_setting_would_imply():
    """A --reload that comes too late implies nothing, and one that is to go implies the same as before."""
    without, with_it = read(workers=2), read(reload=True)
    plan, flags = read(workers=2, reload=True, backlog=7, threads=5).keep_fixed(without)
    assert flags == ["--backlog", "--reload"] and plan.config == without.config.replace(threads=5)
    plan, flags = read(threads=5).keep_fixed(with_it)
    assert flags == ["--reload"] and plan.config == with_it.config.replace(threads=5)
    assert plan.config.workers == 1 and plan.config.access_log == "-"


def test_what_its_sources_were():
    """Not those of settings that are kept from before: the next reload names these once more."""
    before = Plan(Config(workers=1, backlog=3), "a:app", sources="old")
    for settings, sources in (({"backlog": 3}, "new"), ({"backlog": 4}, None)):
        given = Plan(Config(workers=1, **settings), "a:app", given=frozenset(settings), sources="new")
        plan, flags = given.keep_fixed(before)
        assert plan.sources == sources and bool(flags) == (sources is None)
    again = before._replace(spec="b:app")
    assert again.keep_fixed(before) == (again, [])


@pytest.mark.parametrize("workers", [1, 7])
def test_a_number(workers):
    """So many workers as were asked for."""
    assert Plan(Config(workers=workers), None).workers == (workers, f"--workers {workers}")


def test_auto(monkeypatch):
    """As many as the machine has room for, and what has decided that."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: Limits(cpus=4, cpu_quota=2.5))
    assert Plan(Config(workers="auto"), None).workers == (3, "--workers auto: CPU quota: 2.5")


def test_auto_by_memory(monkeypatch):
    """What one worker takes is known when the first is ready; before that, memory decides nothing."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: Limits(cpus=8, memory_bytes=1 << 30))
    plan = Plan(Config(workers="auto"), None)
    assert plan.workers[0] == 8
    assert plan.count_workers(256 << 20) == (3, "--workers auto: memory: 1GiB, and a worker takes 256MiB")
