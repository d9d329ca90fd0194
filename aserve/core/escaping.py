"""Text for HTML and URLs.

Owns:     escape_html; escape_url; path_of and decode_path, uWSGI's way to the path of a request.
Thread:   any; pure.
Spec:     uWSGI 2.0.31, core/utils.c (http_url_decode).
Not here: text for a log (exchange.py), for a metric (features/metrics/text.py).

The module html would do, but brings the names of all 2,231 entities: half a megabyte of each process.
"""

from __future__ import annotations

import re

from .patterns import lazy_pattern

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


# Octets forbidden in a URL, or in a field: a decoded path may have a CR.
_UNFIT = lazy_pattern(r"[^!-~]")
# A segment of dots; an escape; %%, a percent sign; an escape of no octet; other text.
_PART = lazy_pattern(r"((?:/|\A)\.\.?)(?=/|\Z)|%([0-9A-Fa-f]{2})|%(%)|%..?|%|([^%/]+|/)", re.DOTALL)


def escape_url(text: str) -> str:
    """Return a URL, in latin-1, for a field Location: forbidden octets are percent-encoded."""
    return _UNFIT.sub(lambda unfit: f"%{ord(unfit[0]):02X}", text)


def escape_html(text: str) -> str:
    """Return text for an element, or for an attribute in quotes."""
    return text.translate(_ENTITIES)


def path_of(target: str) -> str:
    """Return the path of a request target, maybe with a scheme and an authority."""
    path = target.partition("?")[0]
    return path if path.startswith("/") else "/" + "".join(path.split("/", 3)[3:])


def decode_path(path: str) -> str:
    """Return a path as decoded by uWSGI: `..` removes the decoded segment before it, and an escape of no octet stands for nothing."""
    whole = path.partition("#")[0]
    decoded = ""
    for part in _PART.finditer(whole):
        dots, octet, percent, text = part.groups()
        is_last = part.end() == len(whole)
        if dots is None:
            decoded += chr(int(octet, 16)) if octet else percent or text or ""
        elif dots.endswith(".."):
            decoded = decoded[: max(0, decoded.rfind("/") + is_last)]
        elif is_last:
            decoded += "/"
    return decoded
