"""The settings of --static, --x-sendfile and --compress, and the grammar of each.

Owns:     FileSettings; '[PREFIX=]FOLDER' of --x-sendfile, 'PATTERN TIME' of --static-expires, 'PATTERN NAME: VALUE' of --static-fields.
Thread:   any; pure, but for the current folder as the base of relative paths.
Not here: their effect (static.py, compressing.py, x_sendfile.py), PREFIX=WHAT (settings/prefixes.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...settings import EngineSettings, Needs, row
from ...settings.kinds import GIB, KIB, NAME_CHARACTER, SWITCH, YEAR_SECONDS, Kind, duration, show_texts, size, texts_of
from ...settings.paths import whole_folder
from ...settings.prefixes import Below, parse_below, parsed_texts

IMMUTABLE = "immutable"

_TIME = duration(0.0, YEAR_SECONDS)

# The first name (RFC 9110 5.1) followed by a colon, after a space or at the beginning: a pattern rarely has one.
_FIELD = lazy_pattern(rf"(?:(.*?)\s+)??({NAME_CHARACTER}+):\s*([\x20-\x7e\x80-\xff]+)")

# Fields that differ for each file or response.
_OURS = frozenset((
    "accept-ranges", "connection", "content-encoding", "content-length", "content-range", "date", "etag", "keep-alive",
    "last-modified", "server", "trailer", "transfer-encoding", "upgrade", "vary",
))  # fmt: skip


class Sent(NamedTuple):
    """A folder whose files the app may name in place of a body."""

    prefix: str | None  # of the path in X-Accel-Redirect, as in Below; None: for X-Sendfile only
    path: str  # absolute


class Expiry(NamedTuple):
    """How long clients may keep files whose path matches the pattern."""

    pattern: re.Pattern[str] | None  # None: every path
    cache_control: str


class AddedField(NamedTuple):
    """A field of files whose path matches the pattern."""

    pattern: re.Pattern[str] | None  # None: every path
    name: str
    value: str


def parse_static(text: str) -> Below:
    """
    Parse `PREFIX=FOLDER`.

    Raises:
        ValueError: the text has another form.
    """
    below = parse_below(text)
    return below._replace(what=os.path.abspath(below.what))


def parse_sent(text: str) -> Sent:
    """
    Parse `[PREFIX=]FOLDER`.

    Raises:
        ValueError: the text has another form.
    """
    return Sent(*parse_static(text)) if "=" in text else Sent(None, os.path.abspath(text.strip()))


def parse_expiry(text: str) -> Expiry:
    """
    Parse `[PATTERN] TIME`.

    Raises:
        ValueError: the text has another form.
    """
    pattern_text, _, time = text.strip().rpartition(" ")
    pattern = _parse_pattern(pattern_text.strip())
    if time == IMMUTABLE:
        return Expiry(pattern, f"max-age={YEAR_SECONDS:.0f}, immutable")  # RFC 8246
    seconds = _TIME.parse(time)
    # RFC 9111 5.2.2.4: stored, and revalidated at each use.
    return Expiry(pattern, f"max-age={seconds:.0f}" if seconds else "no-cache")


def parse_added_field(text: str) -> AddedField:
    """
    Parse `[PATTERN] NAME: VALUE`.

    Raises:
        ValueError: the text has another form, or the server makes the field itself.
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


def _parse_statics(value: object) -> tuple[str, ...]:
    """Make folders absolute: the app may change the current folder, and a supervisor parses the setting again."""
    texts = parsed_texts(value, parse_static)
    return tuple(f"{text.partition('=')[0].strip()}={parse_static(text).what}" for text in texts)


def _parse_sent(value: object) -> tuple[str, ...]:
    sent = [(text, parse_sent(text).path) for text in parsed_texts(value, parse_sent)]
    return tuple(f"{text.partition('=')[0].strip()}={path}" if "=" in text else path for text, path in sent)


def _parse_names(value: object) -> tuple[str, ...]:
    names = tuple(texts_of(value, str.split))
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


EXPIRIES = Kind(
    "'[PATTERN] TIME'",
    "a regular expression that is searched in the path, and a time such as 10m or 24h, or immutable; in a variable one to a line",
    lambda value: parsed_texts(value, parse_expiry),
    show_texts,
)


FILE_FIELDS = Kind(
    "'[PATTERN] NAME: VALUE'",
    "a regular expression that is searched in the path, and a field, as in '\\.woff2$ Access-Control-Allow-Origin: *'; in a variable one to a line",
    lambda value: parsed_texts(value, parse_added_field),
    show_texts,
)


NAMES = Kind("NAME", "names of files, such as index.html", _parse_names, show_texts)

FILES = "Files and mounts"
_STATIC = Needs(("static",))


class FileSettings(EngineSettings):
    """Settings of files in place of responses, and of responses in fewer octets."""

    # fmt: off
    static: Sequence[str] = row(
        (), FILES, "--static", FOLDERS,
        "serve files below a path; repeatable, the longest wins; requests without a file there go to the app; see `aserve docs files`",
        "Only you know the public folders.",
        path=whole_folder,
    )
    static_index: Sequence[str] = row(
        ("index.html",), FILES, "--static-index", NAMES,
        "the file sent for a folder; repeatable, the first present counts; empty: none",
        "The default of web servers. Folders are never listed.",
        needs=_STATIC,
    )
    static_expires: Sequence[str] = row(
        (), FILES, "--static-expires", EXPIRIES,
        "how long clients may keep a file without asking: '10m', '\\.[0-9a-f]{12}\\. immutable'; repeatable, the first match of "
        "the path counts; none: clients ask each time, and get 304",
        "Asking is always correct, and cheap. Only you know the names with a hash of the content.",
        needs=_STATIC,
    )
    static_fields: Sequence[str] = row(
        (), FILES, "--static-fields", FILE_FIELDS,
        "a field of files: 'Access-Control-Allow-Origin: *', '\\.geojson$ Content-Type: application/json'; repeatable; for each name the "
        "first row counts whose pattern matches the path",
        "Most sites need none.",
        needs=_STATIC,
    )
    static_symlinks: bool = row(
        False, FILES, "--static-symlinks", SWITCH,
        "follow symbolic links out of the folder",
        "A user with write access to the folder could otherwise publish any file readable for the server. Links inside the folder are followed.",
        needs=Needs(("static", "x_sendfile")),
    )
    x_sendfile: Sequence[str] = row(
        (), FILES, "--x-sendfile", SENT,
        "folder whose files the app may send by name in X-Sendfile, or with a prefix in X-Accel-Redirect; repeatable; see "
        "`aserve docs files`",
        "An app written for a front server names this server's files; only you know which files may go out.",
        path=whole_folder,
    )
    compress: bool = row(
        False, FILES, "--compress", SWITCH,
        "compress the app's responses of text, by gzip, and by br and zstd where a package is installed; see `aserve docs files`",
        "A front server can compress as well. With TLS, the length of a compressed page reveals a secret inside, if the page "
        "also contains text from a stranger (BREACH): only you know your pages.",
    )
    compress_min_bytes: int = row(
        KIB, FILES, "--compress-min", size(0, GIB),
        "shortest compressed body, if the length is known",
        "Guess: a shorter body fits into a packet uncompressed.",
        needs=Needs(("compress",)),
    )
    # fmt: on

    @property
    def codings(self) -> Sequence[str]:
        """The codings of --compress, those of the installed packages included."""
        from .compressors import find_codings

        return [*find_codings()]
