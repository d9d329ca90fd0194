"""Signals, timers, cron: their runners, times, and the end of a process."""

import threading
import time

import pytest
from harness.sharing_uwsgi import wait_for_runs

from aserve.compat.uwsgi_api import signals as module
from aserve.compat.uwsgi_api.handlers import places_of
from aserve.compat.uwsgi_api.schedules import Cron, Every
from aserve.compat.uwsgi_api.signals import LOOK_SECONDS, STRANGER_SECONDS, UwsgiSignals
from aserve.workers.threads import Watcher


@pytest.fixture
def new(memory, clock):
    """Make a worker: new(worker_id=1, function=None, target="", schedule=None) -> Signals, whose signal 5 notes its number."""

    def new_(worker_id=1, target="", schedule=None, function=None, since=None):
        signals = UwsgiSignals(lambda: memory)
        signals.noted = []
        signals.register(5, target, function or signals.noted.append)
        if schedule is not None:
            signals.schedule(5, schedule)
        signals.is_serving = True
        signals.begin(places_of(worker_id), lambda: signals.is_serving)
        return signals

    return new_


def look(signals):
    """Look, and wait until the begun runs have ended; return the seconds to the next look."""
    seconds = signals.look()
    wait_for_runs()
    return seconds


def test_the_thread_of_the_clock(new):
    """The thread only sleeps and looks: `aserve stacks` leaves it out."""
    assert isinstance(new()._clock, Watcher)


def test_each_raised_signal_is_run_once(new):
    one, two = new(1), new(2)
    one.send(5)
    one.send(5)
    look(two)
    look(one)
    look(two)
    look(one)
    assert one.noted + two.noted == [5, 5] and len(two.noted) == 1


def test_raised_under_the_lock(new, memory):
    """A finalizer there raises a signal, and registers a signal, without a wait for the same thread."""
    one = new(1)

    def interrupted():
        one.send(5)
        one.register(6, "", one.noted.append)
        one.schedule(6, Every(10))

    memory.locks.run(interrupted)
    one.send(6)
    look(one)
    assert sorted(one.noted) == [5, 6]


def test_signals_for_all_run_in_each_worker(new):
    """Each worker runs signals for all, as often as raised since its begin."""
    one = new(1, "workers")
    one.send(5)
    look(one)
    two = new(2, "workers")
    look(two)
    two.send(5)
    two.send(5)
    for _ in range(2):
        look(one)
        look(two)
    assert one.noted == [5] * 3 and two.noted == [5] * 2


def test_a_signal_for_one_runs_there(new):
    one, two = new(1, "worker2"), new(2, "worker2")
    one.send(5)
    look(one)
    look(two)
    assert one.noted == [] and two.noted == [5]


@pytest.mark.parametrize("number", [-1, 256])
def test_no_such_signal(new, number):
    """There are 256."""
    signals = new()
    for use in (signals.send, signals.is_registered):
        with pytest.raises(ValueError, match="they are 0 to 255"):
            use(number)
    with pytest.raises(ValueError, match="they are 0 to 255"):
        signals.register(number, "", print)
    with pytest.raises(TypeError, match="5 is no function"):
        signals.register(1, "", 5)


def test_each_tick_is_one_workers(new, clock):
    one, two = new(1, schedule=Every(10.0)), new(2, schedule=Every(10.0))
    assert look(one) == LOOK_SECONDS
    clock.now += 9.75
    assert look(one) == 0.25 and look(two) == 0.25
    clock.now += 0.25
    look(one)
    look(two)
    assert one.noted + two.noted == [5]
    clock.now += 35
    look(two)
    look(one)
    assert one.noted + two.noted == [5, 5]


def test_timer_for_all(new, clock):
    """A tick is each worker's."""
    one, two = new(1, "workers", Every(10.0)), new(2, "workers", Every(10.0))
    clock.now += 10
    for signals in (one, two, one, two):
        look(signals)
    assert one.noted == two.noted == [5]


