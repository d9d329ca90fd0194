"""Timers and cron of all hosts: each host has separate memory, and a single host does each due run."""

import threading
import time

import pytest
from harness.sharing_uwsgi import wait_for_runs

from aserve.compat.uwsgi_api import signals as module
from aserve.compat.uwsgi_api.handlers import places_of
from aserve.compat.uwsgi_api.hosts import join
from aserve.compat.uwsgi_api.schedules import Cron, Every, Ticks
from aserve.compat.uwsgi_api.signals import HANGS_SECONDS, LOOK_SECONDS, UwsgiSignals
from aserve.features.sharing.settings import Shared


@pytest.fixture
def new(open_memory, clock, store_server):
    """Make a worker of a new host, or of another's: new(schedule, target="", worker_id=1, like=None, function=None) -> Signals."""
    memories = []

    def new_(schedule, target="", worker_id=1, like=None, function=None):
        memory = like.memory if like else open_memory()
        if like is None:
            memory.join(join([], Shared(store_server.url, "shop")))
            memories.append(memory)
        signals = UwsgiSignals(lambda: memory)
        signals.memory, signals.noted = memory, []

        def note(number):
            signals.noted.append(number)
            if function:
                function(number)

        signals.register(5, target, note)
        signals.schedule(5, schedule)
        signals.begin(places_of(worker_id), lambda: True)
        look(signals)
        return signals

    yield new_
    wait_for_runs()
    for memory in memories:
        memory.hosts.turns.leases.end()
        memory.hosts.store.end()


def look(*workers):
    """Have the hosts look, in turn, each until the begun runs have ended; return the last host's result."""
    for signals in workers:
        seconds = signals.look()
        wait_for_runs()
    return seconds


@pytest.mark.parametrize(
    ("schedule", "seconds"), [(Cron(-1, -1, -1, -1, -1), 60), (Every(60.0), 60), (Every(0.25), 0.25)]
)
def test_one_of_all(new, clock, schedule, seconds):
    first = new(schedule)
    workers = [first, new(schedule, worker_id=2, like=first), new(schedule)]
    for number in range(1, 5):
        clock.now += seconds
        look(*workers[number % 3 :], *workers[: number % 3])
        look(*workers)
        assert [5 for worker in workers for _ in worker.noted] == [5] * number


def test_when_to_look_again(new, clock):
    worker = new(Every(10.0))
    assert look(worker) == LOOK_SECONDS
    clock.now += 9.75
    assert look(worker) == 0.25


def test_runs_for_each_worker_are_each_hosts(new, clock):
    for schedule, target in ((Every(60.0), "workers"), (Every(60.0, 3), "")):
        one, two = new(schedule, target), new(schedule, target)
        clock.now += 61
        look(one, two)
        assert one.noted == two.noted == [5]


def test_for_one_worker(new, clock):
    one = new(Every(60.0), "worker2")
    two, three = new(Every(60.0), "worker2", 2, like=one), new(Every(60.0), "worker2", 2)
    clock.now += 60
    look(one, two, three)
    assert one.noted == [] and two.noted + three.noted == [5]


def test_while_it_runs(new, clock, caplog, monkeypatch):
    """No host begins the run once more; waiting ticks are a single tick; a hanging run is told."""
    waits, goes_on = threading.Event(), threading.Event()

    def wait(number):
        waits.set()
        assert goes_on.wait(20)

    one, two = new(Every(60.0), function=wait), new(Every(60.0))
    clock.now += 60
    one.look()
    assert waits.wait(20)
    clock.now += 120
    two.look()
    assert two.noted == []
    monkeypatch.setitem(one._running, 5, one._running[5] - HANGS_SECONDS - 1)
    one.look()
    assert caplog.text.count("which is due again; it waits for its end") == 1
    goes_on.set()
    look(two, one)
    wait_for_runs()
    look(two, one)
    assert two.noted + one.noted == [5, 5] and two._leases == one._leases == {}


def test_a_signal_that_runs(new, clock, monkeypatch):
    """Where a request's signal runs, the tick waits on the same host."""
    waits, goes_on = threading.Event(), threading.Event()

    def wait(number):
        waits.set()
        assert goes_on.wait(20)

    one = new(Every(60.0), function=wait)
    other = new(Every(60.0), worker_id=2, like=one)
    one.send(5)
    one.look()
    assert waits.wait(20)
    clock.now += 60
    with monkeypatch.context() as patched:
        patched.setattr(other.memory.locks, "begin", lambda number: False)  # as in another process
        other.look()
    assert other.noted == [] and other._leases == {}
    goes_on.set()
    wait_for_runs()
    look(other)
    assert one.noted + other.noted == [5, 5]


def test_an_absent_store_delays_a_tick(new, clock, store_server):
    one, two = new(Every(60.0)), new(Every(60.0))
    store_server.kill()
    clock.now += 180
    look(one, two)
    assert one.noted == two.noted == []
    store_server.start()
    for worker in (one, two):
        worker.memory.hosts.store._away_since = None
    look(one, two)
    assert one.noted + two.noted == [5]


def test_the_clocks_of_hosts_begin_in_1970():
    assert abs(module._now(Ticks(1.0)) - time.time()) < 100 and abs(module._now(Every(1.0)) - time.monotonic()) < 100
