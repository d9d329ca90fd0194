"""The decorators of `uwsgidecorators`, but for postfork.

Owns:     DECORATORS, by their names.
Thread:   any.
Spec:     uWSGI 2.0.30, uwsgidecorators.py.
Not here: postfork, and the module itself (module.py), the functions behind them (functions.py).
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, TypeVar

from ...rpc import register
from . import functions
from .harakiri import set_user_harakiri

Function = TypeVar("Function", bound=Callable[..., Any])


def signal(number: int, *, target: str = "") -> Callable[[Function], Function]:
    """
    Run the function for a signal.

    Raises:
        ValueError: see functions.register_signal; the same for all of these.
    """

    def decorate(function: Function) -> Function:
        functions.register_signal(number, target, function)
        return function

    return decorate


def timer(seconds: float, *, signum: int | None = None, target: str = "") -> Callable[[Function], Function]:
    """Run the function every `seconds`, in one worker."""
    return _scheduled(functions.add_timer, (seconds,), signum, target)


def rbtimer(seconds: float, *, signum: int | None = None, target: str = "") -> Callable[[Function], Function]:
    """Do the same as `timer`."""
    return _scheduled(functions.add_rb_timer, (seconds,), signum, target)


def cron(
    minute: int, hour: int, day: int, month: int, dayweek: int, *, signum: int | None = None, target: str = ""
) -> Callable[[Function], Function]:
    """Run the function at these minutes of local time, in one worker; -1 is any, -5 every fifth."""
    return _scheduled(functions.add_cron, (minute, hour, day, month, dayweek), signum, target)


def filemon(path: str, *, signum: int | None = None, target: str = "") -> Callable[[Function], Function]:
    """Run the function when a file changes, or something in a folder, in one worker."""
    return _scheduled(functions.add_file_monitor, (path,), signum, target)


def _scheduled(
    schedule: Callable[..., None], when: tuple[Any, ...], signum: int | None, target: str
) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        number = functions.free_signal() if signum is None else signum
        functions.register_signal(number, target, function)
        schedule(number, *when)
        return function

    return decorate


def lock(function: Function) -> Function:
    """Run the function while no other process has lock 0."""

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        functions.lock()
        try:
            return function(*arguments, **named)
        finally:
            functions.unlock()

    return run  # type: ignore[return-value]


def thread(function: Function) -> Callable[..., Function]:
    """Run each call of the function in a thread of its own; the call returns the function."""

    @functools.wraps(function)
    def start(*arguments: Any, **named: Any) -> Function:
        threading.Thread(target=function, args=arguments, kwargs=named, daemon=True).start()
        return function

    return start


def harakiri(seconds: int) -> Callable[[Function], Function]:
    """End this process if a call of the function takes longer; see set_user_harakiri."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            set_user_harakiri(seconds)
            try:
                return function(*arguments, **named)
            finally:
                set_user_harakiri(0)

        return run  # type: ignore[return-value]

    return decorate


def rpc(name: str) -> Callable[[Function], Function]:
    """
    Register the function for RPC, or replace the one of this name.

    Raises:
        ValueError, TypeError: see aserve.rpc.register.
    """

    def decorate(function: Function) -> Function:
        register(name, function, replace=True)
        return function

    return decorate


DECORATORS: dict[str, Any] = {
    decorator.__name__: decorator for decorator in (signal, timer, rbtimer, cron, filemon, lock, thread, harakiri, rpc)
}
