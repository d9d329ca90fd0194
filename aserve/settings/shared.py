"""The kinds of value of `--shared` and `--shared-prefix`: which Redis or Valkey hosts share, and under which names.

Owns:     Shared; the grammar of the URL.
Thread:   any; pure.
Not here: who connects there (features/sharing/store.py).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from .kinds import Kind, show_text
from .secrecy import HIDDEN, show_url

QUEUE = "shared:"  # what stands before the name of a queue of jobs in --spooler
QUEUE_NAME = re.compile(r"shared:[A-Za-z0-9_.-]{1,100}\Z")
_DB = re.compile(r"/?(?:[0-9]{1,6})?\Z")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,100}\Z")


class Shared(NamedTuple):
    """Where hosts share, and what the keys there begin with."""

    url: str
    prefix: str

    def __repr__(self) -> str:
        return f"Shared({show_url(self.url)!r}, {self.prefix!r})"


def _parse_url(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{value if isinstance(value, int) else 'it'} is not text")
    text = re.sub(r"\Aunix:(?=/[^/])", "unix://", value)
    try:
        parts = urlsplit(text)
    except ValueError:  # its fault would show a password
        raise ValueError(f"{show_url(value)!r} is no URL") from None
    if not text.startswith(("redis://", "rediss://", "unix:")):  # the package takes no others, such as REDIS://
        raise ValueError(f"{show_url(value)!r} begins neither with redis:// nor rediss:// nor unix:")
    if parts.scheme == "unix" and (len(parts.path) < 2 or not text.startswith("unix://")):
        raise ValueError(f"{show_url(value)!r} names no file by its whole path")
    if parts.scheme != "unix" and not (parts.hostname and _has_port(parts) and _DB.match(parts.path)):
        raise ValueError(f"{show_url(value)!r} is not HOST[:PORT][/DB]; in a password / is %2F, and # is %23")
    for name, number in parse_qsl(parts.query, keep_blank_values=True):
        if not name.startswith("ssl_") and name != "db":
            raise ValueError(
                f"{f'{name}=' if number else HIDDEN} is no option here; db= and ssl_ca_certs= and its like are"
            )
        if name == "db" and not re.match(r"[0-9]{1,6}\Z", number):
            raise ValueError(f"db={number} is no number of a database")
    return text


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is one, or not there; the fault of urllib's would show a part of a password."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _parse_prefix(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _PREFIX.match(value):
        raise ValueError(f"{value!r} is not a name")
    return value


SHARED = Kind(
    "URL",
    "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://... with TLS, unix:PATH[?db=DB]",
    _parse_url,
    show_text,
)
SHARED_PREFIX = Kind("NAME", "up to 100 letters, digits, _, ., : and -", _parse_prefix, show_text)
