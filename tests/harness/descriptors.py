"""The open descriptors of this process, beside those of other code in it."""

import contextlib
import os
from collections.abc import Iterator

from .waiting import wait_until


def open_descriptors() -> set[tuple[int, int, int]]:
    """Return each open descriptor with its device and inode."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the listing's own, closed by now
            status = os.fstat(int(name))
            found.add((int(name), status.st_dev, status.st_ino))
    return found


@contextlib.contextmanager
def none_stays_open() -> Iterator[None]:
    """Fail where a descriptor opened in this block stays open.

    A process has run other tests before: their garbage closes descriptors at any time, and their threads open some for a moment. Therefore numbers
    are not counted: new descriptors must go again.
    """
    before = open_descriptors()
    yield
    wait_until(lambda: not open_descriptors() - before, explain=lambda: f"{open_descriptors() - before} stay open")


@contextlib.contextmanager
def closed_stdin() -> Iterator[None]:
    """Close descriptor 0 in this block, as an app may."""
    copy = os.dup(0)
    os.close(0)
    try:
        yield
    finally:
        os.dup2(copy, 0)
        os.close(copy)
