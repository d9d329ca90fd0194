"""The kinds of value of settings for files and mounts, and the grammar of each.

Owns:     PREFIX=WHAT, as in `--static` and `--mount`; 'PATTERN TIME' of `--static-expires`, 'PATTERN NAME: VALUE' of `--static-fields`.
Thread:   any; pure, but for the current folder, by which a relative path is made absolute.
Not here: what is done with them (features/files/, features/mounts.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Callable, NamedTuple

from .kinds import Kind, _texts_of, duration, show_texts
from .secrecy import show_app

YEAR_SECONDS = 365 * 86400.0  # RFC 9111 gives no limit; the RFC before it, 2616 14.21, said a year
IMMUTABLE = "immutable"

_TIME = duration(0.0, YEAR_SECONDS)
# A path as it is when decoded, of segments that are neither empty nor dots alone.
_PREFIX = re.compile(r"(/(?!\.{1,2}(?:/|\Z))[^/%?#\\]+)*\Z")
_APP = re.compile(r"[^\s=:]+(:.+)?\Z")
# The first name (RFC 9110 5.1) with a colon behind it, after a space or at the beginning: a pattern rarely has one.
_FIELD = re.compile(r"(?:(.*?)\s+)??([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([\x20-\x7e\x80-\xff]+)")
# Each file has its own, or each response.
_OURS = frozenset((
    "accept-ranges", "connection", "content-encoding", "content-length", "content-range", "date", "etag", "keep-alive",
    "last-modified", "server", "trailer", "transfer-encoding", "upgrade", "vary",
))  # fmt: skip


class Below(NamedTuple):
    """What answers for the paths below a prefix."""

    prefix: (
        str  # of the decoded path, as PEP 3333 has it (octets as latin-1), without the slash at its end; "": every path
    )
    what: str  # a folder's absolute path, or the spec of an app


class Sent(NamedTuple):
    """A folder whose files the app may name in place of a body."""

    prefix: str | None  # of the path in X-Accel-Redirect, as in Below; None: it is only for X-Sendfile
    path: str  # absolute


class Expiry(NamedTuple):
    """How long clients may keep what the pattern is found in."""

    pattern: re.Pattern[str] | None  # None: every path
    cache_control: str


class AddedField(NamedTuple):
    """A field of the files in whose path the pattern is found."""

    pattern: re.Pattern[str] | None  # None: every path
    name: str
    value: str


def parse_static(text: str) -> Below:
    """
    Return what `PREFIX=FOLDER` says.

    Raises:
        ValueError: it is not of that form.
    """
    below = _parse_below(text, "/static=/srv/shop/static")
    return below._replace(what=os.path.abspath(below.what))


def parse_mount(text: str) -> Below:
    """
    Return what `PREFIX=module:app` says.

    Raises:
        ValueError: it is not of that form.
    """
    below = _parse_below(text, "/admin=shop.admin:app")
    if not _APP.match(below.what):
        raise ValueError(f"{show_app(below.what)!r} is not an app, such as shop.admin:app")
    return below


def _parse_below(text: str, example: str) -> Below:
    prefix, _, what = text.partition("=")
    prefix, what = prefix.strip(), what.strip()
    if not prefix.startswith("/") or not what:
        raise ValueError(f"{show_app(text)!r} is not of the form PREFIX=..., as in {example}")
    prefix = prefix[:-1] if prefix.endswith("/") else prefix
    if not _PREFIX.match(prefix) or not prefix.isprintable():
        raise ValueError(f"{prefix!r} is not a path as it is when decoded, such as /static")
    return Below(prefix.encode().decode("latin-1"), what)


def parse_sent(text: str) -> Sent:
    """
    Return what `[PREFIX=]FOLDER` says.

    Raises:
        ValueError: it is not of that form.
    """
    return Sent(*parse_static(text)) if "=" in text else Sent(None, os.path.abspath(text.strip()))


def parse_expiry(text: str) -> Expiry:
    """
    Return what `[PATTERN] TIME` says.

    Raises:
        ValueError: it is not of that form.
    """
    pattern_text, _, time = text.strip().rpartition(" ")
    pattern = _parse_pattern(pattern_text.strip())
    if time == IMMUTABLE:
        return Expiry(pattern, f"max-age={YEAR_SECONDS:.0f}, immutable")  # RFC 8246
    seconds = _TIME.parse(time)
    # RFC 9111 5.2.2.4: kept, and asked for anew each time.
    return Expiry(pattern, f"max-age={seconds:.0f}" if seconds else "no-cache")


def parse_added_field(text: str) -> AddedField:
    """
    Return what `[PATTERN] NAME: VALUE` says.

    Raises:
        ValueError: it is not of that form, or the field is not for a user to say.
    """
    match = _FIELD.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not of the form [PATTERN] NAME: VALUE, as in '\\.woff2$ Access-Control-Allow-Origin: *'"
        )
    pattern, name, value = match.groups()
    if name.lower() in _OURS:
        raise ValueError(f"{name} is made by the server for each file")
    return AddedField(_parse_pattern(pattern), name, value)


def _parse_pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as fault:
        raise ValueError(f"{text!r} is no regular expression: {fault}") from None


def _texts(value: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return texts of which each can be parsed; a table of a TOML file stands for PREFIX=WHAT."""
    if isinstance(value, Mapping):
        value = [f"{key}={what}" for key, what in value.items()]
    texts = tuple(_texts_of(value, str.splitlines))
    for text in texts:
        parse(text)
    return texts


