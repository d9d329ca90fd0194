"""Text as HTML and URLs take it.

Owns:     escape_html; escape_url; path_of and decode_path, by which uWSGI finds the path of a request.
Thread:   any; pure.
Spec:     uWSGI 2.0.31, core/utils.c (http_url_decode).
Not here: what goes into a log (exchange.py), into a metric (features/metrics/text.py).

The module html has it, too, with the names of all 2,231 entities: half a megabyte of each process.
"""

from __future__ import annotations

import re

from .patterns import lazy_pattern

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


# Octets that a URL may not have, or a field: a path that was decoded may have a CR.
_UNFIT = lazy_pattern(r"[^!-~]")
# A segment of dots; an escape; %%, which is a percent sign; an escape of no octet; other text.
_PART = lazy_pattern(r"((?:/|\A)\.\.?)(?=/|\Z)|%([0-9A-Fa-f]{2})|%(%)|%..?|%|([^%/]+|/)", re.DOTALL)


def escape_url(text: str) -> str:
    """Return a URL, its octets as latin-1, that may stand in a field Location: what it may not have is percent-encoded."""
    return _UNFIT.sub(lambda unfit: f"%{ord(unfit[0]):02X}", text)


def escape_html(text: str) -> str:
    """Return text that may stand in an element, and in an attribute in quotes."""
    return text.translate(_ENTITIES)


def path_of(target: str) -> str:
    """Return the path of a request target, which may have a scheme and an authority."""
    path = target.partition("?")[0]
    return path if path.startswith("/") else "/" + "".join(path.split("/", 3)[3:])


def decode_path(path: str) -> str:
    """Return a path as uWSGI decodes it: `..` removes what is decoded before it, and an escape of no octet stands for nothing."""
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
