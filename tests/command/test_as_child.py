"""The command in a child of a supervisor: where the supervisor's run returns a role, and in a trial."""

import importlib
import logging
import os
import socket
import sys
import types

import pytest

from aserve.command import apps, as_child, cli
from aserve.compat.uwsgi_api.module import install
from aserve.core.page import MOLD
from aserve.extension import Life
from aserve.features import Config
from aserve.features.metrics import app_files
from aserve.processes.children.channel import Channel
from aserve.processes.children.role import Role
from aserve.processes.fleet.plan import Plan

CHANNEL = types.SimpleNamespace(detach=int)  # to no supervisor


def test_in_a_worker(supervised, served, capsys, monkeypatch):
    """Where the supervisor's run returns a role, the app is imported and served; the log has the worker's name."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    plan = Plan(Config(workers=4, uwsgi_module="on"), "hello:app")
    listener = types.SimpleNamespace(socket=socket.socket())
    supervised.outcome = Role(3, 1, plan, CHANNEL, (listener,), None, supervisor_pid=4242)
    assert cli.main(["hello:app", "--workers", "4"]) == 7
    assert listener.socket.fileno() == -1  # or Python would warn of the open file
    ((role, app),) = supervised.roles
    assert role.slot == 3 and app.__module__ == "hello"
    uwsgi = importlib.import_module("uwsgi")
    assert (uwsgi.worker_id(), uwsgi.masterpid(), uwsgi.numproc) == (3, 4242, 4)
    logging.getLogger("aserve").warning("it is so")
    assert " worker 3: it is so\n" in capsys.readouterr().err
    del sys.modules["uwsgi"]
    install()


def test_in_a_mold(supervised, served, capsys, monkeypatch):
    """A mold imports the app as no worker; each forked worker then has a separate name."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    plan = Plan(Config(workers=4, preload=True, uwsgi_module="on"), "hello:app")
    mold = Role(MOLD, 1, plan, CHANNEL, (), None, supervisor_pid=4242)
    molds = []
    monkeypatch.setattr(as_child, "run_mold", lambda *arguments: molds.append(arguments) or 7)
    supervised.outcome = mold
    assert cli.main(["hello:app", "--workers", "4", "--preload"]) == 7
    ((role, load, enter),) = molds
    assert role is mold and load().__module__ == "hello"
    uwsgi = importlib.import_module("uwsgi")
    assert (uwsgi.worker_id(), uwsgi.masterpid(), uwsgi.numproc) == (0, 4242, 4)
    enter(mold._replace(slot=2))
    assert uwsgi.worker_id() == 2
    enter(mold._replace(slot=3, plan=Plan(Config(workers=4), None)))
    assert uwsgi.worker_id() == 2  # nothing is told to a module without importers
    logging.getLogger("aserve").warning("it is so")
    assert capsys.readouterr().err.endswith(" worker 3: it is so\n")
    del sys.modules["uwsgi"]
    install()


def test_the_end_of_a_worker_from_a_mold(supervised, served, monkeypatch):
    """Extensions know the process as the worker, and not as the former mold."""
    mold = Role(MOLD, 1, Plan(Config(workers=2, preload=True), "hello:app"), CHANNEL, (), None, supervisor_pid=4242)
    ends = []
    monkeypatch.setattr(as_child, "on_life", lambda event, context: ends.append((event, context.role)))
    monkeypatch.setattr(as_child, "run_mold", lambda role, load, enter: enter(mold._replace(slot=2)) and 0)
    supervised.outcome = mold
    cli.main(["hello:app", "--workers", "2", "--preload"])
    assert ends[-1] == (Life.ENDS, mold._replace(slot=2))


def test_files_of_the_app(supervised, served, monkeypatch, tmp_path):
    """A worker knows the folder of the app's counts before the app's import; a worker from a mold, after the fork."""
    named = []
    monkeypatch.setattr(
        app_files,
        "name_files",
        lambda environ, *where: named.append((where, "hello" in sys.modules, environ is os.environ)),
    )
    monkeypatch.delitem(sys.modules, "hello", raising=False)
    plan = Plan(Config(workers=4, metrics="127.0.0.1:1"), "hello:app")
    supervised.outcome = Role(3, 1, plan, CHANNEL, (), None, given={app_files.GIVEN: str(tmp_path)}, page_number=3)
    assert cli.main(["hello:app", "--workers", "4"]) == 7
    apps.enter(supervised.outcome._replace(page_number=4))
    assert named == [((str(tmp_path), "w3", ""), False, True), ((str(tmp_path), "w4", ""), True, True)]


def test_a_trial_becomes_a_worker(supervised, served, monkeypatch, tmp_path):
    """A trial becomes a worker, for the present settings."""
    ours, theirs = Channel.pair()
    monkeypatch.setenv("ASERVE_TRIAL", str(os.dup(theirs.fileno())))
    assert cli.main(["hello:app", "--workers", "4"]) == 7
    assert supervised.made == [] and "ASERVE_TRIAL" not in os.environ
    ((role, app),) = supervised.roles
    assert role.name == "the trial" and role.plan.config.workers == 4 and app.__module__ == "hello"
    theirs.close()
    assert ours.receive() is None  # the holder of the far end has ended
    for each in (*(listener.socket for listener in role.listeners), ours):
        each.close()


@pytest.mark.parametrize("argv", [["--thred", "3"], ["--workers", "x"], ["--threads", "3"]])
def test_a_trial_with_settings_that_are_wrong(supervised, monkeypatch, argv, capsys):
    ours, theirs = Channel.pair()
    monkeypatch.setenv("ASERVE_TRIAL", str(os.dup(theirs.fileno())))
    theirs.close()
    assert cli.main(argv) == 1
    message, _ = ours.receive()
    assert message["say"] == "failed" and message["why"] and message["traceback"] == ""
    assert capsys.readouterr().err == ""
    ours.close()


def test_a_library_that_cannot_be_read(supervised, monkeypatch):
    """As with --user, where Python is below root's home: the supervisor is told so, without a traceback."""
    ours, theirs = Channel.pair()
    plan = Plan(Config(workers=1), "hello:app")
    supervised.outcome = Role(1, 1, plan, theirs, (), None, supervisor_pid=4242)

    def fail(*given):
        raise ImportError("No module named 'gzip'")

    monkeypatch.setattr(as_child, "_begin", fail)
    assert cli.main(["--workers", "1", "hello:app"]) == 1
    assert ours.receive()[0]["why"] == "it cannot import what aserve needs: No module named 'gzip'"
    ours.close()
