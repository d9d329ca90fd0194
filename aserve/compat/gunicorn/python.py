"""`aserve python PROGRAM ARGS...`: a program for gunicorn, as it is, with aserve in gunicorn's place.

Owns:     run_python; STAND_INS, the modules that such a program finds under gunicorn's names, and processes that it starts (children/).
Thread:   the main thread.
Not here: what happens when the program calls `run()` (app/base.py, serving.py).

The program runs as `__main__`, as `python` would run it. gunicorn need not be installed; if it is, the program does not get it.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NoReturn

from ...command.handed_down import HandedDescriptors
from ...lifecycle.load_error import app_raised
from ...settings import ConfigError
from ..moving.gunicorn_stand_in import type_modules
from . import app, arbiter, config, glogging, util
from .app import base, wsgiapp
from .serving import begin

STAND_INS = {
    **type_modules(sys.modules["aserve.compat.gunicorn"]),
    "gunicorn.arbiter": arbiter,
    "gunicorn.app": app,
    "gunicorn.app.base": base,
    "gunicorn.app.wsgiapp": wsgiapp,
    "gunicorn.config": config,
    "gunicorn.glogging": glogging,
    "gunicorn.util": util,
}
CHILDREN = os.path.join(os.path.dirname(__file__), "children")
USAGE = "aserve python takes FILE or -m MODULE, and what follows these is the program's"


def run_python(words: Sequence[str], flags: Mapping[str, object], handed: HandedDescriptors) -> int:
    """
    Run a program with its arguments, as `python` does; return 0 if it ends without serving. `flags`: aserve's own, which win.

    Raises:
        ConfigError: the words name no program, or it imports what aserve does not have in gunicorn's place.
        LoadError: it has raised.
    """
    words = [word for word in words[:1] if word != "-u"] + list(
        words[1:]
    )  # nothing that is printed waits in a terminal or a pipe
    if not words or (words[0].startswith("-") and words[0] != "-m") or words == ["-m"]:
        raise ConfigError(USAGE)
    begin(flags, handed)
    sys.modules.update(STAND_INS)
    reach_children(os.environ)
    try:
        _run(words)
    except Exception as fault:
        _raise(words[words[0] == "-m"], fault)
    return 0


def reach_children(environ: MutableMapping[str, str]) -> None:
    """Let Python processes that the program starts find the same: those of multiprocessing, and `python -m gunicorn`."""
    folders = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder not in ("", CHILDREN)]
    environ["PYTHONPATH"] = os.pathsep.join([CHILDREN, *folders])
    sys.path.insert(0, CHILDREN)  # multiprocessing passes it on when it does not fork


def _run(words: Sequence[str]) -> None:
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    path = os.path.abspath(words[0])
    if not os.path.isfile(path):
        raise ConfigError(f"there is no file {path}; {USAGE}")
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(words[0], run_name="__main__")


def _raise(name: str, fault: Exception) -> NoReturn:
    """Raise the error for an exception of the program's; its traceback begins in the program."""
    if isinstance(fault, ConfigError):
        raise fault
    if isinstance(fault, ModuleNotFoundError) and str(fault.name).startswith("gunicorn."):
        raise ConfigError(
            f"{name}: {fault}: do without it; of gunicorn's modules `aserve python` has {', '.join(sorted(STAND_INS))}"
        ) from None
    trace = fault.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    raise app_raised(name, "running", fault.with_traceback(trace)) from None
