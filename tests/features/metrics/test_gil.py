"""How long a thread waits for the GIL."""

import sys
import threading

import pytest
from harness.waiting import wait_until

from aserve.connections.monitoring.stacks import describe_stacks
from aserve.features.metrics import gil as module
from aserve.features.metrics.gil import GilWatch, has_gil

needs_gil = pytest.mark.skipif(not has_gil(), reason="this Python has none")


@needs_gil
def test_it_tells_until_stopped(monkeypatch):
    """The watch tells again and again, from its own thread, which no stack shows; until it is stopped."""
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.001)
    told, threads = [], set()

    def note(seconds):
        told.append(seconds)
        threads.add(threading.current_thread().name)

    watch = GilWatch(note)
    watch.start()
    wait_until(lambda: len(told) > 3)
    assert "aserve-gil-watch" not in describe_stacks()
    watch.stop()
    assert not watch._thread.is_alive() and threads == {"aserve-gil-watch"}
    assert all(0 <= seconds < 60 for seconds in told)


def test_how_late_is_never_negative(monkeypatch):
    """The told time is beyond the sleep, and never below zero: a clock may be coarse."""
    told, clock = [], iter([10.0, 10.0 + module.INTERVAL_SECONDS + 0.5, 20.0, 20.0 + module.INTERVAL_SECONDS / 2, 30.0])
    watch = GilWatch(told.append)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    waits = iter([False, False, True])
    watch._is_over.wait = lambda seconds: next(waits)
    watch._run()
    assert told == [pytest.approx(0.5), 0.0]


@needs_gil
def test_it_waits_for_who_has_the_gil(monkeypatch):
    """While another thread holds the GIL, the watch waits."""
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.05)
    told = []
    before = sys.getswitchinterval() if hasattr(sys, "getswitchinterval") else None
    watch = GilWatch(told.append)
    sys.setswitchinterval(30.0)
    try:
        watch.start()
        deadline = module.time.monotonic() + 0.5
        while module.time.monotonic() < deadline:
            pass  # computes, and lets nobody else
    finally:
        sys.setswitchinterval(before)
        wait_until(lambda: told)
        watch.stop()
    assert max(told) > 0.2


def test_without_a_gil(monkeypatch):
    """There is nothing to wait for, and no thread."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    watch = GilWatch(lambda seconds: None)
    watch.start()
    assert not watch._thread.is_alive()
    watch.stop()
