"""How many workers this machine has room for.

Owns:     the meaning of "auto": the number of workers.
Thread:   any; some small files of /proc are read.
Spec:     proc(5).
Not here: control groups (cgroups.py), the memory of one process (core/footprint.py).
"""

from __future__ import annotations

import math
import os
import re

from ...core.footprint import read_file
from ...core.named_tuple import NamedTuple
from ...settings import show_bytes
from .cgroups import Cgroups

MIB = 1 << 20
# The share of the memory for fresh workers. Guess: workers grow, and need the page cache, too.
MEMORY_SHARE = 0.75


class Limits(NamedTuple):
    """The resources for all workers together; None: not known, or no limit."""

    cpus: int  # allowed for this process
    cpu_quota: float | None = None
    memory_bytes: int | None = None


class Choice(NamedTuple):
    """A number of workers, and the reason."""

    workers: int
    why: str


def read_limits(cgroups: Cgroups | None = None, proc: str = "/proc") -> Limits:
    """Return the limits of this process."""
    cgroups = cgroups or Cgroups(proc)
    memory = [cgroups.memory_limit_bytes(), _machine_bytes(proc)]
    return Limits(
        _count_cpus(proc), cgroups.cpu_quota(), min((limit for limit in memory if limit is not None), default=None)
    )


def choose_workers(limits: Limits, worker_bytes: int = 0) -> Choice:
    """
    Return the number of workers for "auto": a worker for each CPU, as far as quota and memory go.

    `worker_bytes`: the memory of the first worker; 0: not known yet.
    """
    choices = [Choice(limits.cpus, f"CPUs: {limits.cpus}")]
    if limits.cpu_quota is not None:
        # A part of a CPU pays for a worker: two at 0.75 each are never slower than a single worker at 1.5, limited to a CPU.
        choices.append(Choice(max(math.ceil(limits.cpu_quota), 1), f"CPU quota: {limits.cpu_quota:g}"))
    if limits.memory_bytes is not None and worker_bytes:
        count = max(int(limits.memory_bytes * MEMORY_SHARE / worker_bytes), 1)
        sizes = f"{_mib(limits.memory_bytes)}, and a worker takes {_mib(worker_bytes)}"
        choices.append(Choice(count, f"memory: {sizes}"))
    return min(choices, key=lambda choice: choice.workers)  # the first of equals


def _count_cpus(proc: str) -> int:
    # PyPy has no `os.sched_getaffinity`.
    found = re.search(r"^Cpus_allowed:\s+([0-9a-f,]+)$", read_file(f"{proc}/self/status"), re.M)
    return bin(int(found[1].replace(",", ""), 16)).count("1") if found else os.cpu_count() or 1


def _machine_bytes(proc: str) -> int | None:
    found = re.search(r"^MemTotal: +(\d+) kB$", read_file(f"{proc}/meminfo"), re.M)
    return int(found[1]) << 10 if found else None


def _mib(count: int) -> str:
    return show_bytes(max(count // MIB, 1) * MIB)
