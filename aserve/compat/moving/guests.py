"""Runs code of the user in aserve's own process: a configuration that is a program, and its hooks.

Owns:     hosting, where the server needs its signal handlers; reporting, where the app may set handlers, too; importing_from.
Thread:   the main thread.
Not here: the code that is run (gunicorn.py, gunicorn_hooks.py), the app (lifecycle/loading.py).

An exception of such code must not end the process: the end of a supervisor would end all workers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ...core.forks import end_if_forked, forked
from ...lifecycle.load_error import app_raised
from ...lifecycle.signals import Interrupted, kept_handlers


@contextlib.contextmanager
def hosting(what: str, doing: str) -> Iterator[None]:
    """
    Run the user's code in this context; restore signal handlers afterwards, and log those that the code has set.

    Raises:
        LoadError: see `reporting`.
    """
    with kept_handlers(what), reporting(what, doing):
        yield


@contextlib.contextmanager
def reporting(what: str, doing: str) -> Iterator[None]:
    """
    Run the user's code in this context; a child that the code forks ends where it would return into aserve.

    Raises:
        Interrupted: by a signal, at the start.
        LoadError: the code has raised anything else, SystemExit included.
    """
    count = len(forked)
    try:
        yield
        end_if_forked(count)
    except BaseException as fault:
        end_if_forked(count, fault)
        if isinstance(fault, Interrupted):
            raise
        raise app_raised(what, doing, fault) from None


@contextlib.contextmanager
def importing_from(*folders: str) -> Iterator[None]:
    """Let the user's code import the app's modules: gunicorn has the app's folder on sys.path in all its processes."""
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)
