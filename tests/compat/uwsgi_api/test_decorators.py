"""The decorators of uwsgidecorators: their registrations, and the function left."""

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
from aserve.compat.uwsgi_api.signals import UwsgiSignals


@pytest.fixture(autouse=True)
def signals(open_memory, monkeypatch):
    """The signals of this process."""
    monkeypatch.setattr(memory, "_memory", open_memory())
    monkeypatch.setattr(functions, "SIGNALS", UwsgiSignals(memory.shared))
    return functions.SIGNALS


def work(number):
    return 5


def test_signal_leaves_the_function_unchanged(signals):
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
def test_scheduled_functions_take_a_free_signal(signals, decorate, schedule):
    signal(0)(work)
    assert decorate()(work) is work and decorate(signum=9, target="spooler")(work) is work
    assert signals._schedules == {1: schedule, 9: schedule}
    assert signals._handlers[9] == Handler(work, ANY)


def test_lock_is_held_while_the_function_runs():
    @lock
    def run(a, b=0):
        assert functions.is_locked()
        return a // b

    assert run(4, b=2) == 2 and run.__name__ == "run"
    with pytest.raises(ZeroDivisionError):
        run(4)
    assert not functions.is_locked()


def test_harakiri_limits_one_call(monkeypatch):
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


def test_thread_runs_each_call_in_a_thread():
    done, seen = threading.Event(), []

    @thread
    def run(a, b=0):
        seen.append((a, b, threading.current_thread().daemon))
        done.set()

    assert run(1, b=2) is run.__wrapped__
    assert done.wait(20) and seen == [(1, 2, True)]


def test_rpc_registers_the_function(monkeypatch):
    monkeypatch.setattr(aserve_rpc.registry, "_functions", {})
    rpc("f")(lambda: b"1")
    rpc("f")(lambda: b"2")
    assert aserve_rpc.call_local(b"f") == b"2"


def test_names_are_uwsgis_own():
    assert all(DECORATORS[name].__name__ == name for name in DECORATORS)
