"""Code of others that runs in a process of ours: a configuration that is a program, and its hooks.

Owns:     hosting, for a process whose signals are the server's; reporting, for one whose signals are the app's, too.
Thread:   the main thread.
Not here: what is run (gunicorn.py, gunicorn_hooks.py), the app (lifecycle/loading.py).

Such code ends nothing by what it raises: a supervisor that ended would take all workers with it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from ...core.forks import end_if_forked, forked
from ...lifecycle.loading import app_raised
from ...lifecycle.signals import kept_handlers


@contextlib.contextmanager
def hosting(what: str, doing: str) -> Iterator[None]:
    """
    Run code of others below this; signal handlers are as before afterwards, and a line names those that it has set.

    Raises:
        LoadError: see `reporting`.
    """
    with kept_handlers(what), reporting(what, doing):
        yield


@contextlib.contextmanager
def reporting(what: str, doing: str) -> Iterator[None]:
    """
    Run code of others below this; a child that it forks ends where it would come back.

    Raises:
        KeyboardInterrupt: of Ctrl-C, as long as that is not handled.
        LoadError: it has raised anything else, SystemExit included.
    """
    count = len(forked)
    try:
        yield
        end_if_forked(count)
    except BaseException as fault:
        end_if_forked(count, fault)
        if isinstance(fault, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise
        raise app_raised(what, doing, fault) from None
