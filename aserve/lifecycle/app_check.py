"""Tells why an object is no WSGI app.

Owns:     why_no_app; describe, the kind of an object in words.
Thread:   any; pure.
Not here: finding the object (loading.py); the exception, raised by the caller.
"""

from __future__ import annotations

import inspect
from types import ModuleType


def why_no_app(found: object, name: str) -> str:
    """Return why an object cannot be called as a WSGI app, and the remedy; "": no fault seen. `name`: the user's word for the object."""
    if not callable(found):
        is_lost = found is None and name.endswith(")")
        need = "let the factory return the app" if is_lost else "a WSGI app is called with (environ, start_response)"
        return f"{name} is {describe(found)}, which cannot be called; {need}"
    call = type(found).__call__
    if inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call):
        return _asgi(name)
    if not _accepts(found, 2):
        if _accepts(found, 3):
            return _asgi(name)
        arguments = "" if _accepts(found, 0) else "ARGUMENTS"
        return f"{name} cannot be called with (environ, start_response); is it a factory? write {name}({arguments})"
    return ""


def describe(value: object) -> str:
    """Return the kind of an object, such as `a dict`."""
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _accepts(found: object, count: int) -> bool:
    try:
        # A wrapped function may take other arguments than the wrapper, as in Werkzeug's Request.application.
        inspect.signature(found, follow_wrapped=False).bind(*range(count))  # type: ignore[arg-type]
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature: the first request will tell
        return True
    return True


def _asgi(name: str) -> str:
    return (
        f"{name} is an ASGI app, called with (scope, receive, send), and aserve serves WSGI; "
        "use the framework's WSGI app, or wrap it in a2wsgi.ASGIMiddleware"
    )
