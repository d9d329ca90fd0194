"""Wrappers of an app: their name in logs, and whether iterating the result runs code of the app.

Owns:     named_as, is_inert.
Thread:   any.
Not here: the wrappers (deadlines.py, features/, features/fault_page.py).
"""

from __future__ import annotations

from typing import Any, TypeVar

from .gateway import FileWrapper

Wrapper = TypeVar("Wrapper")


def named_as(wrapper: Wrapper, app: object) -> Wrapper:
    """Give a wrapper the name of the app, used by the gateway in the log, and return the wrapper."""
    named: Any = wrapper
    named.__qualname__ = getattr(app, "__qualname__", None) or type(app).__qualname__
    named.__module__ = getattr(app, "__module__", None) or type(app).__module__
    return wrapper


def is_inert(iterable: Any) -> bool:
    """Whether iterating an app's return value runs no code of the app: a wrapper then returns the value unchanged, as the gateway knows such
    types."""
    kind = type(iterable)
    return kind is list or kind is tuple or (kind is FileWrapper and iterable.extent() is not None)
