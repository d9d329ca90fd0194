"""What a process takes and does, as the system tells.

Owns:     memory, descriptors, CPU time and state of a process; Footprints, which are found anew every few seconds.
Thread:   any; some small files of /proc are read. `with_shares` lets the kernel walk a process's page tables:
          measured 2026-11-22, 1.6 ms for 126 MiB, and 0.015 ms without.
Spec:     proc(5).
Not here: what the machine has room for (processes/resources.py), what follows from the numbers (processes/recycling.py,
          processes/liveness.py, lifecycle/advice.py).
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

# For so long what a process takes is taken to stay: the kernel walks its page tables to find it. Guess.
FRESH_SECONDS = 5.0


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
    fields = read_file(f"{proc}/{pid}/statm").split()
    if len(fields) < 2:
        return None
    rss = int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    if not with_shares:
        return Memory(rss)
    rollup = dict(re.findall(r"^(\w+): +(\d+) kB$", read_file(f"{proc}/{pid}/smaps_rollup"), re.M))
    if "Pss" not in rollup:
        return None  # a kernel before 4.14, or another user's process
    own = [int(rollup.get(f"Private_{kind}", 0)) for kind in ("Clean", "Dirty", "Hugetlb")]
    return Memory(rss, int(rollup["Pss"]) << 10, sum(own) << 10)


def activity_of(pid: int, proc: str = "/proc") -> Activity | None:
    """Return what a process does; None: it has ended, or this system does not tell."""
    fields = read_file(f"{proc}/{pid}/stat").rpartition(")")[2].split()  # its name may have blanks and parentheses
    if len(fields) < 13:
        return None
    return Activity(fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def read_file(path: str) -> str:
    """Return what a small file says; "": it cannot be read."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


class Footprint(NamedTuple):
    """What a process takes of what may run out; None: this system does not tell."""

    memory: Memory | None
    descriptors: int | None
    descriptor_limit: int | None


class Footprints:
    """Those of several processes, by their pids; each is looked at every five seconds at most."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, Footprint]] = {}  # and when

    def of(self, pid: int) -> Footprint:
        """Return what a process takes, or took five seconds ago."""
        now, before = time.monotonic(), self._found.get(pid)
        if before is not None and now - before[0] < FRESH_SECONDS:
            return before[1]
        found = Footprint(memory_of(pid, with_shares=True) or memory_of(pid), *descriptors_of(pid))
        self._found = {other: each for other, each in self._found.items() if now - each[0] < 2 * FRESH_SECONDS}
        self._found[pid] = now, found
        return found


def descriptors_of(pid: int, proc: str = "/proc") -> tuple[int | None, int | None]:
    """Return how many descriptors a process has open, and how many it may have; None: this system does not tell."""
    found = re.search(r"^Max open files +(\d+) ", read_file(f"{proc}/{pid}/limits"), re.M)
    folder = f"{proc}/{pid}/fd"
    try:
        # Linux 6.2 and later tell the number as the folder's size; to list 60,000 would take a while.
        count = os.stat(folder).st_size or len(os.listdir(folder))
    except OSError:  # it has ended; or another user's process
        return None, None
    return count, int(found[1]) if found else None
