"""The queue in which OpenSSL keeps a thread's errors: one session's error is not another's.

Owns:     guard, around a call of OpenSSL's by Python's ssl module.
Thread:   any.
Not here: the same in C, where each call begins with an empty queue (cparsers/tls.c).
"""

from __future__ import annotations

import functools
import ssl
import sys
from typing import Any, Callable, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def _clear_error_queue() -> None:
    """Forget the errors that OpenSSL keeps for this thread."""
    bio = ssl.MemoryBIO()
    bio.write_eof()
    try:
        bio.write(b"-")  # refused; and PyPy clears the queue when it refuses
    except ssl.SSLError:
        pass


def _call_and_clear(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ssl.SSLWantReadError:
        raise
    except Exception as first:
        _clear_error_queue()
        if not isinstance(first, ssl.SSLError):
            raise
        try:
            # The error may belong to another session, such as that of a TLS client in the same program. If not,
            # this session is broken, and reports it again or seems to have ended.
            result = function(*arguments)
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            _clear_error_queue()
            raise first from None
        if not result:
            raise first
        return result


def guard(function: Function) -> Function:
    """
    Return `function`, one of OpenSSL's, in a form that does not raise errors of other sessions.

    PyPy 3.9 looks at the thread's queue of errors after each call, and does not clear it: after one
    client's broken record the calls for all others would fail with that client's error.
    """
    if sys.implementation.name == "pypy":
        return cast(Function, functools.partial(_call_and_clear, function))
    return function
