"""Text and octets, which uWSGI's functions take alike.

Owns:     Text; octets_of.
Thread:   any; pure.
Not here: the functions (names.py).
"""

from __future__ import annotations

from typing import Union

Text = Union[str, bytes]


def octets_of(value: Text) -> bytes:
    """Return the octets, of a text in UTF-8."""
    return value.encode() if isinstance(value, str) else bytes(value)
