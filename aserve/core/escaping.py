"""Text as HTML and URLs take it.

Owns:     escape_html; escape_url.
Thread:   any; pure.
Not here: what goes into a log (exchange.py), into a metric (features/metrics/text.py).

The module html has it, too, with the names of all 2,231 entities: half a megabyte of each process.
"""

from __future__ import annotations

from .patterns import lazy_pattern

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


# Octets that a URL may not have, or a field: a path that was decoded may have a CR.
_UNFIT = lazy_pattern(r"[^!-~]")


def escape_url(text: str) -> str:
    """Return a URL, its octets as latin-1, that may stand in a field Location: what it may not have is percent-encoded."""
    return _UNFIT.sub(lambda unfit: f"%{ord(unfit[0]):02X}", text)


def escape_html(text: str) -> str:
    """Return text that may stand in an element, and in an attribute in quotes."""
    return text.translate(_ENTITIES)
