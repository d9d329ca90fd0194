"""The `aserve` command: argv in, exit status out.

Owns:     which of its tasks is asked for.
Thread:   the main thread.
Not here: the flags (flags.py), the tasks: asking a server and the like (subcommands.py), showing something (showing.py), serving (start.py), running a program for gunicorn (compat/gunicorn/python.py); errors as lines (outcome.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..compat.moving.lines import PYTHON, PYTHON_LINE
from ..lifecycle.signals import early, unblock_all
from ..lifecycle.standard_streams import fill_standard_streams
from .flags import parse_args
from .handed_down import HandedDescriptors, take_handed_down
from .outcome import status_of
from .showing import show
from .start import start, start_trial
from .subcommands import is_subcommand, run_subcommand


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status, see status_of."""
    fill_standard_streams()
    return status_of(lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: Sequence[str]) -> int:
    handed = take_handed_down(os.environ)
    if handed.trial_fd is None and PYTHON not in argv and not is_subcommand(argv):
        early.begin(interrupts=True)
    if handed.inheritance_fd is None:  # otherwise they stay blocked, for the code that takes over
        unblock_all()
    if PYTHON in argv and not is_subcommand(argv):
        args = parse_args(argv, os.environ)
        if PYTHON_LINE in args:
            return _run_program(args, handed)
    if handed.trial_fd is not None:
        return start_trial(lambda: parse_args(argv, os.environ), handed.trial_fd)
    if is_subcommand(argv):
        return run_subcommand(argv, os.environ)
    args = parse_args(argv, os.environ)
    if show(args):
        return 0
    return start(args, handed.inheritance_fd, os.environ)


def _run_program(args: dict[str, object], handed: HandedDescriptors) -> int:
    from ..compat.gunicorn.python import run_python

    words = args.pop(PYTHON_LINE)
    assert isinstance(words, list)
    return run_python(words, args, handed)
