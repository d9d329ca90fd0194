"""Descriptors, signals and time, of a process without an event loop."""

from __future__ import annotations

import os
import selectors
import signal

import pytest

from aserve.processes.children.clock import Clock
from aserve.processes.children.poller import HANDLED, Poller
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
    """Signals wait for the loop, and are handled in order of arrival."""
    done = []
    events.by_signal.update(dict.fromkeys(HANDLED, done.append))
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGCHLD)
    assert done == []
    for handle in events.wait():
        handle()
    assert done == ["SIGHUP", "SIGCHLD"]
