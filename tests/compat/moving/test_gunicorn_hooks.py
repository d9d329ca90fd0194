"""gunicorn's hooks: their arguments, and the effect of an exception."""

import logging
import os
import signal
import sys
import types

import pytest

from aserve.compat.moving import gunicorn_hooks
from aserve.compat.moving.gunicorn_cfg import Cfg
from aserve.compat.moving.gunicorn_hooks import GunicornHooks, Hooks, does_nothing
from aserve.extension import Life, LifeContext, Lost
from aserve.lifecycle.load_error import LoadError


@pytest.fixture
def calls():
    """The calls, in order."""
    return []


def hooks_of(calls, *names, **settings):
    """Return hooks that note their names, and their last argument."""
    cfg = Cfg()
    for name, value in settings.items():
        cfg.set(name, value)
    return Hooks({name: lambda *given, name=name: calls.append((name, given)) for name in names}, cfg)


def test_in_the_supervisor(calls):
    """Hooks get the server, with its settings."""
    hooks = hooks_of(calls, "on_starting", workers=3)
    hooks.in_supervisor("on_starting")
    hooks.in_supervisor("when_ready")
    ((name, (server,)),) = calls
    assert name == "on_starting" and server.pid == os.getpid() and server.cfg.workers == 3 == server.num_workers
    assert (
        server.cfg.timeout == 30 and server.cfg.settings["workers"].get() == 3 and server.cfg.address == server.address
    )
    server.log.info("can be told")


def test_the_server_of_a_process(calls):
    """The server is one object: a hook finds an earlier hook's values, also behind a reload, with the present settings."""
    before, after = (hooks_of(calls, "on_starting", "child_exit", "on_reload", workers=count) for count in (1, 2))
    before.in_supervisor("on_starting")
    before.child_exit(4, 1)
    after.in_supervisor("on_reload")
    servers = [given[0] for _, given in calls]
    assert servers[0] is servers[1] is servers[2] and (servers[0].num_workers, servers[0].cfg.workers) == (2, 2)


def test_in_a_worker(calls):
    """Before the app, with the app, and at the end; only a worker has a worker's end."""
    hooks = hooks_of(calls, "post_fork", "post_worker_init", "worker_exit")
    hooks.end_worker()
    hooks.begin_worker(2)
    hooks.app_is_loaded()
    hooks.end_worker()
    assert [name for name, _ in calls] == ["post_fork", "post_worker_init", "worker_exit"]
    (server, worker), (same,), (_, last) = [given for _, given in calls]
    assert worker is same is last and (worker.pid, worker.age, worker.alive) == (os.getpid(), 2, False)
    assert server.pid == os.getppid()


def test_addresses_of_the_server(calls):
    """Addresses are pairs and paths, as gunicorn's."""
    hooks = hooks_of(calls, "on_starting", bind=["127.0.0.1:8000", "unix:/run/a", "fd://3", "[::1]:80"])
    hooks.in_supervisor("on_starting")
    ((_, (server,)),) = calls
    assert server.address == [("127.0.0.1", 8000), "/run/a", 3, ("::1", 80)]
    assert "%s:%s" % server.address[0] == "127.0.0.1:8000"
    assert [str(one) for one in server.LISTENERS[:2]] == ["http://127.0.0.1:8000", "unix:/run/a"]
    assert server.LISTENERS[0].getsockname() == ("127.0.0.1", 8000)


def test_pre_forks_values_are_there_in_post_fork():
    found = []

    def pre_fork(server, worker):
        worker._id = 1

    def post_fork(server, worker):
        found.append(worker._id)

    Hooks({"pre_fork": pre_fork, "post_fork": post_fork}, Cfg()).begin_worker(1)
    assert found == [1]


def test_what_the_objects_lack(caplog):
    """A hook that asks for a missing part ends there, with a line; a hook that would wrap the app ends the start, as the wrapper may be a guard."""
    hooks = Hooks(
        {"when_ready": lambda server: server.systemd, "on_exit": lambda server: getattr(server, "app", None)}, Cfg()
    )
    hooks.in_supervisor("when_ready")
    hooks.in_supervisor("on_exit")
    assert caplog.messages == ["gunicorn's hook when_ready has ended early: aserve has no server.systemd"]
    hooks = Hooks(
        {"post_worker_init": lambda worker: worker.wsgi, "post_fork": lambda server, worker: worker.sockets}, Cfg()
    )
    hooks.begin_worker(1)
    assert caplog.messages[-1] == "gunicorn's hook post_fork has ended early: aserve has no worker.sockets"
    with pytest.raises(LoadError, match=r"wrap the app where it is made"):
        hooks.app_is_loaded()