def _parse_statics(value: object) -> tuple[str, ...]:
    """Make folders absolute: the app may change the current one, and a supervisor reads it again."""
    texts = _texts(value, parse_static)
    return tuple(f"{text.partition('=')[0].strip()}={parse_static(text).what}" for text in texts)


def _parse_sent(value: object) -> tuple[str, ...]:
    sent = [(text, parse_sent(text).path) for text in _texts(value, parse_sent)]
    return tuple(f"{text.partition('=')[0].strip()}={path}" if "=" in text else path for text, path in sent)


def _parse_mounts(value: object) -> tuple[str, ...]:
    texts = _texts(value, parse_mount)
    prefixes = [parse_mount(text).prefix for text in texts]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ValueError(f"{prefix or '/'} is named twice")
    return texts


def _parse_names(value: object) -> tuple[str, ...]:
    names = tuple(_texts_of(value, str.split))
    for name in names:
        if "/" in name or "\0" in name or name.startswith("."):
            raise ValueError(f"{name!r} is not the name of a file, such as index.html")
    return names


FOLDERS = Kind(
    "PREFIX=FOLDER",
    "a path's beginning and a folder (or one file), as in /static=/srv/shop/static; in a variable one to a line",
    _parse_statics,
    show_texts,
)
SENT = Kind(
    "[PREFIX=]FOLDER",
    "a folder, as in /srv/media, or with the path that stands for it, as in /protected=/srv/media; in a variable one to a line",
    _parse_sent,
    show_texts,
)
MOUNTS = Kind(
    "PREFIX=APP",
    "a path's beginning and an app, as in /admin=shop.admin:app; in a variable one to a line",
    _parse_mounts,
    show_texts,
)
EXPIRIES = Kind(
    "'[PATTERN] TIME'",
    "a regular expression that is searched in the path, and a time such as 10m or 24h, or immutable; in a variable one to a line",
    lambda value: _texts(value, parse_expiry),
    show_texts,
)
FILE_FIELDS = Kind(
    "'[PATTERN] NAME: VALUE'",
    "a regular expression that is searched in the path, and a field, as in '\\.woff2$ Access-Control-Allow-Origin: *'; in a variable one to a line",
    lambda value: _texts(value, parse_added_field),
    show_texts,
)
NAMES = Kind("NAME", "names of files, such as index.html", _parse_names, show_texts)
