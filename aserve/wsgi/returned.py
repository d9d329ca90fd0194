"""The return value of an app, and error texts for one that is no iterable of bytes.

Owns:     iterate and close, for wrappers in front of an app; not_iterable; not_bytes.
Thread:   any.
Spec:     PEP 3333: "an iterable yielding zero or more bytestrings".
Not here: iterating (gateway.py), handling the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.errors import AppError

_ASYNC = (
    "which nothing awaits: the app, or its view, is async; wrap a function in asgiref.sync.async_to_sync, "
    "an ASGI app in a2wsgi.ASGIMiddleware"
)


def iterate(returned: Iterable[bytes]) -> Iterator[bytes]:
    """
    Return an iterator over an app's return value.

    Raises:
        AppError: the value cannot be iterated.
    """
    try:
        return iter(returned)
    except TypeError:
        error = not_iterable(returned)
        if error is None:
            raise  # by the value's own __iter__
    raise error


def close(returned: object) -> None:
    """Close an app's return value, if there is a close()."""
    found = getattr(returned, "close", None)
    if found is not None:
        found()


def not_iterable(returned: object) -> AppError | None:
    """Return the error of an app with this return value; None: the value can be iterated."""
    kind = type(returned)
    if hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"):
        return None
    if returned is None:
        why = "None, not an iterable of bytes: is a `return` missing? return [body], or [] without a body"
    elif hasattr(kind, "__await__"):
        why = f"a {kind.__name__}, {_ASYNC}"
    elif hasattr(kind, "__aiter__"):
        why = f"an {kind.__name__.replace('_', ' ')}, {_ASYNC}"
    elif callable(returned):
        why = f"{kind.__name__}, which is called, not iterated: return response(environ, start_response)"
    else:
        why = f"{kind.__name__}, not an iterable of bytes: return [body]"
    return AppError(f"the app returned {why}")


def not_bytes(chunk: object) -> AppError:
    """Return the error of an app whose body has this chunk."""
    remedy = ""
    if type(chunk) is int:
        remedy = "; an app whose whole body is bytes returns [body], as bytes are made of integers"
    elif isinstance(chunk, str):
        remedy = '; encode it: [text.encode("utf-8")]'
    return AppError(f"the body must be made of bytes, not {type(chunk).__name__}: {chunk!r:.60}{remedy}")