def test_a_hook_that_asks_for_all_workers_is_told_that_there_are_none(caplog, monkeypatch):
    """The hook goes on, with an empty dictionary, and the log says so once."""
    monkeypatch.delitem(vars(gunicorn_hooks._SERVER), "WORKERS", raising=False)
    found = []
    hooks = Hooks(dict.fromkeys(("when_ready", "on_exit"), lambda server: found.append(server.WORKERS)), Cfg())
    for name in ("when_ready", "on_exit"):
        hooks.in_supervisor(name)
    assert found == [{}, {}] and found[0] is found[1]
    assert caplog.messages == ["a hook of gunicorn's configuration asks for server.WORKERS, which is empty here"]


NAMES = ("on_starting", "when_ready", "on_reload", "on_exit", "post_fork", "post_worker_init", "worker_exit")
WORKER = types.SimpleNamespace(slot=3, is_mold=False)
MOLD = types.SimpleNamespace(slot=0, is_mold=True)


@pytest.mark.parametrize(
    ("event", "role", "called"),
    [
        (Life.STARTS, None, ["on_starting"]),
        (Life.WORKERS_BEGIN, None, ["when_ready"]),
        (Life.RELOADS, None, ["on_reload"]),
        (Life.EXITS, None, ["on_exit"]),
        (Life.IMPORTS, WORKER, ["post_fork"]),
        (Life.IMPORTS, None, ["post_fork"]),
        (Life.IMPORTED, WORKER, ["post_worker_init"]),
        (Life.IMPORTS, MOLD, []),
        (Life.IMPORTED, MOLD, []),
        (Life.FORKED, WORKER, ["post_fork", "post_worker_init"]),
        (Life.ENDS, WORKER, []),
    ],
)
def test_events_call_hooks_in_time(calls, event, role, called):
    """Each hook has its time; a mold is no worker, and only a begun worker can end."""
    GunicornHooks(hooks_of(calls, *NAMES)).on_life(event, LifeContext(None, role))
    assert [name for name, _ in calls] == called
    assert event not in (Life.IMPORTS, Life.FORKED) or role is MOLD or calls[0][1][1].age == (role.slot if role else 1)


@pytest.mark.parametrize("role", [WORKER, None])
def test_preloaded_apps_are_there_in_post_fork(calls, role):
    """With a preloaded app, post_fork finds the app imported: also in a worker with a separate import, and without workers."""
    extension = GunicornHooks(hooks_of(calls, *NAMES, preload_app=True))
    extension.on_life(Life.IMPORTS, LifeContext(None, role))
    assert calls == []
    extension.on_life(Life.IMPORTED, LifeContext(None, role))
    assert [name for name, _ in calls] == ["post_fork", "post_worker_init"]


@pytest.mark.parametrize("settings", [{}, {"errorlog": "a.log"}])
def test_the_logger_of_gunicorns_name_writes_our_log(calls, caplog, monkeypatch, settings):
    """But for a configuration with loggers of its own, and for handlers of the file's."""
    error = logging.getLogger("gunicorn.error")
    for name, value in (("handlers", []), ("level", 0), ("propagate", True)):
        monkeypatch.setattr(error, name, value)
    extension = GunicornHooks(hooks_of(calls, **settings))
    for event in (Life.STARTS, Life.IMPORTS):
        extension.on_life(event, LifeContext(None))
    assert len(error.handlers) == (0 if settings else 1) and error.propagate == bool(settings)
    error.error("of the app")
    assert caplog.messages == ["of the app"]


def test_no_hook_in_a_check(calls):
    """--check, as gunicorn's --check-config, calls none."""
    for event in (Life.READ, Life.IMPORTS, Life.IMPORTED, Life.CHECKS):
        GunicornHooks(hooks_of(calls, *NAMES)).on_life(event, LifeContext(None, is_check=True))
    assert calls == []


