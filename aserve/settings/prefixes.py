"""What answers below a path, as a setting names it: PREFIX=WHAT, as in --mount and --static.

Owns:     Below, its grammar, and that of --mount.
Thread:   any; pure.
Not here: what is done with it (mounts.py, features/files/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Callable, NamedTuple

from .kinds import Kind, show_texts, texts_of
from .secrecy import show_app

# A path as it is when decoded, of segments that are neither empty nor dots alone.
_PREFIX = re.compile(r"(/(?!\.{1,2}(?:/|\Z))[^/%?#\\]+)*\Z")

_APP = re.compile(r"[^\s=:]+(:.+)?\Z")


class Below(NamedTuple):
    """What answers for the paths below a prefix."""

    prefix: (
        str  # of the decoded path, as PEP 3333 has it (octets as latin-1), without the slash at its end; "": every path
    )
    what: str  # a folder's absolute path, or the spec of an app


def parse_mount(text: str) -> Below:
    """
    Return what `PREFIX=module:app` says.

    Raises:
        ValueError: it is not of that form.
    """
    below = parse_below(text, "/admin=shop.admin:app")
    if not _APP.match(below.what):
        raise ValueError(f"{show_app(below.what)!r} is not an app, such as shop.admin:app")
    return below


def parse_below(text: str, example: str) -> Below:
    prefix, _, what = text.partition("=")
    prefix, what = prefix.strip(), what.strip()
    if not prefix.startswith("/") or not what:
        raise ValueError(f"{show_app(text)!r} is not of the form PREFIX=..., as in {example}")
    prefix = prefix[:-1] if prefix.endswith("/") else prefix
    if not _PREFIX.match(prefix) or not prefix.isprintable():
        raise ValueError(f"{prefix!r} is not a path as it is when decoded, such as /static")
    return Below(prefix.encode().decode("latin-1"), what)


def parsed_texts(value: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return texts of which each can be parsed; a table of a TOML file stands for PREFIX=WHAT."""
    if isinstance(value, Mapping):
        value = [f"{key}={what}" for key, what in value.items()]
    texts = tuple(texts_of(value, str.splitlines))
    for text in texts:
        parse(text)
    return texts


def _parse_mounts(value: object) -> tuple[str, ...]:
    texts = parsed_texts(value, parse_mount)
    prefixes = [parse_mount(text).prefix for text in texts]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ValueError(f"{prefix or '/'} is named twice")
    return texts


MOUNTS = Kind(
    "PREFIX=APP",
    "a path's beginning and an app, as in /admin=shop.admin:app; in a variable one to a line",
    _parse_mounts,
    show_texts,
)
