"""What this process lacks of its surroundings, in one line that says what to do: descriptors, a working directory.

Owns:     LackError; check_descriptors, before an event loop is made; the words for an OSError that means such a lack.
Thread:   any.
Not here: descriptors that run out while it serves (connections/limit.py).
"""

from __future__ import annotations

import errno
import os
import resource

from ..core.descriptors import list_open
from ..core.errors import FAILED, AserveError

# What an event loop, a lane, a listener and a first connection take: measured with each kind of loop.
NEEDED_DESCRIPTORS = 13
# Where so many are allowed nobody counts them.
ENOUGH_DESCRIPTORS = 256


class LackError(AserveError):
    """It cannot serve here: the fault of what has started it."""

    exit_status = FAILED


def check_descriptors() -> None:
    """
    Check that a server can be started with the descriptors that are left: libuv aborts the process where one is missing.

    Raises:
        LackError: there are not enough.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_DESCRIPTORS:
        return
    left = soft - sum(fd < soft for fd in list_open())
    if left < NEEDED_DESCRIPTORS:
        raise LackError(f"{_limit()}, of which {left} are left, and a server needs {NEEDED_DESCRIPTORS}; {RAISE}")


def describe_lack(fault: OSError) -> str | None:
    """Return what is lacking if that is why something has failed; None: it is for another reason."""
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
