"""Serves the app of a program that runs in this process, and is written for gunicorn.

Owns:     run_program; begin, by which `aserve python` leaves its flags for it; program_words.
Thread:   the main thread.
Not here: the classes whose `run()` this is (app/base.py), `aserve python` (python.py), the start (command/start.py).

The supervisor is the program's own process, and its workers are forked with all that the program has imported. So a reload calls the
application's `load()` anew, as gunicorn's does, and an upgrade in place (SIGUSR2) runs the whole program anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping

from ...command.handed_down import HandedDescriptors, take_handed_down
from ...command.outcome import status_of
from ...command.start import start, start_trial
from ...core.named_tuple import NamedTuple
from ...lifecycle.signals import early, unblock_all
from ...lifecycle.standard_streams import fill_standard_streams
from ..moving.gunicorn_programs import GunicornProgram
from ..moving.naming import PROGRAM


class Begun(NamedTuple):
    """What the command has read before it runs the program."""

    flags: Mapping[str, object]
    handed: HandedDescriptors


_begun: Begun | None = None


def begin(flags: Mapping[str, object], handed: HandedDescriptors) -> None:
    """Leave the command's flags for the program that it is about to run."""
    global _begun
    _begun = Begun(flags, handed)


def run_program(program: GunicornProgram, flags: Mapping[str, object]) -> int:
    """Serve a program's app; return the exit status, for the program to end with."""
    fill_standard_streams()
    return status_of(lambda: _run({PROGRAM: program, **flags}))


def _run(args: Mapping[str, object]) -> int:
    flags, handed = _begun or Begun({}, take_handed_down(os.environ))
    args = {**args, **flags}
    if handed.trial_fd is None:
        early.begin(interrupts=True)
    if handed.inheritance_fd is None:  # otherwise signals stay blocked, for the code that takes over
        unblock_all()
    if handed.trial_fd is not None:
        return start_trial(lambda: args, handed.trial_fd)
    return start(args, handed.inheritance_fd, os.environ)


def program_words() -> tuple[list[str], MutableMapping[str, str]]:
    """Return the program's arguments, and the environment."""
    return sys.argv[1:], os.environ
