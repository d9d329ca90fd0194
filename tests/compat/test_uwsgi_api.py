"""`import uwsgi` as an extension: the time of the module, and the facts of each process."""

import logging

import pytest

from aserve.compat import uwsgi_api
from aserve.compat.uwsgi_api import UwsgiModule, memory
from aserve.compat.uwsgi_api import module as uwsgi
from aserve.compat.uwsgi_api.mules import post
from aserve.compat.uwsgi_api.supervising import Counts
from aserve.core.page import MOLD, TRIAL
from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.processes.children.role import Role
from aserve.processes.fleet.plan import Plan


@pytest.fixture
def installed(monkeypatch):
    """Return the installed parts and the made memory, without doing so."""
    found = ([], [])
    monkeypatch.setattr(uwsgi, "install", found[0].append)
    monkeypatch.setattr(memory, "share", lambda *what: found[1].append(what))
    return found


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({}, False),
        ({"bind": "uwsgi://:0"}, True),
        ({"route": "^/rpc rpc f"}, True),
        ({"uwsgi_cache": "items=3"}, True),
        ({"spooler": "jobs", "workers": 1}, True),
        ({"uwsgi_mule": "-", "workers": 1}, True),
        ({"uwsgi_queue": "items=3"}, True),
        ({"uwsgi_sharedarea": "4k"}, True),
        ({"uwsgi_metric": "m"}, True),
        ({"uwsgi_module": "on"}, True),
        ({"uwsgi_module": "off", "bind": "uwsgi://:0"}, False),
    ],
)
def test_the_module_is_on_if_asked_or_meant(settings, is_on):
    assert UwsgiModule.is_on(Config(**settings)) is is_on


@pytest.mark.parametrize(("slot", "worker_id", "makes"), [(3, 3, 0), (MOLD, 0, 0), (TRIAL, 0, 1)])
@pytest.mark.parametrize("event", [Life.IMPORTS, Life.FORKED])
def test_who_it_is(installed, event, slot, worker_id, makes):
    """A mold and a trial are nobody's worker; a trial, another program, has separate memory."""
    plan = Plan(Config(workers=4, uwsgi_module="on", preload=True), "hello:app")
    role = Role(slot, 1, plan, None, (), "the page", supervisor_pid=4242)
    UwsgiModule(plan.config).on_life(event, LifeContext(plan, role))
    ((process,), made) = installed
    is_preloaded = event is Life.FORKED or slot == MOLD
    assert (process.worker_id, process.masterpid, process.numproc) == (worker_id, 4242, 4)
    assert process.is_preloaded is is_preloaded
    assert process.page == ("the page" if worker_id else None) and len(made) == makes


def test_other_processes_have_their_memory(installed):
    """A lone server has its own memory; a spooler too, and names the supervisor."""
    plan = Plan(Config(uwsgi_module="on"), "hello:app")
    extension = UwsgiModule(plan.config)
    extension.on_life(Life.IMPORTS, LifeContext(plan))
    extension.on_life(Life.IMPORTS, LifeContext(plan, is_spooler=True))
    alone, jobs = installed[0]
    assert not alone.is_spooler and not alone.masterpid and jobs.is_spooler and jobs.masterpid
    assert len(installed[1]) == 2


def test_a_mule_knows_its_number(installed, monkeypatch):
    """A mule is no worker, does no jobs, and knows the mule's number."""
    plan = Plan(Config(workers=4, uwsgi_mule=["-", "-"]), "hello:app")
    monkeypatch.setattr(post, "_number", 2)
    UwsgiModule(plan.config).on_life(Life.IMPORTS, LifeContext(plan, is_spooler=True))
    (process,) = installed[0]
    assert (process.mule_id, process.mules, process.worker_id, process.is_spooler) == (2, 2, 0, False)


@pytest.mark.parametrize("is_imported", [True, False])
def test_counts_are_kept_for_importing_apps(monkeypatch, is_imported):
    """Requests are counted for an app with the module, and cost nothing without."""
    tally = object()
    monkeypatch.setattr(uwsgi, "is_imported", lambda: is_imported)
    monkeypatch.setattr(uwsgi, "begin_tally", lambda: tally)
    extension = UwsgiModule(Config(uwsgi_module="on"))
    extension.start(None)
    reader = extension.reader()
    assert (reader is not None) == ("times" in extension.wants) == is_imported
    assert not is_imported or reader.ended is tally


def test_the_layer_finds_the_request(monkeypatch):
    monkeypatch.setattr(uwsgi, "wrap_app", lambda app: [app])
    assert UwsgiModule(Config(uwsgi_module="on")).wrap_app(print) == [print]


def test_in_a_supervisor():
    assert isinstance(UwsgiModule(Config(uwsgi_module="on")).supervise(None), Counts)


def test_what_workers_share(installed):
    """The memory is made before the workers, or is old code's."""
    plan = Plan(Config(uwsgi_cache="items=3"), "hello:app")
    UwsgiModule(plan.config).on_life(Life.WORKERS_BEGIN, LifeContext(plan, kept={memory.NAME: 7}))
    UwsgiModule(plan.config).on_life(Life.EXITS, LifeContext(plan))
    assert installed == ([], [(("items=3",), 7, None, plan.config.extras)])


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({"uwsgi_module": "on"}, False),
        ({"uwsgi_cache": "items=3"}, True),
        ({"bind": "uwsgi://:0"}, False),
        ({"shared": "redis://x", "spooler": "redis:jobs", "workers": 1}, False),
    ],
)
def test_one_host_is_told_once(caplog, settings, is_told):
    """The log says once, at the start, that further hosts do not share a cache or jobs; not of a site without caches and jobs."""
    caplog.set_level(logging.INFO, "aserve")
    plan = Plan(Config(**settings), None)
    UwsgiModule(plan.config).on_life(Life.STARTS, LifeContext(plan))
    assert (uwsgi_api.ALONE in caplog.messages) is is_told
