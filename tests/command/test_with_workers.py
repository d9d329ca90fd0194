"""The command with --workers: the supervisor's arguments, and the fate of the children."""

import json
import os
import sys
import types

import pytest

from aserve.command import cli, with_workers
from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api import module as uwsgi
from aserve.compat.uwsgi_api.module import install
from aserve.compat.uwsgi_api.process import present
from aserve.compat.uwsgi_api.spooler import runner
from aserve.connections.listeners import bind_listeners
from aserve.core.memory_file import open_memory_file
from aserve.core.start_folder import FolderGoneError
from aserve.features import Config
from aserve.lifecycle import hooks
from aserve.lifecycle.supervision import SupervisorContext
from aserve.processes.acts import StartFailed
from aserve.processes.children.role import Role
from aserve.processes.upgrade.inheritance import FORM
from aserve.settings import ConfigError

CHANNEL = types.SimpleNamespace(detach=int)  # to no supervisor


def test_workers_leave_the_app_to_the_processes(supervised, served, capsys, tmp_path):
    """--workers: a supervisor runs, and can read the settings anew; the app is not imported."""
    (tmp_path / "hello.py").write_text("raise ValueError\n")
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 3\n")
    supervised.outcome = 5
    assert cli.main(["hello:app", "--workers", "4"]) == 5
    ((plan, read, listeners, command),) = supervised.made
    assert command.words[0] == sys.executable and supervised.inherited == [None]
    assert plan[:3] == (Config(workers=4, threads=3), "hello:app", None) and listeners == "bound for 4"
    assert plan.given == {"workers", "threads"}
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 9\n")
    assert read()[:3] == (Config(workers=4, threads=9), "hello:app", None)
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 'x'\n")
    with pytest.raises(ConfigError):
        read()
    assert served == [] and supervised.roles == []


def test_a_folder_that_is_a_link(supervised, tmp_path, monkeypatch, caplog):
    """Settings and app come from the present target of the folder's name; a name without a target is told."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "linked_app.py").write_text(f"def {name}(environ, start_response): pass\napp = {name}\n")
        (tmp_path / name / "pyproject.toml").write_text(f"[tool.aserve]\nserver-name = '{name}'\n")
    (tmp_path / "current").symlink_to("one")
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("PWD", str(tmp_path / "current"))
    assert cli.main(["linked_app:app", "--workers", "1"]) == 0
    ((plan, read, _, _),) = supervised.made
    (tmp_path / "current").unlink()
    with pytest.raises(FolderGoneError, match="current, where aserve was started, cannot be entered any more"):
        read()
    (tmp_path / "two").rename(tmp_path / "current")
    assert (plan.config.server_name, read().config.server_name) == ("one", "two")
    monkeypatch.chdir(tmp_path / "one")
    supervised.outcome = Role(1, 1, plan, CHANNEL, (), None, supervisor_pid=4242)
    assert cli.main(["linked_app:app", "--workers", "1"]) == 7
    assert supervised.roles[-1][1].__name__ == "one"  # PWD was not true any more: this is the folder of the start
    sys.modules.pop("linked_app", None)


@pytest.mark.parametrize(("spec", "is_told"), [("late_app:app", True), ("{}/late_app.py:app", False)])
def test_a_folder_that_moves_before_the_import(supervised, tmp_path, monkeypatch, capsys, spec, is_told):
    """A worker has the same code as all workers, and says so, if the worker imports from there; a reload goes on otherwise."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "late_app.py").write_text("def app(environ, start_response): pass\n")
    monkeypatch.chdir(tmp_path / "in")
    monkeypatch.delenv("PWD", raising=False)
    reads = []

    def run(self, inherited):
        (tmp_path / "in").rename(tmp_path / "moved")
        reads.append(supervised.made[-1][1])
        return Role(1, 1, supervised.made[-1][0], CHANNEL, (), None, supervisor_pid=4242)

    monkeypatch.setattr(with_workers.Supervisor, "run", run)
    assert cli.main([spec.format(tmp_path / "moved"), "--workers", "1"]) == 7
    assert ("until then workers import the old code" in capsys.readouterr().err) is is_told
    if not is_told:
        assert reads[0]().spec == spec.format(tmp_path / "moved")
    sys.modules.pop("late_app", None)


def test_what_workers_share(supervised, monkeypatch):
    """Before the first fork, the common loop is imported, and the present objects are no garbage of the children."""
    assert cli.main(["hello:app", "--workers", "4", "--loop", "asyncio"]) == 0
    assert supervised.shared == ["asyncio", "freeze", "forks"]
    monkeypatch.setattr(with_workers, "gc", types.SimpleNamespace())  # PyPy's
    assert cli.main(["hello:app", "--workers", "4"]) == 0
    assert supervised.shared[3:] == ["auto", "forks"]