def test_a_limited_timer_counts_over_workers(new, clock):
    one, two = new(1, schedule=Every(10.0, 2)), new(2, schedule=Every(10.0, 2))
    for _ in range(4):
        clock.now += 10
        look(one)
        look(two)
    three = new(3, schedule=Every(10.0, 2))
    clock.now += 10
    look(three)
    assert one.noted + two.noted + three.noted == [5, 5]


def test_ticks_that_are_one(new, clock):
    """A waiting tick is due once; only runs count."""
    one, two = new(1, "worker2", Every(10.0, 2)), new(2, "worker2", Every(10.0, 2))
    for _ in range(3):
        clock.now += 10
        look(one)
    look(two)
    assert two.noted == [5]
    for _ in range(3):
        clock.now += 10
        look(two)
    assert two.noted == [5, 5]


def test_at_the_end(new):
    """An ending process takes nothing more: Python waits for each found run."""
    one, two = new(1), new(2)
    one.send(5)
    one.end()
    look(one)
    look(two)
    assert one.noted == [] and two.noted == [5]


def test_the_end_waits_for_what_is_taken(new, monkeypatch):
    """A clock's thread, dead with Python, would lose taken, not yet begun runs."""
    signals = new()
    signals.send(5)
    is_taken, may_begin, begin = threading.Event(), threading.Event(), signals._begin_run

    def begin_late(*run):
        is_taken.set()
        assert may_begin.wait(20)
        begin(*run)

    monkeypatch.setattr(signals, "_begin_run", begin_late)
    clock, end = threading.Thread(target=signals.look), threading.Thread(target=signals.end)
    clock.start()
    assert is_taken.wait(20)
    end.start()
    end.join(0.05)
    assert end.is_alive()
    may_begin.set()
    clock.join(20)
    end.join(20)
    wait_for_runs()
    assert signals.noted == [5] and not end.is_alive()


def test_a_minute_of_cron_is_one_workers(new, clock):
    cron = Cron(-2, -1, -1, -1, -1)
    one, two = new(1, schedule=cron), new(2, schedule=cron)
    assert look(one) == LOOK_SECONDS and one.noted == []
    for _ in range(240):
        clock.now += 1
        look(one)
        look(two)
    assert one.noted + two.noted == [5, 5]


def test_a_draining_worker_takes_nothing(new, clock):
    one = new(1, schedule=Every(10.0))
    one.is_serving = False
    clock.now += 10
    one.send(5)
    assert look(one) == LOOK_SECONDS
    two = new(1, schedule=Every(10.0))
    look(two)
    look(two)
    assert one.noted == [] and two.noted == [5]


def test_other_code_has_its_own_schedule(new, clock):
    """New code's schedule counts from the start on; old code leaves the schedule to new code, unless nobody looks."""
    old = new(1, schedule=Every(1000.0))
    young = new(2, schedule=Every(10.0))
    clock.now += 10
    look(old)
    look(young)
    assert old.noted == [] and young.noted == [5]
    clock.now += 10 + STRANGER_SECONDS
    look(old)
    assert old.noted == [5]


def test_code_of_before_begins_again(new, clock):
    """After a withdrawn reload the schedule is the last beginner's, though others have the same."""
    first = new(1, schedule=Every(10.0))
    new(2, schedule=Every(1000.0))
    last = new(3, schedule=Every(10.0))
    clock.now += 10
    look(first)
    look(last)
    assert first.noted + last.noted == [5]


def test_what_was_due_of_other_code(new, clock):
    """Such a run is dropped: the number may be another function's by now."""
    old = new(1, schedule=Every(10.0))
    old.send(5)
    young = new(2, schedule=Every(20.0))
    look(young)
    assert young.noted == []


def test_overwritten_by_code_of_before(new, clock, memory):
    """The later process writes its schedule once more."""
    young = new(2, schedule=Every(10.0))
    entry = young._read(5)
    young._write(5, entry._replace(schedule=7, since=0.0))
    look(young)
    assert young._read(5).schedule == entry.schedule
    clock.now += 10
    look(young)
    assert young.noted == [5]