@pytest.mark.parametrize("chdir", [None, "site"])
def test_imports_of_the_app(tmp_path, monkeypatch, chdir):
    """Each hook may import the app's modules, from gunicorn's folder on sys.path."""
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path)
    cfg, before, found = Cfg(), list(sys.path), []
    cfg.set("chdir", chdir)
    hooks = Hooks(
        dict.fromkeys(("on_starting", "child_exit", "post_fork"), lambda *given: found.append(sys.path[0])), cfg
    )
    hooks.in_supervisor("on_starting")
    hooks.child_exit(1, 1)
    monkeypatch.chdir(chdir or ".")  # as a worker does
    hooks.begin_worker(1)
    assert found == [str(tmp_path / (chdir or "."))] * 3 and sys.path == before


def test_a_removed_folder(calls, tmp_path, monkeypatch):
    """A hook is called all the same."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    hooks_of(calls, "child_exit").child_exit(1, 1)
    assert len(calls) == 1


def test_the_end_of_a_worker(calls):
    """A worker's end comes in a former mold, too."""
    extension = GunicornHooks(hooks_of(calls, *NAMES))
    extension.on_life(Life.FORKED, LifeContext(None, WORKER))
    extension.on_life(Life.ENDS, LifeContext(None, WORKER))
    assert [name for name, _ in calls][-1] == "worker_exit"


def test_one_that_has_ended(calls):
    """child_exit in the supervisor is told the ended worker."""
    for hooks in (hooks_of(calls, "child_exit"), hooks_of(calls)):
        GunicornHooks(hooks).on_life(Life.REAPED, LifeContext(None, lost=Lost(2, 77, [])))
    ((_, (server, worker)),) = calls
    assert (worker.pid, worker.age, server.pid) == (77, 2, os.getpid())


def raise_it(*given):
    """A hook with a mistake."""
    raise KeyError("x")


def leave(*given):
    """A hook with an end of the process."""
    raise SystemExit(3)


def interrupt(*given):
    """A hook with an end of the process, as by Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture
def handled():
    """SIGINT as in a supervisor and in a worker, where Ctrl-C raises nothing."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("hook", [leave, interrupt])
def test_one_that_would_end_the_process(hook, caplog):
    """Such a hook ends no serving process: at an end the hook is logged, at a reload and at a start the hook is an error."""
    hooks = Hooks(dict.fromkeys(("on_reload", "post_worker_init", "child_exit", "worker_exit"), hook), Cfg())
    for call in (lambda: hooks.in_supervisor("on_reload"), hooks.app_is_loaded):
        with pytest.raises(LoadError, match="calling gunicorn's hook"):
            call()
    hooks.child_exit(1, 1)
    hooks._worker = hooks._new_worker(1, 1)
    hooks.end_worker()
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


def test_one_that_takes_signals(caplog):
    """In the supervisor signals are not to be had; in a worker they are the app's."""

    def take(*given):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    before = signal.getsignal(signal.SIGUSR2)
    hooks = Hooks(dict.fromkeys(("when_ready", "child_exit", "post_worker_init"), take), Cfg())
    hooks.in_supervisor("when_ready")
    hooks.child_exit(1, 1)
    assert signal.getsignal(signal.SIGUSR2) == before
    for name in ("when_ready", "child_exit"):
        assert f"gunicorn's hook {name} has set handlers for SIGUSR2" in caplog.text
    hooks.app_is_loaded()
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    signal.signal(signal.SIGUSR2, before)


def test_one_that_raises(caplog):
    """At the start an exception is an error like the app's; at an end it is logged."""
    hooks = Hooks(dict.fromkeys(("post_fork", "on_starting", "child_exit", "worker_exit"), raise_it), Cfg())
    for call in (lambda: hooks.in_supervisor("on_starting"), lambda: hooks.begin_worker(1)):
        with pytest.raises(LoadError, match=r"calling gunicorn's hook (on_starting|post_fork) raised KeyError: 'x'"):
            call()
    hooks.child_exit(1, 1)
    hooks.end_worker()
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "child_exit of gunicorn's configuration has raised:", "worker_exit of gunicorn's configuration has raised:",
    ]  # fmt: skip
    assert "in raise_it" in caplog.text and "KeyError: 'x'" in caplog.text


def nothing(server, worker):
    """With a docstring."""


def something(server, worker):
    server.log.info("x")


@pytest.mark.parametrize(
    ("function", "is_it"),
    [(nothing, True), (lambda server: None, True), (something, False), (print, False), (3, False)],
)
def test_empty_hooks_need_no_word(function, is_it):
    assert does_nothing(function) is is_it
