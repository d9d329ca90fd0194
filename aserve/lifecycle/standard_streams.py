"""Fills standard input, output and error after a close by the parent process.

Owns:     fill_standard_streams: /dev/null where one of them is closed; discard_output.
Thread:   the main thread: before anything is opened, and once a second while the event loop runs.
Not here: writing to the streams.

A new descriptor takes the lowest free number. So a socket or a log would be standard input or error to the app, to a printing C library, and to
child processes; and libuv aborts the process at the close of such a number.
Only the command and `run` fill streams: a program with an embedded Server may use these numbers for other files.
"""

from __future__ import annotations

import os
import sys

from ..core.descriptors import is_open


def fill_standard_streams() -> None:
    """Open /dev/null for each closed standard descriptor, and a Python file; leave open descriptors unchanged."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if not is_open(fd) and not _fill(fd):
            continue
        if getattr(sys, name, None) is None:  # Python sets None if the descriptor is closed at the start
            setattr(sys, name, open(fd, mode, errors="backslashreplace", closefd=False))


def _fill(fd: int) -> bool:
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # there is no /dev
        return False
    if null != fd:  # another thread has opened something meanwhile, or a lower one could not be filled
        os.close(null)
        return False
    os.set_inheritable(fd, True)  # as child processes expect
    return True


def discard_output() -> None:
    """Let standard output lead nowhere, as its reader has ended (`aserve stacks | head`): Python flushes it once more at its end."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
