"""How much of a CPU the process burns."""

import sys
import threading
import time

import pytest
from harness.waiting import PATIENCE_SECONDS

from aserve.workers import cpu
from aserve.workers.cpu import WINDOW_SECONDS, CpuMeter, is_ready


@pytest.fixture
def clocks(monkeypatch):
    """Set what the two clocks show, in seconds: time, and CPU time."""
    shown = {"perf_counter": 100.0, "process_time": 10.0}
    for name in shown:
        monkeypatch.setattr(cpu.time, name, lambda name=name: shown[name])

    def advance(seconds, cpu_seconds):
        shown["perf_counter"] += seconds
        shown["process_time"] += cpu_seconds

    return advance


@pytest.mark.parametrize(("cpu_seconds", "is_busy"), [(0.0, False), (0.0079, False), (0.0081, True), (0.020, True)])
def test_most_of_a_cpu(clocks, monkeypatch, cpu_seconds, is_busy):
    """From four fifths of one CPU on the process is busy; without a GIL never."""
    for has_gil in (True, False):
        monkeypatch.setattr(cpu, "HAS_GIL", has_gil)
        meter = CpuMeter()
        assert not meter.measure()  # nothing is known yet
        clocks(0.010, cpu_seconds)
        assert meter.measure() == meter.is_busy == (is_busy and has_gil)


def test_too_soon_to_judge(clocks, monkeypatch):
    """Within the window the last judgement stands."""
    monkeypatch.setattr(cpu, "HAS_GIL", True)
    meter = CpuMeter()
    meter.measure()
    clocks(0.010, 0.010)
    assert meter.measure()
    clocks(WINDOW_SECONDS / 2, 0.0)
    assert meter.measure()
    clocks(WINDOW_SECONDS, 0.0)
    assert not meter.measure()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_whether_a_thread_is_ready():
    """One that computes is, one that sleeps is not; nor one that is no more, or was never there."""
    gate = threading.Event()
    sleeper = threading.Thread(target=gate.wait, args=(PATIENCE_SECONDS,))
    sleeper.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while is_ready(sleeper.native_id):  # until it has begun to wait
            assert time.monotonic() < deadline
    finally:
        gate.set()
        sleeper.join()
    assert is_ready(threading.get_native_id())
    assert not is_ready(0)
