"""How many workers there is room for."""

import os

import pytest

from aserve.processes.fleet.resources import Limits, choose_workers, read_limits

MIB = 1 << 20


def test_the_affinity_of_this_process():
    """The kernel's affinity equals Python's, where Python knows it."""
    affinity = getattr(os, "sched_getaffinity", lambda pid: range(os.cpu_count()))(0)
    assert read_limits().cpus == len(affinity)


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
def test_auto_takes_the_least_limit(limits, worker_mib, count, why):
    """The least of all limits decides, and is named; one worker is the minimum."""
    assert choose_workers(limits, worker_mib * MIB) == (count, why)


class Known:
    """Control groups with set limits."""

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
def test_limits_come_from_group_and_machine(limit, meminfo, expected, tmp_path):
    """Memory is the group's limit, at most the machine's; CPUs are those of the affinity."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tpython\nCpus_allowed:\t00000002,00000008\nCpus_allowed_list:\t3,33\n")
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(meminfo)
    assert read_limits(Known(1.5, limit), str(tmp_path)) == Limits(2, 1.5, expected)


def test_limits_without_an_affinity(monkeypatch, tmp_path):
    """All CPUs count where no file of /proc has the affinity."""
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert read_limits(proc=str(tmp_path)) == Limits(3)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert read_limits(proc=str(tmp_path)).cpus == 1
