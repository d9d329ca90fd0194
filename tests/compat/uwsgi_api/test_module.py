"""`import uwsgi` under aserve: there where nothing else is, and its parts behave as in uWSGI 2.0.30."""

import importlib
import importlib.machinery
import importlib.util
import socket
import sys
import time

import pytest

from aserve import rpc
from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api import module as uwsgi_module
from aserve.compat.uwsgi_api.functions import SIGNALS
from aserve.compat.uwsgi_api.handlers import places_of
from aserve.compat.uwsgi_api.module import Process, install
from aserve.compat.uwsgi_api.mules import functions as mules
from aserve.compat.uwsgi_api.schedules import Cron, Every
from aserve.compat.uwsgi_api.settings import Extras
from aserve.lifecycle import hooks


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """An empty registry, no module `uwsgi`, and restored import hooks."""
    monkeypatch.setattr(rpc.registry, "_functions", {})
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not type(f).__module__.startswith("aserve")])
    monkeypatch.setattr(hooks, "_functions", [])
    monkeypatch.setattr(hooks, "_has_begun", False)
    monkeypatch.setattr(hooks, "_at_end", [])
    for name in ("_handlers", "_schedules"):
        monkeypatch.setattr(SIGNALS, name, {})
    monkeypatch.setattr(SIGNALS, "_serves", None)
    monkeypatch.setattr(SIGNALS, "on_run", SIGNALS.on_run)
    for name in ("uwsgi", "uwsgidecorators"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("uwsgi", "uwsgidecorators"):
        sys.modules.pop(name, None)


@pytest.fixture
def uwsgi():
    install()
    return importlib.import_module("uwsgi")


# The module


def test_import_finds_the_module(uwsgi):
    assert sys.modules["uwsgi"] is uwsgi is importlib.import_module("uwsgi")
    assert uwsgi.__name__ == "uwsgi" and importlib.util.find_spec("uwsgi") is not None


def test_not_installed_means_no_module():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("uwsgi")


def test_not_seen_until_imported():
    """A look for a running uWSGI, without importing it, finds none."""
    install()
    assert "uwsgi" not in sys.modules


def test_installing_twice_does_nothing():
    install()
    hooks = list(sys.meta_path)
    install()
    assert sys.meta_path == hooks


def test_another_comes_first(tmp_path, monkeypatch):
    """An app of that name is the app: projects have a uwsgi.py."""
    (tmp_path / "uwsgi.py").write_text("app = 'mine'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install()
    assert importlib.import_module("uwsgi").app == "mine"


def test_other_modules_are_none_of_its_business():
    install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("uwsgi2")


def test_what_is_not_available(uwsgi):
    """The error names the missing part, and the present ones."""
    with pytest.raises(
        AttributeError, match=r"uwsgi\.setprocname is not available under aserve; the package setproctitle"
    ):
        uwsgi.setprocname("key")
    assert not hasattr(uwsgi, "spool") and not hasattr(uwsgi, "__path__")
    with pytest.raises(ImportError):
        exec("from uwsgi import setprocname")


def test_facts_about_the_server_are_there(uwsgi):
    assert uwsgi.mule_id() == 0 and uwsgi.applications == {} and uwsgi.opt["py-call-uwsgi-fork-hooks"] is True
    assert uwsgi.hostname == socket.gethostname().encode() and 0 < uwsgi.started_on <= time.time()
    assert uwsgi.version.startswith(b"aserve ")
    assert uwsgi.opt.get("enable-threads") and "master" not in uwsgi.opt
    assert (uwsgi.numproc, uwsgi.worker_id(), uwsgi.masterpid()) == (1, 1, 0)


def test_post_fork_hook(uwsgi):
    """A hook set by an app, or uWSGI's own uwsgidecorators, is called when the process is about to serve; none need be."""
    hooks.call_post_fork()
    calls = []
    uwsgi.post_fork_hook = lambda: calls.append("hook")
    hooks.call_post_fork()
    assert calls == ["hook"]


def test_post_fork_hook_without_the_module():
    install()
    hooks.call_post_fork()


@pytest.fixture(params=["ours", "uWSGI's"])
def decorators(request):
    """The module uwsgidecorators: ours, or an installed uWSGI's."""
    install(Process(2, 4242, 8))
    if request.param == "ours":
        return importlib.import_module("uwsgidecorators")
    spec = importlib.machinery.PathFinder.find_spec("uwsgidecorators")
    if spec is None:
        pytest.skip("uWSGI is not installed")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_postfork_is_for_all_workers_or_one(decorators):
    calls = []

    @decorators.postfork
    def connect():
        calls.append("all")
        return 5

    @decorators.postfork(2)
    def first():
        calls.append("second")

    decorators.postfork(3)(lambda: calls.append("third"))
    hooks.call_post_fork()
    assert calls == ["all", "second"] and connect() == 5


def test_scheduled_functions_run_by_both_modules(decorators):
    decorators.timer(3, target="spooler")(print)
    decorators.cron(0, 3, -1, -1, -1)(len)
    decorators.signal(7)(repr)
    assert [number for number in range(9) if SIGNALS.is_registered(number)] == [0, 1, 7]
    assert SIGNALS._schedules == {0: Every(3.0), 1: Cron(0, 3, -1, -1, -1)}


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("spool", "--spooler FOLDER"),
        ("erlang", "no Erlang"),
    ],
)
def test_other_decorators_are_told_as_missing(name, instead):
    install()
    decorators = importlib.import_module("uwsgidecorators")
    text = rf"uwsgidecorators\.{name} is not available under aserve; .*{instead}"
    with pytest.raises(AttributeError, match=text):
        getattr(decorators, name)
    assert not hasattr(decorators, "__path__")


