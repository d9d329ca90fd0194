"""Errors about missing descriptors, or a missing working directory, in one line with the remedy.

Owns:     LackError; check_descriptors, before an event loop is made; the text for an OSError of this kind.
Thread:   any.
Not here: running out of descriptors while serving (connections/limit.py).
"""

from __future__ import annotations

import errno
import os
import resource

from ..core.descriptors import list_open
from ..core.errors import FAILED, AserveError

# For an event loop, a lane, a listener and a first connection: measured with each kind of loop.
NEEDED_DESCRIPTORS = 13
# From this limit on the descriptors are not counted.
ENOUGH_DESCRIPTORS = 256


class LackError(AserveError):
    """aserve cannot serve in these surroundings: the operator's fault."""

    exit_status = FAILED


def check_descriptors() -> None:
    """
    Check for enough descriptors to start a server: libuv aborts the process when one is missing.

    Raises:
        LackError: too few.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_DESCRIPTORS:
        return
    left = soft - sum(fd < soft for fd in list_open())
    if left < NEEDED_DESCRIPTORS:
        raise LackError(f"{_limit()}, of which {left} are left, and a server needs {NEEDED_DESCRIPTORS}; {RAISE}")


def describe_lack(fault: OSError) -> str | None:
    """Return the missing resource behind the error; None: another cause."""
    if fault.errno == errno.EMFILE:
        return f"too many open files: {_limit()}; {RAISE}"
    if fault.errno == errno.ENFILE:
        return "too many open files on this machine: raise fs.file-max"
    if fault.errno == errno.ENOENT and not fault.filename and _is_folder_gone():
        return "the working directory was removed: start aserve in one that stays"
    return None


RAISE = "raise it: LimitNOFILE= of a systemd unit, the ulimits of a container, or `ulimit -n` before the command"


def _limit() -> str:
    return f"`ulimit -n` is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}"


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
