"""gunicorn's addresses.

Owns:     texts, place_of.
Thread:   any.
Spec:     gunicorn 27.0.1, gunicorn/util.py, parse_address.
Not here: the setting `bind` (gunicorn_values.py), aserve's form of an address (settings/bind.py).
"""

from __future__ import annotations

import re
from typing import Any

from .draft import is_number

DEFAULT_PORT = 8000


def texts(value: Any) -> list[str]:
    """
    Parse texts, from a list or separated by commas.

    Raises:
        ValueError: they are not texts.
    """
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{value!r} is neither text nor a list of texts")
    return [item.strip() for item in items if item.strip()]


def place_of(value: str, folder: str) -> str:
    """
    Return an address in the form of --bind; `folder`: for relative paths, with a slash at its end, or empty.

    Raises:
        ValueError: the port is no number.
    """
    value = re.sub(r"\Atcp://", "", value)
    if value.startswith("fd://"):
        return f"fd:{value[5:]}"
    unix = re.match(r"unix:(?://)?(.*)\Z", value)
    if unix:
        return f"unix:{unix[1] if unix[1].startswith(('/', '@')) else folder + unix[1]}"
    host, colon, port = value.rpartition(":")
    if not colon or value.endswith("]"):
        host, port = value, str(DEFAULT_PORT)
    if not is_number(port):
        raise ValueError(f"{value!r}: {port!r} is not a port")
    return f"{host or '0.0.0.0'}:{port}"
