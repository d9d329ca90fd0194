"""A tuple with named fields, as typing.NamedTuple, made in a third of the time.

Owns:     NamedTuple.
Thread:   any.
Not here: objects that change, and settings (settings/values.py).

typing.NamedTuple compiles each annotation, to find out whether it is one. A start makes 64 such classes: 7 % of the command's start (CPython 3.11,
2026-11-26).
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    # The attributes of every class.
    _OF_THE_BODY = {"__module__", "__qualname__", "__annotations__", "__firstlineno__", "__static_attributes__"}

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            """Return the class."""
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body[field] for field in fields if field in body]
            made = collections.namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__, made.__qualname__ = fields, body["__qualname__"]
            for key in body.keys() - fields.keys() - _OF_THE_BODY:
                setattr(made, key, body[key])
            return made

    class NamedTuple(metaclass=_Maker):
        """The base of a class body; the resulting class is a tuple."""
