"""Standard input, output and error, which whatever starts this process may have closed.

Owns:     fill_standard_streams: /dev/null where one of them is closed.
Thread:   the main thread, before anything is opened.
Not here: what is written to them.

The next descriptor that is opened takes the lowest free number. So a socket or a log would be standard input or error to the app, to a library in
C that prints, and to programs that are started; and libuv aborts the process when it is to close such a number.
Only the command and `run` do this: in a program that embeds a Server these numbers are the program's, which may have put there what it likes.
"""

from __future__ import annotations

import os
import sys

from ..core.descriptors import is_open


def fill_standard_streams() -> None:
    """Put /dev/null where a standard descriptor is closed, and a file of Python's where it has none; leave all others alone."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if not is_open(fd) and not _fill(fd):
            continue
        if getattr(sys, name) is None:  # which Python leaves where the descriptor is closed at its start
            setattr(sys, name, open(fd, mode, errors="backslashreplace", closefd=False))


def _fill(fd: int) -> bool:
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # there is no /dev
        return False
    if null != fd:  # another thread has opened something meanwhile, or a lower one could not be filled
        os.close(null)
        return False
    os.set_inheritable(fd, True)  # as programs that are started expect
    return True
