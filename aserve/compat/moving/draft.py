"""Another server's settings while they are turned into aserve's.

Owns:     Row, an entry of a server's table; Draft, which the server's loader fills with settings and notes.
Thread:   any.
Not here: the tables (uwsgi_table.py, gunicorn_table.py), reading files (uwsgi_files.py, gunicorn.py), printing (translate.py).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from ...core.exchange import shortened
from ...core.named_tuple import NamedTuple
from ...core.near_names import near_names
from ...features import SETTINGS
from ...settings import ConfigError
from ...settings.secrecy import HIDDEN

BY_KEY = {setting.key: setting for setting in SETTINGS}
# difflib's ratio: "vaccum" is near to "vacuum", and "theads" to "threads"; "static" is no misspelling of "stats".
NEAR = 0.8
MAX_SHOWN = 100  # characters of a setting in a message
# Harmless values of a setting that may hold a secret: numbers, switches, addresses and paths.
HARMLESS = re.compile(r"([0-9.,:*-]{0,39}|(?i:true|false|yes|no|on|off|none)|(/[\w.-]+)+(=(/[\w.-]+)+)?)\Z")

NAME = re.compile(r"([\w.-]+(, [\w.-]+)*)?")  # of an option, or of several of a family


class Given(NamedTuple):
    """One setting of the other server, as the user gave it."""

    key: str
    value: Any
    where: str  # "app.ini:12", or the name of a variable
    is_secret: bool = False  # its value may contain a secret

    def __str__(self) -> str:
        if callable(self.value):
            return f"{self.key} = {self.value.__name__}" if isinstance(self.value, type) else f"{self.key}()"
        key, value = self.key, self.value if isinstance(self.value, str) else repr(self.value)
        if self.is_secret and not HARMLESS.match(value):
            value = HIDDEN
        name = NAME.match(key)
        if self.is_secret and name and name.end() < len(key):  # a line without its equals sign
            key = f"{name[0]} {HIDDEN}"
        text = " ".join(f"{key} = {value}".split()).rstrip(" =")
        return shortened(text, MAX_SHOWN)


class Row(NamedTuple):
    """The translation of one setting of another server, under all of its names."""

    names: Sequence[str]  # the usual one first; one that ends in "*" is a family
    to: Sequence[str]  # TOML keys of aserve
    take: Callable[[Draft, Given], None] | None  # puts the value into the draft; raises ValueError if it is wrong
    text: str  # why it needs no action, or what to do instead, or what differs
    is_told: bool  # the user must know that it has no effect

    @property
    def is_secret(self) -> bool:
        """Whether its value may contain a secret: it goes to a secret setting of aserve, or has no effect and may be anything."""
        return self.is_told or any(key in BY_KEY and BY_KEY[key].secret for key in self.to)


def maps(names: str, to: str, take: Callable[[Draft, Given], None], text: str = "") -> Row:
    """Return the row of a setting that aserve has."""
    return Row(names.split(), to.split(), take, text, False)


def always(names: str, text: str) -> Row:
    """Return the row of a setting that needs no action."""
    return Row(names.split(), (), None, text, False)


def unlike(names: str, text: str) -> Row:
    """Return the row of a setting that has no effect here, with what to do instead."""
    return Row(names.split(), (), None, text, True)


class Rows:
    """A table of rows by name."""

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
        """Return the nearest known name, as the likely intention."""
        near = near_names(name, [known for known in self._by_name if known[-1] != "*"], 1, NEAR)
        return near[0] if near else None


class Note(NamedTuple):
    """A note to the user about a setting."""

    where: str
    said: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}: {self.text}"

    def place(self) -> tuple[str, int]:
        """Return the file and the line, by which notes are shown in order."""
        file, _, line = self.where.rpartition(":")
        return (file, int(line)) if is_number(line) else (self.where, 0)


class Draft:
    """Settings of aserve by their TOML keys, collected one by one."""

    def __init__(self, name: str) -> None:
        self.name = name  # of the file, for messages
        self.settings: dict[str, Any] = {}
        self.whence: dict[str, list[Given]] = {}  # by a setting's key, its origins
        self.notes: list[Note] = []
        self.mistakes: list[str] = []  # what stops the start, to be reported together
        self.guards: list[Note] = []  # those of the notes that are about a rule that keeps clients from the app
        self.replaced: list[Note] = []  # values that give way to aserve's own sources, or come before theirs
        self.app: str | None = None
        self.app_whence: Given | None = None
        self.facts: dict[str, Any] = {}  # values that the loader needs at the end, when it knows all settings

    def take(self, row: Row, given: Given) -> None:
        """
        Apply a row to a setting.

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
        Set a setting of aserve; a later value wins.

        Raises:
            ConfigError: it is not accepted.
        """
        with refusing(given):
            check(key, value)
        self.settings[key] = value
        self.whence[key] = [given]

    def add(self, key: str, value: object, given: Given) -> None:
        """
        Add a value to a setting of aserve that takes several.

        Raises:
            ConfigError: it is not accepted.
        """
        with refusing(given):
            check(key, [value])
        self.settings.setdefault(key, []).append(value)
        self.whence.setdefault(key, []).append(given)

    def default(self, key: str, value: object, why: str) -> None:
        """Set a setting of aserve that has no value; `why` goes into the translation as a comment."""
        if key not in self.settings:
            self.settings[key] = value
            self.whence[key] = [Given(why, "", "")]

    def drop(self, key: str, text: str) -> None:
        """Remove a setting of aserve, with a note that says why."""
        if key in self.settings:
            del self.settings[key]
            for given in self.whence.pop(key):
                self.note(given, text)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Keep a mistake for later: all are reported at once."""
        try:
            yield
        except ConfigError as fault:
            self.mistakes.append(str(fault))

    def raise_mistakes(self) -> None:
        """
        End with all mistakes, each on a line of its own.

        Raises:
            ConfigError: there are some.
        """
        if self.mistakes:
            raise ConfigError("\n".join(dict.fromkeys(self.mistakes)))

    def guard(self, given: Given, text: str) -> None:
        """Note that a rule which keeps clients from the app has no effect."""
        self.note(given, text)
        self.guards.append(Note(given.where, str(given), text))

    def note(self, given: Given, text: str) -> None:
        """Add a note, once."""
        note = Note(given.where, str(given), text)
        if note not in self.notes:
            self.notes.append(note)


def is_number(text: str) -> bool:
    """Whether a text is digits of ASCII: str.isdigit() takes other scripts' digits, and superscripts, which int() does not."""
    return text.isascii() and text.isdigit()


def check(key: str, value: object) -> None:
    """
    Check a value for a setting of aserve.

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
    Add the origin of a wrong value to its error.

    Raises:
        ConfigError: for any ValueError within.
    """
    try:
        yield
    except ConfigError:
        raise  # its text has the origin already
    except ValueError as fault:
        raise ConfigError(f"{given.where}: {given}: {fault}") from None
