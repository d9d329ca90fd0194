"""How many workers this machine has room for, and what each of them takes.

Owns:     the number of workers that "auto" means; memory, CPU time and state of a process.
Thread:   any; some small files of /proc are read. `with_shares` lets the kernel walk a process's page tables:
          measured 2026-11-22, 1.6 ms for 126 MiB, and 0.015 ms without.
Spec:     proc(5).
Not here: control groups (cgroups.py), what follows from a worker's numbers (recycling.py, liveness.py).
"""

from __future__ import annotations

import math
import os
import re
from typing import NamedTuple

from ..settings import show_bytes
from .cgroups import Cgroups

MIB = 1 << 20
# Of the memory there is, what workers may have when they are fresh. Guess: they grow, and the page cache is theirs, too.
MEMORY_SHARE = 0.75


class Limits(NamedTuple):
    """What there is for all workers together; None: not known, or no limit."""

    cpus: int  # that this process may run on
    cpu_quota: float | None = None
    memory_bytes: int | None = None


class Choice(NamedTuple):
    """How many workers, and what has decided that."""

    workers: int
    why: str


def read_limits(cgroups: Cgroups | None = None, proc: str = "/proc") -> Limits:
    """Return the limits of this process."""
    cgroups = cgroups or Cgroups(proc)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = [cgroups.memory_limit_bytes(), _machine_bytes(proc)]
    return Limits(cpus, cgroups.cpu_quota(), min((limit for limit in memory if limit is not None), default=None))


def choose_workers(limits: Limits, worker_bytes: int = 0) -> Choice:
    """
    Return how many workers "auto" means: one for each CPU, as far as quota and memory go.

    `worker_bytes` is what the first worker takes; 0: it is not known yet.
    """
    choices = [Choice(limits.cpus, f"CPUs: {limits.cpus}")]
    if limits.cpu_quota is not None:
        # A part of a CPU pays for a worker: two at 0.75 each are never slower than one at 1.5, which it cannot use.
        choices.append(Choice(max(math.ceil(limits.cpu_quota), 1), f"CPU quota: {limits.cpu_quota:g}"))
    if limits.memory_bytes is not None and worker_bytes:
        count = max(int(limits.memory_bytes * MEMORY_SHARE / worker_bytes), 1)
        sizes = f"{_mib(limits.memory_bytes)}, and a worker takes {_mib(worker_bytes)}"
        choices.append(Choice(count, f"memory: {sizes}"))
    return min(choices, key=lambda choice: choice.workers)  # the first of equals


def _machine_bytes(proc: str) -> int | None:
    found = re.search(r"^MemTotal: +(\d+) kB$", _read(f"{proc}/meminfo"), re.M)
    return int(found[1]) << 10 if found else None


def _mib(count: int) -> str:
    return show_bytes(max(count // MIB, 1) * MIB)


class Memory(NamedTuple):
    """What a process takes, in octets; None: not asked for."""

    rss_bytes: int  # resident: all that it has in memory, also what it shares
    pss_bytes: int | None = None  # proportional: of what n processes share, the nth part
    uss_bytes: int | None = None  # unique: its own alone, what would be free without it


class Activity(NamedTuple):
    """What a process does."""

    state: str  # proc(5): R running, S sleeping, D waiting for a disk, T stopped, t traced, Z ended, ...
    cpu_seconds: float  # that it has used since its start

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped it: SIGSTOP, or a debugger."""
        return self.state in ("T", "t")


def memory_of(pid: int, with_shares: bool = False, proc: str = "/proc") -> Memory | None:
    """Return what a process takes, PSS and USS only `with_shares`; None: it has ended, or this system does not tell."""
    fields = _read(f"{proc}/{pid}/statm").split()
    if len(fields) < 2:
        return None
    rss = int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    if not with_shares:
        return Memory(rss)
    rollup = dict(re.findall(r"^(\w+): +(\d+) kB$", _read(f"{proc}/{pid}/smaps_rollup"), re.M))
    if "Pss" not in rollup:
        return None  # a kernel before 4.14, or another user's process
    own = [int(rollup.get(f"Private_{kind}", 0)) for kind in ("Clean", "Dirty", "Hugetlb")]
    return Memory(rss, int(rollup["Pss"]) << 10, sum(own) << 10)


def activity_of(pid: int, proc: str = "/proc") -> Activity | None:
    """Return what a process does; None: it has ended, or this system does not tell."""
    fields = _read(f"{proc}/{pid}/stat").rpartition(")")[2].split()  # its name may have blanks and parentheses
    if len(fields) < 13:
        return None
    return Activity(fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
