"""How many workers there is room for, and what one of them takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from harness.waiting import wait_until

from aserve.processes import resources
from aserve.processes.resources import Activity, Limits, Memory, activity_of, choose_workers, memory_of, read_limits

MIB = 1 << 20
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="this system does not tell")


# How many


@pytest.mark.parametrize(
    ("limits", "worker_mib", "count", "why"),
    [
        (Limits(4), 0, 4, "CPUs: 4"),
        (Limits(4), 100, 4, "CPUs: 4"),
        (Limits(4, 4.0), 0, 4, "CPUs: 4"),
        (Limits(4, 2.0), 0, 2, "CPU quota: 2"),
        (Limits(4, 1.5), 0, 2, "CPU quota: 1.5"),
        (Limits(4, 0.1), 0, 1, "CPU quota: 0.1"),
        (Limits(2, 8.0), 0, 2, "CPUs: 2"),
        (Limits(4, None, 400 * MIB), 0, 4, "CPUs: 4"),
        (Limits(4, None, 400 * MIB), 75, 4, "CPUs: 4"),
        (Limits(4, None, 400 * MIB), 76, 3, "memory: 400MiB, and a worker takes 76MiB"),
        (Limits(4, None, 400 * MIB), 500, 1, "memory: 400MiB, and a worker takes 500MiB"),
        (Limits(4, 2.0, 400 * MIB), 200, 1, "memory: 400MiB, and a worker takes 200MiB"),
        (Limits(1, 1.0, 400 * MIB), 500, 1, "CPUs: 1"),
    ],
)
def test_auto(limits, worker_mib, count, why):
    """The least of all decides, and is named; one worker there is in any case."""
    assert choose_workers(limits, worker_mib * MIB) == (count, why)


class Known:
    """Control groups that say so much."""

    def __init__(self, quota, limit):
        self.cpu_quota = lambda: quota
        self.memory_limit_bytes = lambda: limit


@pytest.mark.parametrize(
    ("limit", "meminfo", "expected"),
    [
        (None, "MemTotal:        4096 kB\nMemFree: 1 kB\n", 4 * MIB),
        (5 * MIB, "MemTotal:        4096 kB\n", 4 * MIB),
        (3 * MIB, "MemTotal:        4096 kB\n", 3 * MIB),
        (3 * MIB, None, 3 * MIB),
        (None, None, None),
    ],
)
def test_limits(limit, meminfo, expected, tmp_path, monkeypatch):
    """Memory is what the group may have, and at most what the machine has; CPUs are those of the affinity."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3}, raising=False)
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(meminfo)
    assert read_limits(Known(1.5, limit), str(tmp_path)) == Limits(2, 1.5, expected)


def test_limits_without_an_affinity(monkeypatch, tmp_path):
    """Elsewhere than on Linux all CPUs count."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert read_limits(proc=str(tmp_path)) == Limits(3)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert read_limits(proc=str(tmp_path)).cpus == 1


# What a process takes

ROLLUP = """\
55c41422f000-7ffe321ac000 ---p 00000000 00:00 0                          [rollup]
Rss:                1612 kB
Pss:                 194 kB
Pss_Dirty:           108 kB
Shared_Clean:       1464 kB
Private_Clean:        40 kB
Private_Dirty:       108 kB
Private_Hugetlb:    2048 kB
Swap:                  0 kB
"""


@pytest.fixture
def proc(tmp_path):
    """A /proc with a process 7: proc(name, text) writes a file of it."""
    (tmp_path / "7").mkdir()

    def write(name, text):
        (tmp_path / "7" / name).write_text(text)
        return str(tmp_path)

    return write


def test_memory(proc):
    """RSS is cheap; PSS and USS, with huge pages, are read on demand."""
    page = os.sysconf("SC_PAGE_SIZE")
    proc("statm", "765 424 396 5 0 123 0\n")
    root = proc("smaps_rollup", ROLLUP)
    assert memory_of(7, proc=root) == Memory(424 * page)
    assert memory_of(7, with_shares=True, proc=root) == Memory(424 * page, 194 << 10, (40 + 108 + 2048) << 10)


@pytest.mark.parametrize("text", ["", ROLLUP.replace("Pss:", "Xss:")])
def test_memory_that_is_not_told(proc, text):
    """An old kernel has no such file; of another user's process it cannot be read."""
    proc("statm", "765 424 396 5 0 123 0\n")
    root = proc("smaps_rollup", text) if text else proc("x", "")
    assert memory_of(7, with_shares=True, proc=root) is None


@pytest.mark.parametrize("statm", ["", "0"])
def test_memory_of_nobody(proc, statm):
    """A process that has ended takes nothing."""
    assert memory_of(7, proc=proc("statm", statm)) is None and memory_of(8, proc=proc("statm", statm)) is None


@needs_proc
def test_memory_of_this_process():
    """What it shares with others is in the first, in part in the second, and not in the third."""
    memory = memory_of(os.getpid(), with_shares=True)
    assert memory.rss_bytes > MIB and memory.rss_bytes * 1.2 >= memory.pss_bytes >= memory.uss_bytes > MIB


@pytest.mark.parametrize("name", ["python", "a b", "x) R 1 ("])
def test_activity(proc, name):
    """Its name may look like anything; times are those of user and system."""
    ticks = os.sysconf("SC_CLK_TCK")
    rest = f"S 1 7 7 0 -1 4194304 102 0 0 0 {3 * ticks} {ticks // 2} 900 900 20 0 1 0 259791 3133440"
    assert activity_of(7, proc("stat", f"7 ({name}) {rest}")) == Activity("S", 3.5)


@pytest.mark.parametrize("text", ["", "7 (python) S 1"])
def test_activity_of_nobody(proc, text):
    """Nothing is known."""
    assert activity_of(7, proc("stat", text)) is None


@pytest.mark.parametrize(("state", "is_stopped"), [("R", False), ("S", False), ("D", False), ("T", True), ("t", True)])
def test_who_is_stopped(state, is_stopped):
    """By a signal or a debugger."""
    assert Activity(state, 0.0).is_stopped is is_stopped


@needs_proc
def test_activity_of_a_process():
    """One that is stopped is seen to be, and goes on; one that has ended is nobody."""
    process = subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: activity_of(process.pid).is_stopped)
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not activity_of(process.pid).is_stopped)
    finally:
        process.kill()
        process.communicate()
    assert activity_of(process.pid) is None and resources.memory_of(process.pid) is None
