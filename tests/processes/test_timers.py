"""Calls to be made later: when, in which order, and not those that were cancelled."""

from __future__ import annotations

from aserve.processes.timers import Timers


def new_timers():
    now = [100.0]
    return Timers(lambda: now[0]), now


def run(timers):
    for timer in timers.pop_due():
        timer.run()


def test_order():
    """They are made by their time, and those of one time in the order in which they were asked for."""
    timers, now = new_timers()
    made = []
    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        timers.after(seconds, made.append, name)
    assert timers.seconds_to_next() == 1.0
    now[0] += 1.5
    assert timers.seconds_to_next() == 0.0
    run(timers)
    assert made == ["first", "second"] and timers.seconds_to_next() == 0.5
    now[0] += 1
    run(timers)
    assert made[2:] == ["late"] and timers.seconds_to_next() is None


def test_cancelled():
    """A cancelled call is not made, also when its time has come already; nor is one made twice."""
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


def test_stopped(caplog):
    """The time for which the process was stopped does not count: what is overdue for so long was not to be done in it."""
    timers, now = new_timers()
    made = []
    for seconds in (1.0, 3.0, 70.0):
        timers.after(seconds, made.append, seconds)
    now[0] += 60
    run(timers)
    assert made == [1.0] and "this process was stopped for 59 s" in caplog.text
    assert timers.seconds_to_next() == 2.0
    now[0] += 3.5  # another process had the CPU
    run(timers)
    assert made == [1.0, 3.0] and timers.seconds_to_next() == 65.5
    now[0] += 65.5
    run(timers)
    assert made == [1.0, 3.0, 70.0] and timers.seconds_to_next() is None


def test_a_wake_up():
    """The loop goes on then, and nothing is called."""
    timers, now = new_timers()
    timers.wake_after(2.0)
    assert timers.seconds_to_next() == 2.0
    now[0] += 2
    run(timers)
    assert timers.seconds_to_next() is None