def test_ours_comes_first(tmp_path, monkeypatch):
    """uWSGI's own wants a master before its import."""
    (tmp_path / "uwsgidecorators.py").write_text("raise ZeroDivisionError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install()
    assert importlib.import_module("uwsgidecorators").timer is not None


def test_in_a_worker_process():
    install(Process(3, 4242, 8))
    uwsgi = importlib.import_module("uwsgi")
    assert (uwsgi.numproc, uwsgi.worker_id(), uwsgi.masterpid()) == (8, 3, 4242)
    install()


@pytest.mark.parametrize(
    ("process", "truths"),
    [
        (Process(), {"lazy-apps": True}),
        (Process(1, 4242, 2), {"lazy-apps": True, "master": True}),
        (Process(0, 4242, 2, is_preloaded=True), {"master": True}),
        (Process(options={"master": b"0", "lazy": b"1", "vacuum": True}), {"lazy-apps": True, "vacuum": True}),
    ],
)
def test_what_agents_ask(process, truths):
    """The facts are of this server, whatever uWSGI's file says."""
    install(process)
    opt = importlib.import_module("uwsgi").opt
    assert opt == {"enable-threads": True, "py-call-uwsgi-fork-hooks": True, **truths}


def test_at_exit_calls_the_apps_function(uwsgi):
    uwsgi_module._call_atexit()
    calls = []
    uwsgi.atexit = lambda: calls.append("end")
    uwsgi_module._call_atexit()
    assert calls == ["end"]


@pytest.mark.parametrize(("worker_id", "mule_id"), [(0, 0), (3, 0), (0, 2)])
def test_signals_begin_with_a_serving_worker(monkeypatch, worker_id, mule_id):
    """A worker begins when it is about to serve, and so does a mule; neither a mold nor a trial does."""
    begun = []
    monkeypatch.setattr(uwsgi_module.SIGNALS, "begin", lambda places, serves: begun.append((places, serves())))
    install(Process(worker_id, 4242, mule_id=mule_id))
    hooks.call_post_fork()
    assert begun == ([(places_of(worker_id, mule_id), True)] if worker_id or mule_id else [])
    monkeypatch.setattr(uwsgi_module.SIGNALS, "_serves", lambda: True)
    hooks.call_at_end()
    assert uwsgi_module.SIGNALS._serves is None


def test_a_module_of_the_same_name_is_not_ours(uwsgi):
    assert uwsgi_module.is_imported()
    sys.modules["uwsgi"] = sys
    assert not uwsgi_module.is_imported()


def test_extras_are_there_with_their_settings(monkeypatch, open_memory):
    extras = Extras("items=10,blocksize=16", ("4k",), ("visits",))
    monkeypatch.setattr(memory, "_memory", open_memory(extras=extras))
    install(Process(extras=extras))
    uwsgi = importlib.import_module("uwsgi")
    assert uwsgi.queue_size == 10 and uwsgi.queue_push("a") is True and uwsgi.queue_pull() == b"a"
    assert uwsgi.sharedarea_inc64(0, 8) is None and uwsgi.sharedarea_read64(0, 8) == 1
    assert uwsgi.metric_inc("visits") is True and uwsgi.metric_get("visits") == 1
    del sys.modules["uwsgi"]
    install()
    uwsgi = importlib.import_module("uwsgi")
    with pytest.raises(
        AttributeError, match=r"uwsgi\.queue_push is not available under aserve; --uwsgi-queue offers it"
    ):
        uwsgi.queue_push("a")


def test_the_layer_serves_importing_apps_alone(uwsgi):
    """An app with the module can ask about the request; an app without is left unchanged."""
    found = []

    def app(environ, start_response):
        found.append(uwsgi.cl())
        return []

    uwsgi_module.wrap_app(app)({"CONTENT_LENGTH": "5"}, None)
    assert found == [5]
    del sys.modules["uwsgi"]
    assert uwsgi_module.wrap_app(app) is app


def test_the_counts_are_this_processs(uwsgi):
    tally = uwsgi_module.begin_tally()
    SIGNALS.on_run()
    assert uwsgi.workers()[0]["signals"] == 1 and tally.thread_seconds == 0


def test_messages_of_mules(uwsgi, monkeypatch):
    """Messages are for the app's function, or for those of @mulefunc."""
    monkeypatch.setattr(mules, "_functions", {})
    assert uwsgi_module.mule_hook() is None
    mules.mulefunc(test_import_finds_the_module)
    assert uwsgi_module.mule_hook() is mules.mule_msg_dispatcher
    uwsgi.mule_msg_hook = print
    assert uwsgi_module.mule_hook() is print


# RPC


def test_register_replaces_a_function(uwsgi):
    assert uwsgi.register_rpc("f", lambda: b"1") is True
    assert uwsgi.register_rpc("f", lambda: b"2", 3) is True
    assert uwsgi.rpc_list() == (b"f",)
    assert rpc.registered() == ["f"] and rpc.call_local(b"f") == b"2"


def test_register_refuses_long_names(uwsgi):
    with pytest.raises(ValueError, match="255"):
        uwsgi.register_rpc("n" * 256, lambda: b"")


@pytest.mark.parametrize("address", [None, "", b""])
def test_local_calls_stay_in_the_process(uwsgi, address):
    """Without an address, and with call(), the function of this process is called; text is lenient."""
    uwsgi.register_rpc("join", lambda *arguments: b"|".join(arguments))
    assert uwsgi.rpc(address, b"join", b"a", b"b") == uwsgi.call(b"join", b"a", b"b") == b"a|b"
    assert uwsgi.rpc(address, "join", "a", "é") == uwsgi.call("join", "a", "é") == b"a|\xc3\xa9"


def fail():
    raise LookupError


@pytest.mark.parametrize("function", [fail, lambda: None, lambda: "text", lambda: b""])
def test_local_failures_give_none(uwsgi, function):
    uwsgi.register_rpc("f", function)
    assert uwsgi.call(b"f") is None and uwsgi.rpc(None, b"f") is None and uwsgi.call(b"other") is None


def test_types_beyond_bytes_and_text_are_mistakes(uwsgi):
    with pytest.raises(TypeError):
        uwsgi.call(b"f", 1)
    with pytest.raises(TypeError):
        uwsgi.rpc("127.0.0.1:1", b"f", 1)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1:3031", "127.0.0.1:3031"),
        (b"127.0.0.1:3031", "127.0.0.1:3031"),
        ("/run/a:b.sock", "/run/a:b.sock"),
        ("a.sock", "unix:a.sock"),
    ],
)
def test_remote_calls_take_uwsgis_addresses(uwsgi, monkeypatch, address, place):
    calls = []
    monkeypatch.setattr(rpc, "call_blocking", lambda *words: calls.append(words) or b"result")
    assert uwsgi.rpc(address, b"f", b"a") == b"result"
    assert calls == [(place, b"f", b"a")]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no/such.sock", "a:b:c"])
def test_remote_failures_give_none(uwsgi, caplog, address):
    assert uwsgi.rpc(address, b"f") is None
    (record,) = caplog.records
    assert record.getMessage().startswith("uwsgi.rpc: ")