def test_hooks_run_in_supervisor_and_worker(supervised, served, tmp_path, capsys):
    """gunicorn's hooks are called beside the supervisor, and in the forked worker."""
    (tmp_path / "hello2.py").write_text("def application(environ, start_response):\n    pass\n")
    (tmp_path / "conf.py").write_text(
        "wsgi_app = 'hello2'\ncalled = []\n"
        + "".join(
            f"def {name}(*given): called.append('{name}')\n"
            for name in (
                "on_starting",
                "when_ready",
                "on_reload",
                "on_exit",
                "post_fork",
                "post_worker_init",
                "worker_exit",
            )
        )
    )
    command = ["--gunicorn-conf", "conf.py"]
    assert cli.main(command) == 0
    assert sys.modules["__config__"].called == ["on_starting", "when_ready", "on_exit"]
    ((plan, read, _, _),) = supervised.made
    assert read().origin.hooks is not plan.origin.hooks and sys.modules["__config__"].called == ["on_reload"]
    supervised.outcome = Role(1, 1, plan, CHANNEL, (), None, supervisor_pid=4242)
    assert cli.main(command) == 7
    assert plan.origin.hooks._functions["post_fork"].__globals__["called"][3:] == [
        "post_fork",
        "post_worker_init",
        "worker_exit",
    ]


def test_a_hook_that_raises(supervised, tmp_path, monkeypatch, capsys):
    """when_ready ends the command: nothing serves yet, and the bound sockets are let go."""
    closed = []
    bound = types.SimpleNamespace(close=lambda: closed.append(1))
    monkeypatch.setattr(with_workers, "bind_listeners", lambda config: [bound])
    (tmp_path / "conf.py").write_text("def when_ready(server): raise SystemExit(3)\n")
    assert cli.main(["hello:app", "--gunicorn-conf", "conf.py"]) == 1
    assert closed == [1] and supervised.made == []
    assert "calling gunicorn's hook when_ready raised SystemExit: 3" in capsys.readouterr().err


def test_memory_of_uwsgi(supervised, monkeypatch, capsys):
    """The workers' common memory is made before the first worker, if asked for; without the memory, nothing starts."""
    shared = []
    monkeypatch.setattr(memory, "share", lambda *what: shared.append((what, len(supervised.made))))
    assert cli.main(["hello:app", "--workers", "1"]) == 0 and shared == []
    assert cli.main(["hello:app", "--workers", "1", "--uwsgi-cache", "items=3"]) == 0
    assert shared == [((("items=3",), None, None, Config().extras), 1)]

    def fail(*what):
        raise OSError(12, "Cannot allocate memory")

    closed = []
    listener = types.SimpleNamespace(close=lambda: closed.append(listener))
    monkeypatch.setattr(with_workers, "bind_listeners", lambda config: (listener,))
    monkeypatch.setattr(memory, "share", fail)
    assert cli.main(["hello:app", "--workers", "1", "--uwsgi-module", "on"]) == 2
    assert "uwsgi-cache: there is no memory for it: Cannot allocate memory" in capsys.readouterr().err
    assert closed == [listener]


def test_metrics_are_bound_by_the_supervisor(supervised, served, monkeypatch, capsys):
    """Where the address of the metrics cannot be bound, nothing is left listening."""
    monkeypatch.setattr(with_workers, "bind_listeners", bind_listeners)
    bind = ["--bind", "127.0.0.1:0"]
    assert cli.main(["--workers", "4", "--metrics", "127.0.0.1:0", *bind]) == 0
    observed = types.SimpleNamespace(
        statuses=types.SimpleNamespace(describe=dict),
        config=Config(),
        processes=list,
        pages=list,
        fleet=None,
        ready_count=0,
    )
    several, *_ = supervised.supervise(SupervisorContext(observed, {}, lambda *_: None, None))
    (metrics,) = several._context.bound
    (listener,) = supervised.made[0][2]
    listener.close()
    assert cli.main(["--workers", "4", "--metrics", "127.0.0.1:%d" % metrics.address[1], *bind]) == 2
    assert "another program listens there" in capsys.readouterr().err and len(supervised.made) == 1
    several.close(is_end=True)


def test_the_platforms_workers(supervised, monkeypatch, capsys):
    """WEB_CONCURRENCY is how many a platform has room for, and the log says so; not so where a flag says otherwise."""
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    cli.main(["hello:app"])
    cli.main(["hello:app", "--workers", "2"])
    assert [plan.config.workers for plan, _, _, _ in supervised.made] == [3, 2]
    assert capsys.readouterr().err.count("WEB_CONCURRENCY is 3") == 1


