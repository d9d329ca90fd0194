"""Jobs, by `import uwsgi` and uwsgidecorators with --spooler; tests/e2e/test_spooler.py has real ones."""

import importlib
import sys
import types

import pytest
from harness.waiting import wait_until

from aserve.compat.uwsgi_api import module
from aserve.compat.uwsgi_api.hosts import join
from aserve.compat.uwsgi_api.module import Process, install
from aserve.compat.uwsgi_api.spooler import functions as spooler
from aserve.features.sharing import store as store_module
from aserve.features.sharing.settings import Shared
from aserve.lifecycle import hooks


@pytest.fixture
def modules(monkeypatch):
    """Install a process's modules with these folders: modules(*folders) -> uwsgi, and our uwsgidecorators."""
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not type(f).__module__.startswith("aserve")])
    monkeypatch.setattr(hooks, "_functions", [])
    monkeypatch.setattr(spooler, "_functions", {})
    for name in ("uwsgi", "uwsgidecorators"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def install_(*folders):
        install(Process(worker_id=0, masterpid=1, spoolers=folders, is_spooler=True))
        sys.meta_path.insert(0, sys.meta_path.pop())  # uWSGI's own decorators may be installed
        return importlib.import_module("uwsgi"), importlib.import_module("uwsgidecorators")

    yield install_
    install()
    for name in ("uwsgi", "uwsgidecorators"):
        sys.modules.pop(name, None)


def test_jobs_find_the_apps_function(modules, tmp_path):
    uwsgi, decorators = modules(str(tmp_path))
    assert uwsgi.is_a_reload is False
    assert uwsgi.i_am_the_spooler() and uwsgi.opt["spooler"] == str(tmp_path).encode() and uwsgi.SPOOL_OK == -2
    assert module.spooler_function() is None
    decorators.spool(test_jobs_find_the_apps_function)
    assert module.spooler_function() is spooler.do_decorated
    uwsgi.spooler = print
    assert module.spooler_function() is print
    assert uwsgi.spool({b"a": b"b"}).startswith(str(tmp_path).encode())


def test_several_folders_are_seen(modules):
    assert modules("/a", "/b")[0].opt["spooler"] == [b"/a", b"/b"]


def test_without_a_folder(modules):
    uwsgi, decorators = modules()
    assert "spooler" not in uwsgi.opt
    for each in (uwsgi, decorators):
        with pytest.raises(AttributeError, match=r"\.spool is not available .*--spooler FOLDER offers it"):
            each.spool  # noqa: B018


def test_a_queue_of_all_hosts(modules, store_server, monkeypatch):
    hosts = join([], Shared(store_server.url, "shop"))
    monkeypatch.setattr(module.memory, "shared", lambda: types.SimpleNamespace(hosts=hosts))
    uwsgi, _ = modules("shared:jobs", "/folder")
    path = uwsgi.spool({b"n": b"1", b"body": b"b"}, spooler="shared:jobs")
    assert path.startswith(b"shared:jobs/") and uwsgi.spooler_jobs() == [path]
    assert uwsgi.spooler_get_task(path) == {
        b"n": b"1",
        "body": b"b",
        "spooler_task_name": path.decode().rpartition("/")[2],
    }
    assert spooler.queue_of("shared:jobs").name == "shared:jobs" and spooler.queue_of("/folder") is None
    monkeypatch.setattr(store_module, "PROBE_SECONDS", 0.01)
    store_server.kill()
    assert uwsgi.spooler_get_task(path) is None
    store_server.start()
    wait_until(lambda: uwsgi.spooler_get_task(path))  # or its thread would look for it for ever, beside other tests
    hosts.store.close()
