"""The command line of this process.

Owns:     read_command_line.
Thread:   any.
"""

from __future__ import annotations

import os
import sys

COMMAND_LINE = "/proc/self/cmdline"


def read_command_line() -> list[str]:
    """Return the words, [] if unknown; sys.argv lacks the interpreter's flags, and the module after -m."""
    try:
        with open(COMMAND_LINE, "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:  # there is no /proc
        return list(getattr(sys, "orig_argv", []))
