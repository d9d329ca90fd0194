"""The form PREFIX=WHAT of a setting, for requests below a path, as in --mount and --static.

Owns:     Below, and its grammar.
Thread:   any; pure.
Not here: answering these requests (features/mounts.py, features/files/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from .kinds import checked_texts
from .secrecy import show_app

# A decoded path, of segments neither empty nor only dots.
_PREFIX = lazy_pattern(r"(/(?!\.{1,2}(?:/|\Z))[^/%?#\\]+)*\Z")


class Below(NamedTuple):
    """A prefix of paths, and the place of the answers."""

    prefix: (
        str  # of the decoded path, in PEP 3333's form (octets as latin-1), without a slash at the end; "": every path
    )
    what: str  # a folder's absolute path, or the spec of an app


def parse_below(text: str) -> Below:
    prefix, _, what = text.partition("=")
    prefix, what = prefix.strip(), what.strip()
    if not prefix.startswith("/") or not what:
        raise ValueError(f"{show_app(text)!r} is not of the form /PREFIX=...")
    prefix = prefix[:-1] if prefix.endswith("/") else prefix
    if not _PREFIX.match(prefix) or not prefix.isprintable():
        raise ValueError(f"{prefix!r} is not a path as it is when decoded, such as /static")
    return Below(prefix.encode().decode("latin-1"), what)


def parsed_texts(value: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return the texts, each accepted by `parse`; a table of a TOML file means PREFIX=WHAT."""
    if isinstance(value, Mapping):
        value = [f"{key}={what}" for key, what in value.items()]
    return checked_texts(value, parse)