@pytest.mark.provokes("has failed")
def test_a_function_that_raises(new, caplog):
    """The log has the exception; the next time the function runs again."""
    calls = []

    def fail(number):
        calls.append(number)
        raise SystemExit("no")

    signals = new(function=fail)
    for _ in range(2):
        signals.send(5)
        look(signals)
    assert calls == [5, 5]
    assert "test_a_function_that_raises.<locals>.fail, which runs for uwsgi signal 5, has failed" in caplog.text


def test_a_function_that_hangs(new, caplog, monkeypatch):
    """The function is not run again meanwhile; other signals are; the log says so, once."""
    gate, begun = threading.Event(), threading.Event()

    def hang(number):
        begun.set()
        assert gate.wait(20)

    signals, noted = new(function=hang), []
    signals.register(6, "", noted.append)
    signals.send(5)
    signals.look()
    assert begun.wait(20)
    signals.send(5)
    signals.send(6)
    signals.look()
    monkeypatch.setattr(module, "HANGS_SECONDS", -1.0)
    signals.look()
    signals.look()
    (record,) = caplog.records
    assert "for uwsgi signal 5, which is due again; it waits for its end" in record.getMessage()
    gate.set()
    wait_for_runs()
    assert noted == [6] and signals._read(5).pending == 1
    begun.clear()
    look(signals)
    assert begun.is_set() and signals._read(5).pending == 0


def test_another_process_runs_it(new, memory, other):
    """Due runs wait for the process's end; at the process's death, due runs come at once."""
    process = other(memory, "tell(memory.locks.begin(5))\nwait()\n")
    assert process.hear() == "True"
    signals = new()
    signals.send(5)
    look(signals)
    assert signals.noted == [] and signals._read(5).pending == 1
    process.process.kill()
    process.process.wait()
    look(signals)
    assert signals.noted == [5]


@pytest.mark.parametrize("target", ["", "workers"])
def test_no_thread_leaves_runs_to_others(new, monkeypatch, target):
    one, two = new(1, target), new(2, target)
    one.send(5)

    class Nobody:
        def __init__(self, **named):
            pass

        def start(self):
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(module.threading, "Thread", Nobody)
        one.look()
    look(two)
    assert two.noted == [5] and one._running == {}


def test_before_it_serves(memory, clock):
    """A mold takes nothing, and a mold's registrations are the workers'."""
    signals, noted = UwsgiSignals(lambda: memory), []
    signals.register(5, "", noted.append)
    signals.send(5)
    assert look(signals) == LOOK_SECONDS and noted == [] and signals._clock is None
    signals.begin(places_of(1), lambda: True)
    look(signals)
    assert noted == [5]


def test_in_a_process_that_is_forked(new):
    """A forked process takes nothing, as no thread of its looks."""
    signals = new()
    signals._leave()
    signals.send(5)
    assert look(signals) == LOOK_SECONDS and signals.noted == []


@pytest.mark.provokes("internal error")
@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit])
def test_the_clock_goes_on_after_a_failure(memory, monkeypatch, caplog, kind):
    """A thread looks, and goes on after a failure; a raised signal wakes it."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    done, looks = threading.Event(), []
    look_ = UwsgiSignals.look

    def failing_once(self):
        looks.append(self)
        if len(looks) == 1:
            raise kind
        return look_(self)

    monkeypatch.setattr(UwsgiSignals, "look", failing_once)
    signals = UwsgiSignals(lambda: memory)
    signals.begin(places_of(1), lambda: True)
    signals.schedule(5, Every(1e6))
    signals.register(5, "", lambda number: done.set())
    deadline = time.monotonic() + 20
    while not looks and time.monotonic() < deadline:
        time.sleep(0.001)
    signals.send(5)
    assert done.wait(20) and "internal error" in caplog.text
    clock = signals._clock
    signals.end()
    clock.join(20)
    assert not clock.is_alive()
    signals.begin(places_of(1), lambda: True)  # the server serves again
    assert signals._clock is not clock and signals._clock.is_alive()
    clock = signals._clock
    assert not signals._end_clock() and signals._clock is clock  # where the thread has not seen the end before
    signals.end()
    clock.join(20)
    assert not clock.is_alive()
