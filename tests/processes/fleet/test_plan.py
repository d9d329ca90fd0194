"""The plan of a worker's start."""

import pytest

from aserve.features import Config
from aserve.processes.fleet import plan as plan_module
from aserve.processes.fleet.plan import Plan
from aserve.processes.fleet.resources import Limits


def test_what_cannot_change():
    """A changed address stays as it was, and is named; all other settings are read anew."""
    before = Plan(Config(workers=1, bind=":1", backlog=3, pid_file="a"), "a:app")
    plan, flags = Plan(Config(workers=2, bind=":2", backlog=3, threads=5, pid_file="b"), "b:app").keep_fixed(before)
    assert plan == Plan(Config(workers=2, bind=":1", backlog=3, threads=5, pid_file="a"), "b:app")
    assert flags == ["--bind", "--pid-file"]
    assert before.keep_fixed(before) == (before, [])


def read(**values):
    """Return the plan of sources with these values."""
    return Plan(Config.of_given(values, is_at_terminal=True), None, given=frozenset(values), is_at_terminal=True)


def test_what_a_fixed_setting_would_imply():
    """A --reload too late implies nothing, and a removed one implies the same as before."""
    without, with_it = read(workers=2), read(reload=True)
    plan, flags = read(workers=2, reload=True, backlog=7, threads=5).keep_fixed(without)
    assert flags == ["--backlog", "--reload"] and plan.config == without.config.replace(threads=5)
    plan, flags = read(threads=5).keep_fixed(with_it)
    assert flags == ["--reload"] and plan.config == with_it.config.replace(threads=5)
    assert plan.config.workers == 1 and plan.config.access_log == "-"


def test_what_its_sources_were():
    """Kept settings have their old sources: the next reload names them once more."""
    before = Plan(Config(workers=1, backlog=3), "a:app", sources="old")
    for settings, sources in (({"backlog": 3}, "new"), ({"backlog": 4}, None)):
        given = Plan(Config(workers=1, **settings), "a:app", given=frozenset(settings), sources="new")
        plan, flags = given.keep_fixed(before)
        assert plan.sources == sources and bool(flags) == (sources is None)
    again = before._replace(spec="b:app")
    assert again.keep_fixed(before) == (again, [])


@pytest.mark.parametrize("workers", [1, 7])
def test_a_number_of_workers_is_obeyed(workers):
    assert Plan(Config(workers=workers), None).workers == (workers, f"--workers {workers}")


def test_auto_follows_the_machine(monkeypatch):
    """As many workers as the machine has room for, with the deciding limit."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: Limits(cpus=4, cpu_quota=2.5))
    assert Plan(Config(workers="auto"), None).workers == (3, "--workers auto: CPU quota: 2.5")


def test_auto_by_memory(monkeypatch):
    """A worker's size is known when the first is ready; before, memory decides nothing."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: Limits(cpus=8, memory_bytes=1 << 30))
    plan = Plan(Config(workers="auto"), None)
    assert plan.workers[0] == 8
    assert plan.count_workers(256 << 20) == (3, "--workers auto: memory: 1GiB, and a worker takes 256MiB")
