"""A process's counts and answers: by its own memory or its supervisor's."""

import asyncio
import mmap
import types

import pytest
from harness.extensions import new_context, new_exchange

from aserve.connections.monitoring.statistics import Statistics
from aserve.core import error_log
from aserve.core.errors import BindError, RequestRefused
from aserve.extension import Extensions, Life, LifeContext
from aserve.features import Config, extensions_of
from aserve.features.metrics import AgentCheck, Metrics
from aserve.features.metrics.counting import read_words
from aserve.features.metrics.table import PAGE_WORDS, PLACES
from aserve.lifecycle.supervision import SupervisorContext
from aserve.processes.fleet.plan import Plan
from aserve.workers.busy import Busy
from aserve.workers.inline import InlineExecutor

NOTHING = Statistics(*[0] * len(Statistics._fields))


def new_memory():
    return mmap.mmap(-1, PAGE_WORDS * 8)


def start(statistics=NOTHING, counters=None, **settings):
    """Return the extensions of a server with such settings and statistics, and their addresses."""
    config, extensions, bound = Config(**settings), extensions_of(Config(**settings)), []
    server = types.SimpleNamespace(config=config, statistics=lambda: statistics)
    busy = Busy(1)
    busy.look(50.0, 0, 0, counted_seconds=3.0)
    loop = asyncio.get_running_loop()
    context = new_context(server, loop=loop, busy=busy, counters=counters, bound=bound, ask=extensions.ask)
    extensions.start(context)
    return extensions, bound


def memory_of(extensions):
    (memory,) = [one.memory for one in extensions._all if type(one) is Metrics]
    return memory


async def test_counters_of_a_worker(monkeypatch):
    """Counts are in the given memory, and the worker listens nowhere: its supervisor does."""
    memory = new_memory()
    extensions, bound = start(NOTHING._replace(connections_running=4), memory, metrics="127.0.0.1:1")
    assert extensions.wants_times and bound == [] and extensions.ask("counted") is None
    monkeypatch.setattr(error_log, "lost_lines", lambda: 5)
    extensions.on_second()
    assert read_words(memory)[PLACES["aserve_requests_in_flight"]] == 4
    assert read_words(memory)[PLACES["aserve_threads_busy_seconds_total"]] == 3_000_000
    assert read_words(memory)[PLACES["aserve_error_log_lines_lost_total"]] == 5
    ends = extensions.new_ends(InlineExecutor())
    ends.write_refused(None, None, RequestRefused(400, "why"))
    assert read_words(memory)[PLACES["aserve_requests_refused_total"]] == 1 and ends.parts[6] is not None
    extensions.stop()


async def test_one_process_with_a_log(tmp_path):
    """Both hear of waiting lines at the end, the listener's address is known, and the end closes all."""
    extensions, bound = start(metrics=f"unix:{tmp_path}/m", access_log=str(tmp_path / "log"))
    assert len(bound) == 1 and extensions.ask("counted")[0]["minute"]["requests"] == 0
    executor = InlineExecutor()
    ends = extensions.new_ends(executor)
    executor.jobs.append((print, "a job"))
    ends.write(new_exchange())
    memory, count = memory_of(extensions), PLACES["aserve_response_body_bytes_total"]
    assert not sum(read_words(memory)[:count])
    ends.flush()
    extensions.on_second()
    assert sum(read_words(memory)[:count]) == 1
    ends.write(new_exchange())
    ends.flush()
    extensions.stop()
    assert (tmp_path / "log").read_text().count("10.0.0.1") == 2
    assert not (tmp_path / "m").exists()
    extensions.stop()


async def test_lines_that_are_lost(tmp_path):
    memory, extensions = new_memory(), Extensions([metrics := Metrics(Config(metrics="127.0.0.1:1"))])
    server = types.SimpleNamespace(config=metrics._config, statistics=lambda: NOTHING)
    lost = {"access_log_lines_lost": 7}
    extensions.start(new_context(server, counters=memory, ask=lost.get))
    extensions.on_second()
    assert read_words(memory)[PLACES["aserve_access_log_lines_lost_total"]] == 7
    extensions.stop()


