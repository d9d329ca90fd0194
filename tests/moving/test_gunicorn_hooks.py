"""gunicorn's hooks: what each is given, and what happens when one raises."""

from __future__ import annotations

import os

import pytest

from aserve.loading import LoadError
from aserve.moving.gunicorn_hooks import Hooks, does_nothing


@pytest.fixture
def calls():
    """What was called, in order."""
    return []


def hooks_of(calls, *names, **settings):
    """Return hooks that note their names, and their last argument."""
    return Hooks({name: lambda *given, name=name: calls.append((name, given)) for name in names}, settings)


def test_in_the_supervisor(calls):
    """They get the server, with its settings."""
    hooks = hooks_of(calls, "on_starting", workers=3)
    hooks.in_supervisor("on_starting")
    hooks.in_supervisor("when_ready")
    ((name, (server,)),) = calls
    assert name == "on_starting" and server.pid == os.getpid() and server.cfg.workers == 3 == server.num_workers
    assert server.cfg.timeout == 30
    server.log.info("can be told")


def test_in_a_worker(calls):
    """Before the app, with it, and at the end; a process that is no worker has no end of one."""
    hooks = hooks_of(calls, "post_fork", "post_worker_init", "worker_exit")
    hooks.end_worker()
    hooks.enter_worker(2)
    hooks.end_worker()
    assert [name for name, _ in calls] == ["post_fork", "post_worker_init", "worker_exit"]
    (server, worker), (same,), (_, last) = [given for _, given in calls]
    assert worker is same is last and (worker.pid, worker.age, worker.alive) == (os.getpid(), 2, False)
    assert server.pid == os.getppid()


def test_one_that_has_ended(calls):
    """child_exit is told which, in the supervisor."""
    hooks_of(calls, "child_exit").child_exit(77, 2)
    hooks_of(calls).child_exit(77, 2)
    ((_, (server, worker)),) = calls
    assert (worker.pid, worker.age, server.pid) == (77, 2, os.getpid())


def raise_it(*given):
    """A hook with a mistake."""
    raise KeyError("x")


def test_one_that_raises(caplog):
    """At the start it is an error like the app's; at an end it is logged."""
    hooks = Hooks(dict.fromkeys(("post_fork", "on_starting", "child_exit", "worker_exit"), raise_it), {})
    for call in (lambda: hooks.in_supervisor("on_starting"), lambda: hooks.begin_worker(1)):
        with pytest.raises(LoadError, match=r"calling gunicorn's hook (on_starting|post_fork) raised KeyError: 'x'"):
            call()
    hooks.child_exit(1, 1)
    hooks.end_worker()
    assert [record.message for record in caplog.records] == [
        "child_exit of gunicorn's configuration has raised", "worker_exit of gunicorn's configuration has raised",
    ]  # fmt: skip


def nothing(server, worker):
    """With a docstring."""


def something(server, worker):
    server.log.info("x")


@pytest.mark.parametrize(
    ("function", "is_it"),
    [(nothing, True), (lambda server: None, True), (something, False), (print, False), (3, False)],
)
def test_empty_ones(function, is_it):
    """What an example has left in a file needs no word."""
    assert does_nothing(function) is is_it
