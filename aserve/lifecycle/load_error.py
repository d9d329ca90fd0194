"""The error of an unusable app, with the traceback of the app's own code.

Owns:     LoadError; app_raised.
Thread:   any.
Not here: finding and importing the app (loading.py), printing errors (command/cli.py).
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import traceback

from ..core.errors import FAILED, USAGE_ERROR, AserveError


class LoadError(AserveError):
    """
    There is no app to serve: the user's or the app's fault. `str()` is one line: the name, the places searched, and the remedy.

    `app_traceback` is the traceback of the app's own code, or empty.
    """

    def __init__(self, text: str, app_traceback: str = "") -> None:
        super().__init__(text)
        self.app_traceback = app_traceback
        self.exit_status = FAILED if app_traceback else USAGE_ERROR  # code that has run may succeed the next time


def app_raised(what: str, doing: str, fault: BaseException) -> LoadError:
    """Return the error for an exception of the app's code: `what` has raised while `doing`; call in the except clause."""
    trace = traceback.TracebackException.from_exception(fault)
    # sys.exit() gives (None,) on PyPy. The text of `trace` is there, too, where the app's __str__ raises.
    detail = "" if fault.args in ((), (None,)) else str(trace)
    text = f"{type(fault).__name__}: {detail}".splitlines()[0].rstrip(": ")
    if isinstance(fault, ModuleNotFoundError) and fault.name == "uwsgi":
        text += "; with --uwsgi-module on there is one"
    elif isinstance(fault, ModuleNotFoundError) and str(fault.name).partition(".")[0] == "gunicorn":
        text += "; have gunicorn installed as well, or take out what imports it"
    elif isinstance(fault, ModuleNotFoundError) and fault.name and fault.name.partition(".")[0] not in sys.modules:
        text += f"; {sys.executable} has no such module: {_way_to_module()}"
    _cut_to_app(trace)
    return LoadError(f"{doing} {what} raised {text}", "".join(trace.format()))


def _way_to_module() -> str:
    """Return what to do for a module that this Python has not: start the environment beside the app, if there is one that is not active."""
    for folder in (".venv", "venv", "env"):
        python = os.path.join(folder, "bin", "python")
        if os.path.exists(python) and os.path.realpath(folder) != os.path.realpath(sys.prefix):
            return f"the virtual environment {folder} is not active; start {python} -m aserve"
    return "run aserve in the app's folder, with the Python that has the app's packages"


def _cut_to_app(trace: traceback.TracebackException) -> None:
    """Remove the frames of the import system, and aserve's before the app's first, here and in the causes."""
    ours = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frames = [
        one for one in trace.stack if one.filename != importlib.__file__ and "frozen importlib" not in one.filename
    ]
    of_app = itertools.dropwhile(lambda one: one.filename.startswith(ours), frames)
    # Without a frame of the app's the fault is our own; but a SyntaxError names the app's file and line.
    is_named = hasattr(trace, "filename")
    trace.stack = traceback.StackSummary.from_list(list(of_app) or ([] if is_named else frames))
    for cause in (trace.__cause__, trace.__context__):
        if cause is not None:
            _cut_to_app(cause)
