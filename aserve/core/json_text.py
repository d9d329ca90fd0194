"""JSON from other programs.

Owns:     read_json, read_object.
Thread:   any; pure.
Spec:     RFC 8259; by section 9 a parser may limit the nesting of texts.
Not here: whose fault a bad text is: the caller knows its source.
"""

from __future__ import annotations

import json
from typing import Any

TOO_DEEP = "it is nested too deeply"


def read_json(text: str | bytes | bytearray, **options: Any) -> Any:
    """
    Parse a text; `options` go to `json.loads`.

    Raises:
        ValueError: not JSON, or nested more deeply than Python's recursion limit allows.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def read_object(text: str | bytes | bytearray) -> dict[str, Any]:
    """
    Parse the text of an object.

    Raises:
        ValueError: not JSON, or not an object.
    """
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
