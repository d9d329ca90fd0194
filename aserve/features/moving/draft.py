"""Another server's settings, on their way to ours.

Owns:     Row, of which each source has a table; Draft, which its loader fills, with what is to be said about it.
Thread:   any.
Not here: the tables (uwsgi_table.py, gunicorn_table.py), reading files (uwsgi_files.py, gunicorn.py), printing (translate.py).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple

from ...core.exchange import shortened
from ...core.near_names import near_names
from ...settings import ConfigError
from ...settings.secrecy import HIDDEN
from .. import SETTINGS

BY_KEY = {setting.key: setting for setting in SETTINGS}
# difflib's ratio: "vaccum" is near to "vacuum", and "theads" to "threads"; "static" is no typing error of "stats".
NEAR = 0.8
MAX_SHOWN = 100  # characters of a setting in a message
# Numbers, switches, addresses and paths, of a setting that may hold a secret.
HARMLESS = re.compile(r"([0-9.,:*-]{0,39}|(?i:true|false|yes|no|on|off|none)|(/[\w.-]+)+(=(/[\w.-]+)+)?)\Z")


class Given(NamedTuple):
    """One setting as it was given."""

    key: str
    value: Any
    where: str  # "app.ini:12", or the name of a variable
    is_secret: bool = False  # its value may be, or hold, a secret

    def __str__(self) -> str:
        if callable(self.value):
            return f"{self.key}()"
        value = self.value if isinstance(self.value, str) else repr(self.value)
        if self.is_secret and not HARMLESS.match(value):
            value = HIDDEN
        text = " ".join(f"{self.key} = {value}".split()).rstrip(" =")
        return shortened(text, MAX_SHOWN)


class Row(NamedTuple):
    """What becomes of one setting of another server, under all of its names."""

    names: Sequence[str]  # the usual one first; one that ends in "*" is a family
    to: Sequence[str]  # keys of ours
    take: Callable[[Draft, Given], None] | None  # puts it into the draft; raises ValueError: it is wrong
    text: str  # why nothing is to be done, or what to do instead, or what differs
    is_told: bool  # as it has no effect that whoever wrote it counts on

    @property
    def is_secret(self) -> bool:
        """Whether its value may hold a secret: a setting of ours that may holds it, or it has no effect, and could be anything."""
        return self.is_told or any(key in BY_KEY and BY_KEY[key].secret for key in self.to)


def maps(names: str, to: str, take: Callable[[Draft, Given], None], text: str = "") -> Row:
    """Return the row of a setting that we have."""
    return Row(names.split(), to.split(), take, text, False)


def always(names: str, text: str) -> Row:
    """Return the row of a setting for which nothing needs to be done."""
    return Row(names.split(), (), None, text, False)


def unlike(names: str, text: str) -> Row:
    """Return the row of a setting that has no effect here, with what to do instead."""
    return Row(names.split(), (), None, text, True)


class Rows:
    """A table, to look names up in."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._by_name = {name: row for row in rows for name in row.names}
        self._families = sorted((name[:-1] for name in self._by_name if name.endswith("*")), key=len, reverse=True)

    def find(self, name: str) -> Row | None:
        """Return the row of a name, or of the longest family that it belongs to."""
        if name in self._by_name:
            return self._by_name[name]
        family = next((start for start in self._families if name.startswith(start)), None)
        return self._by_name[f"{family}*"] if family is not None else None

    def nearest(self, name: str) -> str | None:
        """Return the name that may have been meant."""
        near = near_names(name, [known for known in self._by_name if known[-1] != "*"], 1, NEAR)
        return near[0] if near else None


class Note(NamedTuple):
    """What whoever wrote a setting should know."""

    where: str
    said: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}: {self.text}"


class Draft:
    """Settings of ours, by their TOML keys, as they come together."""

    def __init__(self, name: str) -> None:
        self.name = name  # of the file, for messages
        self.settings: dict[str, Any] = {}
        self.whence: dict[str, list[Given]] = {}  # a setting's key: what has led to it
        self.notes: list[Note] = []
        self.app: str | None = None
        self.app_whence: Given | None = None
        self.facts: dict[str, Any] = {}  # what a loader has to know of several settings in the end

    def take(self, row: Row, given: Given) -> None:
        """
        Do with a setting what its row says.

        Raises:
            ConfigError: its value is wrong.
        """
        given = given._replace(is_secret=row.is_secret)
        if row.is_told:
            self.note(given, f"it has no effect here: {row.text}")
        if row.take is None:
            return
        with refusing(given):
            row.take(self, given)

    def put(self, key: str, value: object, given: Given) -> None:
        """
        Set one of ours; a later value wins.

        Raises:
            ConfigError: it is not accepted.
        """
        with refusing(given):
            check(key, value)
        self.settings[key] = value
        self.whence[key] = [given]

    def add(self, key: str, value: object, given: Given) -> None:
        """
        Add a value to one of ours that has several.

        Raises:
            ConfigError: it is not accepted.
        """
        with refusing(given):
            check(key, [value])
        self.settings.setdefault(key, []).append(value)
        self.whence.setdefault(key, []).append(given)

    def default(self, key: str, value: object, why: str) -> None:
        """Set one of ours, if nothing has; `why` is for whoever reads the translation."""
        if key not in self.settings:
            self.settings[key] = value
            self.whence[key] = [Given(why, "", "")]

    def drop(self, key: str, text: str) -> None:
        """Take one of ours back, and say why."""
        if key in self.settings:
            del self.settings[key]
            for given in self.whence.pop(key):
                self.note(given, text)

    def note(self, given: Given, text: str) -> None:
        """Have something said."""
        note = Note(given.where, str(given), text)
        if note not in self.notes:
            self.notes.append(note)


def check(key: str, value: object) -> None:
    """
    Check a value for one of ours.

    Raises:
        ValueError: it is not accepted.
    """
    kind = BY_KEY[key].kind
    try:
        kind.parse(value)
    except ValueError as fault:
        raise ValueError(f"{fault}; accepted for {key}: {kind.accepts}") from None


@contextlib.contextmanager
def refusing(given: Given) -> Iterator[None]:
    """
    Say of a wrong value where it is from.

    Raises:
        ConfigError: for any ValueError within.
    """
    try:
        yield
    except ConfigError:
        raise  # it says so already
    except ValueError as fault:
        raise ConfigError(f"{given.where}: {given}: {fault}") from None
