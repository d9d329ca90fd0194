"""Files in memory, for data with a life beyond execve(2) but not beyond the process.

Owns:     making and mapping the files; inheritance by programs; the files for the next code of an upgrade (KEPT).
Thread:   the supervisor's only one.
Not here: the content (processes/children/pages.py, processes/upgrade/inheritance.py).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile

from .descriptors import list_open

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing with a name is left there

# Files passed by the supervisor to the next code of an upgrade, by name; no module in processes/ owns one.
KEPT: dict[str, int] = {}


def open_memory_file(name: str) -> int:
    """
    Return the descriptor of a new, empty file, closed to other users; the name shows in /proc.

    The kernel frees the file with the last descriptor. A disk is used only without memfd_create(2) and /dev/shm.

    Raises:
        OSError: no descriptor is left.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name)
        os.fchmod(fd, 0o600)  # from 0o777: settings and requests may hold secrets
        return fd
    # A Python built for a kernel or a C library without memfd_create(2).
    with tempfile.TemporaryFile(dir=SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else None) as file:
        return os.dup(file.fileno())


def map_memory_file(fd: int) -> mmap.mmap:
    """Return all of this file as memory; the descriptor may be closed afterwards."""
    memory = mmap.mmap(fd, os.fstat(fd).st_size)
    keep_from_programs(fd)
    return memory


def keep_from_programs(fd: int) -> None:
    """Make every descriptor of this file non-inheritable: PyPy's mmap keeps an inheritable one."""
    for other in list_open():
        with contextlib.suppress(OSError):  # the descriptor used for the list is closed
            if os.path.samestat(os.fstat(other), os.fstat(fd)):
                os.set_inheritable(other, False)
