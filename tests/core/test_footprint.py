"""A process's memory and activity."""

import os
import resource
import signal
import subprocess
import sys

import pytest
from harness.waiting import wait_until

from aserve.core import footprint as module
from aserve.core.footprint import FRESH_SECONDS, Activity, Footprints, Memory, activity_of, descriptors_of, memory_of

pytestmark = pytest.mark.long_on_pypy

MIB = 1 << 20
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="this system does not tell")

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
    """A /proc with a process 7: proc(name, text) writes one of its files."""
    (tmp_path / "7").mkdir()

    def write(name, text):
        (tmp_path / "7" / name).write_text(text)
        return str(tmp_path)

    return write


def test_memory_has_rss_pss_and_uss(proc):
    page = os.sysconf("SC_PAGE_SIZE")
    proc("statm", "765 424 396 5 0 123 0\n")
    root = proc("smaps_rollup", ROLLUP)
    assert memory_of(7, proc=root) == Memory(424 * page)
    assert memory_of(7, with_shares=True, proc=root) == Memory(424 * page, 194 << 10, (40 + 108 + 2048) << 10)


@pytest.mark.parametrize("text", ["", ROLLUP.replace("Pss:", "Xss:")])
def test_memory_that_is_not_told(proc, text):
    """An old kernel has no such file; another user's process is unreadable."""
    proc("statm", "765 424 396 5 0 123 0\n")
    root = proc("smaps_rollup", text) if text else proc("x", "")
    assert memory_of(7, with_shares=True, proc=root) is None


@pytest.mark.parametrize("statm", ["", "0"])
def test_memory_of_nobody(proc, statm):
    """An ended process has no memory."""
    assert memory_of(7, proc=proc("statm", statm)) is None and memory_of(8, proc=proc("statm", statm)) is None


@needs_proc
def test_memory_of_this_process():
    """Memory shared with others is in the first number, in part in the second, and not in the third."""
    memory = memory_of(os.getpid(), with_shares=True)
    assert memory.rss_bytes > MIB and memory.rss_bytes * 1.2 >= memory.pss_bytes >= memory.uss_bytes > MIB


@pytest.mark.parametrize("name", ["python", "a b", "x) R 1 ("])
def test_activity_is_read_behind_any_name(proc, name):
    """The name may look like anything; times are user's and system's."""
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
    """A stopped process is seen as such, and goes on; an ended one is nobody."""
    process = subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: activity_of(process.pid).is_stopped)
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not activity_of(process.pid).is_stopped)
    finally:
        process.kill()
        process.communicate()
    assert activity_of(process.pid) is None and memory_of(process.pid) is None


@needs_proc
def test_descriptors_are_told_with_their_limit(tmp_path):
    before, limit = descriptors_of(os.getpid())
    assert limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with open(tmp_path / "a", "w"), open(tmp_path / "b", "w"):
        assert descriptors_of(os.getpid())[0] == before + 2
    assert descriptors_of(7, str(tmp_path)) == (None, None)
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "limits").write_text(
        "Max open files            unlimited            unlimited            files\n"
    )
    assert descriptors_of(7, str(tmp_path))[1] is None


def test_it_is_not_looked_up_each_time(monkeypatch):
    """Finding them takes a while; a partial system tells a part. An ended process is forgotten."""
    looks, now = [], [100.0]

    def memory_of(pid, with_shares=False):
        looks.append((pid, with_shares))
        return None if with_shares and pid == 8 else Memory(100)

    monkeypatch.setattr(module, "memory_of", memory_of)
    monkeypatch.setattr(module, "descriptors_of", lambda pid: (5, 10))
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    footprints = Footprints()
    assert footprints.of(7) == footprints.of(7) == (Memory(100), 5, 10) and looks == [(7, True)]
    assert footprints.of(8).memory == Memory(100) and looks[1:] == [(8, True), (8, False)]
    now[0] += FRESH_SECONDS
    footprints.of(7)
    assert len(looks) == 4
    now[0] += FRESH_SECONDS
    footprints.of(7)
    assert list(footprints._found) == [7]
