"""`aserve python PROGRAM ARGS...`: a program for gunicorn, as it is, with aserve in gunicorn's place.

Owns:     run_python; STAND_INS, the modules that such a program finds under gunicorn's names.
Thread:   the main thread.
Not here: what happens when the program calls `run()` (app/base.py, command/program.py).

The program runs as `__main__`, as `python` would run it. gunicorn need not be installed; if it is, the program does not get it.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence

from ...command.handed_down import HandedDown
from ...command.program import begin
from ...features.moving.gunicorn_stand_in import type_modules
from ...settings import ConfigError
from . import app, config, glogging, util
from .app import base, wsgiapp

STAND_INS = {
    **type_modules(sys.modules["aserve.compat.gunicorn"]),
    "gunicorn.app": app,
    "gunicorn.app.base": base,
    "gunicorn.app.wsgiapp": wsgiapp,
    "gunicorn.config": config,
    "gunicorn.glogging": glogging,
    "gunicorn.util": util,
}
USAGE = "aserve python takes FILE or -m MODULE, and what follows these is the program's"


def run_python(words: Sequence[str], flags: Mapping[str, object], handed: HandedDown) -> int:
    """
    Run a program with its arguments, as `python` does; return 0 if it ends without serving. `flags`: aserve's own, which win.

    Raises:
        ConfigError: the words name no program.
    """
    words = [word for word in words[:1] if word != "-u"] + list(
        words[1:]
    )  # nothing that is printed waits in a terminal or a pipe
    if not words or (words[0].startswith("-") and words[0] != "-m") or words == ["-m"]:
        raise ConfigError(USAGE)
    begin(flags, handed)
    sys.modules.update(STAND_INS)
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return 0
    path = os.path.abspath(words[0])
    if not os.path.isfile(path):
        raise ConfigError(f"there is no file {path}; {USAGE}")
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(words[0], run_name="__main__")
    return 0
