"""The kernel's limits for this process: CPU quota, memory limit, and the number of out-of-memory kills.

Owns:     finding the files of this process's control groups, version 1 and 2, also inside a container; reading them.
Thread:   any; a few small files are read, and only one path is kept.
Spec:     cgroups(7), proc(5); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
Not here: decisions by them (resources.py).

Without control groups, every answer is None. A limit may stand in any folder from the group's own up to the mount point; the least limit counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ...core.named_tuple import NamedTuple

# cgroup v1 has no word for "none": the file has the largest multiple of a page.
UNLIMITED_BYTES = 1 << 60


class GroupFolder(NamedTuple):
    """A group's folder, and the folders above up to the mount point."""

    paths: tuple[str, ...]
    is_v2: bool


class Cgroups:
    """The control groups of this process."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._kills_path = ""  # of the file with the number of kills, read each second

    def cpu_quota(self) -> float | None:
        """Return how many CPUs' time this process may use: 1.5 is three quarters of two."""
        folder = self._find("cpu")
        quotas = [_quota_of(path, folder.is_v2) for path in folder.paths]
        return min((quota for quota in quotas if quota is not None), default=None)

    def memory_limit_bytes(self) -> int | None:
        """Return how much memory this process may use; beyond, the kernel kills processes, or with memory.high slows processes down."""
        folder = self._find("memory")
        names = ("memory.max", "memory.high") if folder.is_v2 else ("memory.limit_in_bytes",)
        texts = [_read(f"{path}/{name}") for path in folder.paths for name in names]
        limits = [int(text) for text in texts if text.isdigit()]  # v2: "max" for none
        return min((limit for limit in limits if limit < UNLIMITED_BYTES), default=None)

    def oom_kill_count(self) -> int | None:
        """
        Return how many processes of the group were killed for lack of memory; without such a group, how many of the machine.

        Compare the count with the count from just before a process died by SIGKILL.
        """
        count = _kills_in(self._kills_path)
        if count is None:
            folder = self._find("memory")
            name = "memory.events" if folder.is_v2 else "memory.oom_control"
            for path in (*(f"{path}/{name}" for path in folder.paths[:1]), f"{self._proc}/vmstat"):
                self._kills_path, count = path, _kills_in(path)
                if count is not None:
                    break
        return count

    def _find(self, controller: str) -> GroupFolder:
        """Return the folder of a controller's files: in a separate hierarchy (version 1), or in the shared hierarchy (version 2)."""
        groups = dict(_groups_of(_read(f"{self._proc}/self/cgroup")))
        is_v2 = controller not in groups
        group = groups.get("" if is_v2 else controller)
        for root, mounted, kind, options in _mounts_of(_read(f"{self._proc}/self/mountinfo")):
            if group is not None and (kind == "cgroup2" if is_v2 else kind == "cgroup" and controller in options):
                return GroupFolder(tuple(_upwards(mounted, _below(group, root))), is_v2)
        return GroupFolder((), is_v2)


def _kills_in(path: str) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", _read(path), re.M)
    return int(found[1]) if found else None


def _groups_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield controller and group, from lines such as "4:cpu,cpuacct:/a/b"; of version 2 the controller is ""."""
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, group


def _mounts_of(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield root, mount point, type and options of each file system."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        yield _unescape(before[3]), _unescape(before[4]), after[0], after[2].split(",")


def _unescape(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)  # proc(5): a blank is \040


def _below(group: str, root: str) -> str:
    """Return a group's path below the mount point; a container may see a part only, without a name."""
    if root == "/" and ".." not in group:
        return group.strip("/")
    return group[len(root) :].strip("/") if group == root or group.startswith(f"{root}/") else ""


def _upwards(mounted: str, below: str) -> Iterator[str]:
    while below:
        yield os.path.join(mounted, below)
        below = os.path.dirname(below)
    yield mounted


def _quota_of(path: str, is_v2: bool) -> float | None:
    if is_v2:
        quota, _, period = _read(f"{path}/cpu.max").partition(" ")
    else:
        quota, period = _read(f"{path}/cpu.cfs_quota_us"), _read(f"{path}/cpu.cfs_period_us")
    # Without a quota the word is "max", or in version 1 "-1".
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""  # no such controller, or no permission: not known
