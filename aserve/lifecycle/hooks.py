"""Calls an app's functions in each serving process.

Owns:     the app's functions for `post_fork`, and whether this process has called them; aserve's own functions for the end.
Thread:   the main thread at the import of the app; later any of the app's.
Not here: the callers (server/running.py, processes/worker/worker.py); uWSGI's names of these (compat/uwsgi_api/module.py).
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from .load_error import app_raised

Function = TypeVar("Function", bound=Callable[[], Any])

_functions: list[Callable[[], Any]] = []
_at_end: list[Callable[[], object]] = []
_has_begun = False


def post_fork(function: Function) -> Function:
    """
    Call this function, without arguments, once in each serving process, before the first request; usable as a decorator.

    The place for objects not to be shared by processes, such as connections and threads: with --preload the app is imported before the fork. In a
    process that already serves, the function is called at once.
    """
    _functions.append(function)
    if _has_begun:
        function()
    return function


def call_post_fork() -> None:
    """
    Call the functions of `post_fork`: this process is about to serve.

    Raises:
        LoadError: a function has raised.
    """
    global _has_begun
    for function in _functions:
        try:
            function()
        except (Exception, SystemExit) as fault:
            where, name = getattr(function, "__module__", "?"), getattr(function, "__qualname__", repr(function))
            raise app_raised(f"{where}:{name}", "calling the post_fork function", fault) from None
    _has_begun = True


def at_end(function: Callable[[], object]) -> None:
    """Register a function of aserve's for the end of serving, free of exceptions: the app's threads may still run."""
    _at_end.append(function)


def call_at_end() -> None:
    """Call the functions of `at_end`: this process has served."""
    for function in _at_end:
        function()
