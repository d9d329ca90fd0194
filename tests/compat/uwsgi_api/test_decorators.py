"""The decorators of uwsgidecorators: what they register, and what is left of the function."""

from __future__ import annotations

import threading

import pytest

from aserve import rpc as aserve_rpc
from aserve.compat.uwsgi_api import decorators, functions, memory
from aserve.compat.uwsgi_api.decorators import (
    DECORATORS,
    cron,
    filemon,
    harakiri,
    lock,
    rbtimer,
    rpc,
    signal,
    thread,
    timer,
)
from aserve.compat.uwsgi_api.handlers import ALL, ANY, Handler
from aserve.compat.uwsgi_api.schedules import Cron, Every, Watched
from aserve.compat.uwsgi_api.signals import Signals


@pytest.fixture(autouse=True)
def signals(open_memory, monkeypatch):
    """The signals of this process."""
    monkeypatch.setattr(memory, "_memory", open_memory())
    monkeypatch.setattr(functions, "SIGNALS", Signals(memory.shared))
    return functions.SIGNALS


def work(number):
    return 5


def test_signal(signals):
    """The function stays what it is."""
    assert signal(17, target="workers")(work) is work
    assert signals._handlers == {17: Handler(work, ALL)}


@pytest.mark.parametrize(
    ("decorate", "schedule"),
    [
        (lambda **named: timer(3, **named), Every(3.0)),
        (lambda **named: rbtimer(3, **named), Every(3.0)),
        (lambda **named: filemon("/f", **named), Watched("/f")),
        (lambda **named: cron(0, 3, -1, -1, -1, **named), Cron(0, 3, -1, -1, -1)),
    ],
)
def test_scheduled(signals, decorate, schedule):
    """Each takes the first free signal, or the one that is named."""
    signal(0)(work)
    assert decorate()(work) is work and decorate(signum=9, target="spooler")(work) is work
    assert signals._schedules == {1: schedule, 9: schedule}
    assert signals._handlers[9] == Handler(work, ANY)


def test_lock():
    """While the function runs, lock 0 is taken; behind it, it is not, whatever the function does."""

    @lock
    def run(a, b=0):
        assert functions.is_locked()
        return a // b

    assert run(4, b=2) == 2 and run.__name__ == "run"
    with pytest.raises(ZeroDivisionError):
        run(4)
    assert not functions.is_locked()


def test_harakiri(monkeypatch):
    """A limit holds for a call of the function, however it ends."""
    limits = []
    monkeypatch.setattr(decorators, "set_user_harakiri", limits.append)

    @harakiri(5)
    def run(a, b=0):
        limits.append("runs")
        return a // b

    assert run(4, b=2) == 2 and run.__name__ == "run"
    with pytest.raises(ZeroDivisionError):
        run(4)
    assert limits == [5, "runs", 0] * 2


def test_thread():
    """Each call is in a thread of its own, which keeps no process from ending."""
    done, seen = threading.Event(), []

    @thread
    def run(a, b=0):
        seen.append((a, b, threading.current_thread().daemon))
        done.set()

    assert run(1, b=2) is run.__wrapped__
    assert done.wait(20) and seen == [(1, 2, True)]


def test_rpc(monkeypatch):
    """The function is there for other servers, in place of what had the name."""
    monkeypatch.setattr(aserve_rpc.registry, "_functions", {})
    rpc("f")(lambda: b"1")
    rpc("f")(lambda: b"2")
    assert aserve_rpc.call_local(b"f") == b"2"


def test_names():
    """They are called as in uWSGI."""
    assert all(DECORATORS[name].__name__ == name for name in DECORATORS)
