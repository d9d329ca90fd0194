"""Text as HTML takes it.

Owns:     escape_html.
Thread:   any; pure.
Not here: what goes into a log (exchange.py), into a metric (features/metrics/text.py).

The module html has it, too, with the names of all 2,231 entities: half a megabyte of each process.
"""

from __future__ import annotations

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape_html(text: str) -> str:
    """Return text that may stand in an element, and in an attribute in quotes."""
    return text.translate(_ENTITIES)
