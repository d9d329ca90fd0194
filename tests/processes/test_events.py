"""Descriptors, signals and time, of a process that has no event loop."""

from __future__ import annotations

import os
import selectors
import signal

import pytest

from aserve.processes.events import HANDLED, Events
from aserve.processes.timers import Timers


@pytest.fixture
def events():
    before = {number: signal.getsignal(number) for number in HANDLED}
    events = Events(Timers())
    yield events
    events.close()
    assert {number: signal.getsignal(number) for number in HANDLED} == before


def test_one_after_another(events):
    """Descriptors that are ready come before timers that are due; each is a call."""
    done, (reading, writing) = [], os.pipe()
    events.watch(reading, lambda: done.append("descriptor"), selectors.EVENT_READ)
    events.timers.after(0.0, done.append, "timer")
    os.write(writing, b"x")
    for handle in events.wait():
        handle()
    assert done == ["descriptor", "timer"]
    os.close(reading)
    os.close(writing)


def test_signals(events):
    """They wait until the loop comes by, and are handled in the order in which they came."""
    done = []
    events.by_signal.update(dict.fromkeys(HANDLED, done.append))
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGCHLD)
    assert done == []
    for handle in events.wait():
        handle()
    assert done == [signal.SIGHUP, signal.SIGCHLD]
