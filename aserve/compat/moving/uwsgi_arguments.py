"""Reads uWSGI's command line: `--http :8000 --master -p 4 app.ini`.

Owns:     turning its words into options, in uWSGI's order.
Thread:   any.
Spec:     getopt_long(3), which uWSGI uses; uWSGI 2.0.31, core/init.c.
Not here: which options there are (uwsgi_options.py, uwsgi_table.py), the files that it names (uwsgi_logic.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...settings.secrecy import show_argument
from .draft import Given
from .foreign_flags import explain_unknown
from .naming import is_configuration
from .uwsgi_options import LETTERS, OPTIONAL, SWITCHES
from .uwsgi_table import ROWS, TABLE

WHERE = "uWSGI's command line"


class Arguments(NamedTuple):
    """The options of a command line, and what is wrong with it."""

    options: list[Given]
    mistakes: list[str]


def read_arguments(words: Sequence[str]) -> Arguments:
    """Read the words behind `uwsgi`. As there, files without an option come last, and win."""
    found = Arguments([], [])
    files: list[Given] = []
    left = iter(words)
    is_unknown = False  # the option before; then this word may be its value
    for word in left:
        if word == "--":
            files += [given for rest in left for given in _read_file(rest, found)]
        elif word.startswith("--"):
            is_unknown = not _read_long(word[2:], left, found)
            continue
        elif word.startswith("-") and word != "-":
            _read_letters(word[1:], left, found)
        elif not is_unknown or is_configuration(word):
            files += _read_file(word, found)
        is_unknown = False
    found.options.extend(files)
    return found


def _read_long(text: str, left: Iterator[str], found: Arguments) -> bool:
    """Read a long option, with or without a value; return whether the next word is no value of it."""
    typed, equals, value = text.partition("=")
    name = _whole_name(typed)
    if name is None:
        found.mistakes.append(
            f"{WHERE}: --{typed}: uWSGI has no such option{explain_unknown(f'--{typed}', 'uwsgi', _names())}"
        )
    elif equals and name in SWITCHES:
        found.mistakes.append(f"{WHERE}: --{name} takes no value there")
    elif equals or name in SWITCHES or name in OPTIONAL:
        found.options.append(Given(name, value, WHERE))
    else:
        _read_value(f"--{name}", name, left, found)
    return name is not None or bool(equals)


def _read_letters(text: str, left: Iterator[str], found: Arguments) -> None:
    """Read `-M`, `-p 4`, `-p4`, or several of them in one word."""
    for at, letter in enumerate(text):
        name, rest = LETTERS.get(letter), text[at + 1 :]
        if name is None:
            found.mistakes.append(f"{WHERE}: -{letter}: uWSGI has no such option")
        elif name in SWITCHES:
            found.options.append(Given(name, "", WHERE))
        elif rest or name in OPTIONAL:
            found.options.append(Given(name, rest, WHERE))
            return
        else:
            _read_value(f"-{letter}", name, left, found)


def _read_value(flag: str, name: str, left: Iterator[str], found: Arguments) -> None:
    value = next(left, None)
    if value is None:
        found.mistakes.append(f"{WHERE}: {flag} lacks its value")
    else:
        found.options.append(Given(name, value, WHERE))


def _read_file(word: str, found: Arguments) -> list[Given]:
    if is_configuration(word):
        return [Given("config", word, WHERE)]
    if not word.startswith("["):  # uWSGI leaves a process's old title out
        shown = show_argument(word)
        found.mistakes.append(
            f"{WHERE}: {shown!r} is no file of uWSGI's (.ini, .xml, .yaml, .json); an app follows --module"
        )
    return []


def _whole_name(typed: str) -> str | None:
    """Return the name of an option, which may be shortened as long as it is clear."""
    if TABLE.find(typed) is not None:
        return typed
    begun = [name for name in _names() if name.startswith(typed)]
    return begun[0] if len(begun) == 1 else None


def _names() -> list[str]:
    in_table = {name for row in ROWS for name in row.names if name[-1] != "*"}
    return sorted(in_table | SWITCHES | OPTIONAL)
