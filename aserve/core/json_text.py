"""JSON that others have written.

Owns:     read_json; read_object, for a message.
Thread:   any; pure.
Spec:     RFC 8259; its section 9 lets a parser limit how deep texts are nested.
Not here: whose fault a bad text is, and what becomes of it: whoever reads knows where it came from.
"""

from __future__ import annotations

import json
from typing import Any

TOO_DEEP = "it is nested too deeply"


def read_json(text: str | bytes | bytearray, **options: Any) -> Any:
    """
    Return the value that a text says; `options` are those of `json.loads`.

    Raises:
        ValueError: it is no JSON, or more than can be read: how deep, Python's recursion limit says.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def read_object(text: str | bytes | bytearray) -> dict[str, Any]:
    """
    Return the object that a text says.

    Raises:
        ValueError: it is no JSON, or another value.
    """
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