async def test_stats_count_too(tmp_path):
    extensions, bound = start(stats=f"unix:{tmp_path}/s")
    assert extensions.wants_times and len(bound) == 1
    extensions.stop()


async def test_an_address_that_cannot_be(tmp_path):
    """The log is closed again; the address is named."""
    with pytest.raises(BindError, match="no/m"):
        start(metrics=f"unix:{tmp_path}/no/m", access_log=str(tmp_path / "log"))


async def test_what_cannot_be_counted(tmp_path, monkeypatch):
    """Then nothing listens any more."""
    monkeypatch.setattr("aserve.features.metrics.gil.GilWatch.start", lambda watch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        start(metrics=f"unix:{tmp_path}/m")
    assert not (tmp_path / "m").exists()


async def test_balancers_alone_need_no_counts(tmp_path):
    """Where only a weight is asked for, nothing is counted, and no times are taken."""
    path = f"unix:{tmp_path}/a"
    extensions, bound = start(agent_check=path)
    assert extensions.new_ends(InlineExecutor()) is None and not extensions.wants_times and len(bound) == 1
    extensions.on_second()
    assert extensions.ask("counted") is None
    extensions.stop()
    extensions, bound = start(counters=new_memory(), agent_check=path)  # a worker: its supervisor answers
    assert bound == []
    extensions.on_second()
    extensions.stop()


async def test_in_a_worker(monkeypatch):
    """The app's counts are read at the supervisor's word; without a supervisor, there is no word."""
    asked = []
    monkeypatch.setattr("aserve.features.metrics.app.AppMetrics.answer", lambda app: asked.append("read"))
    for say in (None, print):
        extensions = Extensions([Metrics(Config(metrics="127.0.0.1:1"))])
        extensions.start(new_context(counters=new_memory(), say=say, loop=asyncio.get_running_loop()))
        extensions.obey("read app")
        extensions.stop()
    assert asked == ["read"]


@pytest.mark.parametrize(("kind", "setting"), [(Metrics, "metrics"), (AgentCheck, "agent_check")])
def test_in_a_supervisor(tmp_path, kind, setting):
    """The supervisor listens, and answers for the workers."""
    extensions = Extensions([kind(config := Config(**{setting: f"unix:{tmp_path}/m"}))])
    observed = types.SimpleNamespace(statuses=types.SimpleNamespace(describe=dict), config=config)
    watched = []
    context = SupervisorContext(observed, {}, lambda *what: watched.append(what), None, extensions.bind())
    (several,) = extensions.supervise(context)
    assert len(watched) == 1 and (tmp_path / "m").exists()
    several.close(is_end=False)
    several.exporter.scrapes = None
    for listener in context.bound:
        listener.close()


def test_the_life_of_a_process(monkeypatch):
    """Imports of a process that may not read them later; the place of a child's counts, and a trial's leavings."""
    entered, left = [], []
    monkeypatch.setattr("aserve.features.metrics.app_files.enter", lambda *what: entered.append(what))
    monkeypatch.setattr("aserve.features.metrics.app_files.leave", lambda: left.append(1))
    for workers in (None, 2):
        metrics = Metrics(config := Config(metrics="127.0.0.1:1", workers=workers))
        plan = Plan(config, None)
        for event in (Life.STARTS, Life.IMPORTS):
            metrics.on_life(event, LifeContext(plan, environ={}))
    assert entered == left == []
    metrics.on_life(Life.IMPORTS, LifeContext(plan, "a role", environ={}))
    metrics.on_life(Life.FORKED, LifeContext(plan, "another", environ={}))
    metrics.on_life(Life.IMPORTED, LifeContext(plan, "another", environ={}))
    metrics.on_life(Life.IMPORTS, LifeContext(plan, "of a program without an environment of its own"))
    assert [role for role, _ in entered] == ["a role", "another"] and left == []
    metrics.on_life(Life.ENDS, LifeContext(plan, "another"))
    assert len(entered) == 2 and left == [1]


def test_which_is_on():
    """At most one of both is on."""
    assert not Metrics.is_on(Config()) and not AgentCheck.is_on(Config())
    both = Config(metrics="127.0.0.1:1", agent_check="127.0.0.1:2")
    assert Metrics.is_on(both) and not AgentCheck.is_on(both)