def test_workers_of_a_process(supervised, tmp_path):
    """The pid file of --pid-file, bound and written first, is the supervisor's; a worker leaves the file."""
    path, pid_file = str(tmp_path / "s"), str(tmp_path / "pid")
    assert cli.main(["hello:app", "--workers", "1", "--pid-file", pid_file, "--bind", f"unix:{path}"]) == 0
    ((_, _, (listener,), _),) = supervised.made
    assert listener.address == path and not os.path.exists(pid_file)


def test_workers_that_cannot_start(supervised, capsys):
    """The app's traceback, a single line, and status 1."""
    supervised.outcome = StartFailed("worker 1 could not start", "Traceback: here\n")
    assert cli.main(["hello:app", "--workers", "1"]) == 1
    assert capsys.readouterr().err == "Traceback: here\naserve: error: worker 1 could not start\n"


def test_check_of_workers(supervised, capsys):
    """--check imports the app here, and starts nothing."""
    assert cli.main(["hello:app", "--workers", "4", "--check"]) == 0
    assert supervised.made == [] and "All is well" in capsys.readouterr().out


def test_the_demo_in_workers(supervised, capsys):
    """The supervisor names the demo, once."""
    cli.main(["--workers", "4"])
    assert capsys.readouterr().err.count("no APP was named") == 1


# Upgrades


@pytest.fixture
def memory_file():
    """Return the descriptor of a file in memory with this in JSON."""

    def write(value):
        fd = open_memory_file("test")
        os.write(fd, json.dumps(value).encode())
        return fd

    return write


def test_new_code_takes_what_the_old_left(supervised, monkeypatch, memory_file):
    """Descriptors of the old code are named to nobody else; a message in an unknown form leaves the settings of now."""
    common = {
        "version": "0.0.1",
        "blocked": [],
        "descriptors": [],
        "listeners": [],
        "farewell": {"channels": [], "message": {}},
    }
    known = {"settings": {"workers": 7}, "app": "hello:app", "size": 8, "pages": 0, "children": [], "metrics": []}
    for left, workers in (({**common, **known, "form": FORM}, 7), ({**common, "form": 99}, 4)):
        monkeypatch.setenv("ASERVE_INHERITANCE", str(memory_file(left)))
        assert cli.main(["hello:app", "--workers", "4"]) == 0
        plan, _, listeners, command = supervised.made[-1]
        assert (plan.config.workers, plan.spec, listeners) == (workers, "hello:app", [])
        assert supervised.inherited[-1].version == "0.0.1"
        assert "ASERVE_INHERITANCE" not in command.environ and "ASERVE_INHERITANCE" not in os.environ


def test_a_spooler_does_the_jobs_of_a_folder(supervised, served, monkeypatch):
    """A spooler imports the app, and begins like a worker."""
    begun, done = [], []
    monkeypatch.setattr(hooks, "_functions", [lambda: begun.append(sys.modules["hello"])])
    monkeypatch.setattr(hooks, "_has_begun", False)
    monkeypatch.setattr(runner, "run_spooler", lambda *what: done.append(what) or 0)
    monkeypatch.setenv("ASERVE_DOES_JOBS_OF", "/jobs")
    assert cli.main(["hello:app", "--workers", "4", "--spooler", "/jobs"]) == 0
    assert begun == [sys.modules["hello"]] and [(*what[:2], *what[3:]) for what in done] == [
        ("/jobs", uwsgi.spooler_function, 0, None)
    ]
    assert supervised.made == [] and "ASERVE_DOES_JOBS_OF" not in os.environ
    assert present().is_spooler and (present().worker_id, present().masterpid) == (0, os.getppid())
    install()


def test_a_spooler_without_its_folder(supervised, served, monkeypatch, capsys, tmp_path):
    """A single line has the reason of the idle spooler."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASERVE_DOES_JOBS_OF", str(tmp_path / "file" / "jobs"))
    assert cli.main(["hello:app", "--workers", "4", "--spooler", "/jobs"]) == 2
    assert f"aserve: error: spooler {tmp_path}/file/jobs: " in capsys.readouterr().err
    install()


@pytest.mark.parametrize("text", ["x", "987654"])
def test_variables_that_are_aserves_own(served, monkeypatch, capsys, text):
    """A person with such a variable is told."""
    monkeypatch.setenv("ASERVE_TRIAL", text)
    assert cli.main(["hello"]) == 2
    assert "ASERVE_TRIAL is for aserve itself, when it is upgraded; unset it" in capsys.readouterr().err
