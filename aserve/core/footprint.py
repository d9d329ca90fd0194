"""The resources and the state of a process, from /proc.

Owns:     memory, descriptors, CPU time and state of a process; Footprints, a cache of some seconds.
Thread:   any; some small files of /proc are read. `with_shares` lets the kernel walk a process's page tables:
          measured 2026-11-22, 1.6 ms for 126 MiB, and 0.015 ms without.
Spec:     proc(5).
Not here: the resources of the machine (processes/fleet/resources.py), decisions by the numbers (processes/fleet/recycling.py,
          processes/children/liveness.py, lifecycle/advice.py).
"""

from __future__ import annotations

import os
import re
import time

from .named_tuple import NamedTuple

# How long a Footprint is cached: the kernel walks the process's page tables for a new one. Guess.
FRESH_SECONDS = 5.0


class Memory(NamedTuple):
    """A process's memory, in octets; None: not asked for."""

    rss_bytes: int  # resident: all memory, shared pages included
    pss_bytes: int | None = None  # proportional: a page of n processes counts as 1/n
    uss_bytes: int | None = None  # unique: unshared pages, freed by the end of the process


class Activity(NamedTuple):
    """The state and the CPU time of a process."""

    state: str  # proc(5): R running, S sleeping, D waiting for a disk, T stopped, t traced, Z ended, ...
    cpu_seconds: float  # used since the start

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped, by SIGSTOP or by a debugger."""
        return self.state in ("T", "t")


def memory_of(pid: int, with_shares: bool = False, proc: str = "/proc") -> Memory | None:
    """Return a process's memory, PSS and USS only `with_shares`; None: the process has ended, or this system has no such files."""
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
    """Return a process's state and CPU time; None: the process has ended, or this system has no such file."""
    fields = read_file(f"{proc}/{pid}/stat").rpartition(")")[2].split()  # a name may have blanks and parentheses
    if len(fields) < 13:
        return None
    return Activity(fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def read_file(path: str) -> str:
    """Return the content of a small file; "": unreadable."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


class Footprint(NamedTuple):
    """A process's memory and descriptors; None: unknown on this system."""

    memory: Memory | None
    descriptors: int | None
    descriptor_limit: int | None


class Footprints:
    """The Footprints of several processes, by pid; each is made anew every five seconds at most."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, Footprint]] = {}  # and when

    def of(self, pid: int) -> Footprint:
        """Return the Footprint of a process, at most FRESH_SECONDS old."""
        now, before = time.monotonic(), self._found.get(pid)
        if before is not None and now - before[0] < FRESH_SECONDS:
            return before[1]
        found = Footprint(memory_of(pid, with_shares=True) or memory_of(pid), *descriptors_of(pid))
        self._found = {other: each for other, each in self._found.items() if now - each[0] < 2 * FRESH_SECONDS}
        self._found[pid] = now, found
        return found


def descriptors_of(pid: int, proc: str = "/proc") -> tuple[int | None, int | None]:
    """Return the count of a process's open descriptors, and the limit; None: unknown on this system."""
    found = re.search(r"^Max open files +(\d+) ", read_file(f"{proc}/{pid}/limits"), re.M)
    folder = f"{proc}/{pid}/fd"
    try:
        # Linux 6.2 and later show the number as the folder's size; to list 60,000 would take a while.
        count = os.stat(folder).st_size or len(os.listdir(folder))
    except OSError:  # the process has ended; or belongs to another user
        return None, None
    return count, int(found[1]) if found else None
