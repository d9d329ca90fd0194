"""Descriptors, signals and time, of a process without an event loop: limits, and later calls in their order."""

import os
import selectors
import signal

import pytest

from aserve.processes.children.poller import HANDLED, STOPPED_SECONDS, TURN_SECONDS, Clock, Poller, Timers
from aserve.processes.fleet.facts import NEVER


@pytest.fixture
def events():
    before = {number: signal.getsignal(number) for number in HANDLED}
    events = Poller(Clock())
    yield events
    events.close()
    assert {number: signal.getsignal(number) for number in HANDLED} == before


def test_one_after_another(events):
    """Ready descriptors come before due timers; each is a call."""
    done, (reading, writing) = [], os.pipe()
    events.watch(reading, lambda: done.append("descriptor"), selectors.EVENT_READ)
    events.timers.after(0.0, done.append, "timer")
    os.write(writing, b"x")
    for handle in events.wait():
        handle()
    assert done == ["descriptor", "timer"]
    os.close(reading)
    os.close(writing)


def test_until_when_it_waits(events):
    """The wait is until the first of timers and the given time; without any until an event comes."""
    asked = []
    events.selector.select = lambda seconds: asked.append(seconds) or []
    now = events.clock()
    for until in (NEVER, now - 1.0, now + 60.0):
        list(events.wait(until))
    events.timers.after(30.0, print)
    list(events.wait(now + 60.0))
    assert asked[:2] == [None, 0.0] and 59.0 < asked[2] <= 60.0 and 29.0 < asked[3] <= 30.0


def test_signals_wait_for_the_loop(events):
    done = []
    events.by_signal.update(dict.fromkeys(HANDLED, done.append))
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGCHLD)
    assert done == []
    for handle in events.wait():
        handle()
    assert done == ["SIGHUP", "SIGCHLD"]


# The clock and the timers


class Machine:
    """The times read by the clock."""

    def __init__(self):
        self.now = 100.0
        self.clock = Clock(lambda: self.now)

    def after(self, seconds):
        """Let so much time pass; return the clock's time."""
        self.now += seconds
        return self.clock()


def test_it_goes_on():
    """As the system's does, also while another process has the CPU."""
    machine = Machine()
    assert [machine.after(seconds) for seconds in (0.5, 1.0, 2.9)] == [100.5, 101.5, 104.4]


def test_a_stop_of_the_process_does_not_count(caplog):
    """The time of a stop is left out, but for one wait, and logged; each time."""
    machine = Machine()
    assert machine.after(60.0) == 101.0 and "this process was stopped for 59 s; that time does not" in caplog.text
    assert machine.after(1.0) == 102.0
    assert machine.after(TURN_SECONDS + STOPPED_SECONDS) == 103.0 and caplog.text.count("was stopped for") == 2


# Calls to be made later


def new_timers():
    now = [100.0]
    return Timers(lambda: now[0]), now


def run(timers):
    for timer in timers.pop_due():
        timer.run()


def test_calls_come_in_order_of_time():
    timers, now = new_timers()
    made = []
    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        timers.after(seconds, made.append, name)
    assert timers.next_at == 101.0
    now[0] += 1.5
    run(timers)
    assert made == ["first", "second"] and timers.next_at == 102.0
    now[0] += 1
    run(timers)
    assert made[2:] == ["late"] and timers.next_at == NEVER


def test_cancelled_calls_are_not_made():
    timers, now = new_timers()
    made = []
    one = timers.after(1.0, made.append, 1)
    other = timers.after(1.0, made.append, 2)
    now[0] += 1
    due = timers.pop_due()
    one.cancel()
    for timer in [*due, other]:
        timer.run()
    assert made == [2]


def test_a_wake_up():
    """The loop goes on then, and nothing is called."""
    timers, now = new_timers()
    timers.wake_after(2.0)
    assert timers.next_at == 102.0
    now[0] += 2
    run(timers)
    assert timers.next_at == NEVER


def test_seconds_to_one():
    """No second is left once the time has come."""
    timers, now = new_timers()
    timer = timers.after(2.0, print)
    assert timers.seconds_to(timer) == 2.0
    now[0] += 3
    assert timers.seconds_to(timer) == 0.0
