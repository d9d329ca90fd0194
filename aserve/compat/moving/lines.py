"""Other programs' command lines: `aserve uwsgi ARGS...`, `aserve gunicorn ARGS...`, and `aserve python PROGRAM ARGS...`.

Owns:     LINES, PYTHON_LINE; splitting such a line from aserve's own flags; what `--help` says about it; the signals of `--reload` and `--stop`.
Thread:   the main thread.
Not here: reading the words (uwsgi_arguments.py, gunicorn_flags.py), which most starts do not import.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...settings import ConfigError

LINES = {"uwsgi": "uwsgi_line", "gunicorn": "gunicorn_line"}  # by the word, the name of what follows it
PYTHON, PYTHON_LINE = "python", "python_line"  # the same of a program that sets gunicorn up by itself
_ALL = {**LINES, PYTHON: PYTHON_LINE}
HELP = ("-h", "--help", "--usage")
VERSION = {"uwsgi": ("--version",), "gunicorn": ("-v", "--version")}
SIGNALS = {"--reload": signal.SIGHUP, "--stop": signal.SIGINT}  # uWSGI's, before the name of a pid file
CHECK, CHECK_BEGINS = "--check-config", "--che"  # gunicorn's, and the beginning by which it knows it
_TEXT = """\
usage: aserve [flags of aserve] {word} [{server}'s command line]

Serve as {server} does with this command line: put aserve before it.
    {theirs}
    aserve {theirs}

The words, the files that they name, and {variables} mean what they
mean to {server}; the log says which have no effect here, and what to do
instead.
Flags of aserve come before the word {word}, and win:
    aserve --check {theirs}
    aserve translate {theirs}
The last prints them as settings of aserve.
More: aserve docs {page}
"""
_WORDS = {
    "uwsgi": {
        "server": "uWSGI",
        "theirs": "uwsgi --http :8000 --module app --master -p 4",
        "variables": "UWSGI_ variables",
        "page": "moving-from-uwsgi",
    },
    "gunicorn": {
        "server": "gunicorn",
        "theirs": "gunicorn -b :8000 -w 4 app:app",
        "variables": "GUNICORN_CMD_ARGS",
        "page": "moving-from-gunicorn",
    },
}


def split_line(argv: Sequence[str], check: Callable[[Sequence[str]], object]) -> tuple[list[str], dict[str, Any]]:
    """
    Return aserve's own words, and the other program's by their name; `check` raises for words that a flag's value must follow.

    So `aserve --user uwsgi app:app` names a user.
    """
    for at, word in enumerate(argv):
        if word in _ALL and _is_whole(argv[:at], check):
            return list(argv[:at]), {_ALL[word]: list(argv[at + 1 :])}
    return list(argv), {}


def _is_whole(words: Sequence[str], check: Callable[[Sequence[str]], object]) -> bool:
    try:
        check(words)
    except ConfigError:
        return False
    return True


def is_check(line: Mapping[str, Sequence[str]]) -> bool:
    """Whether the line only checks its settings, as gunicorn's --check-config does."""
    return any(map(is_check_flag, line.get(LINES["gunicorn"], ())))


def is_check_flag(word: str) -> bool:
    """Whether a word of gunicorn's line is --check-config."""
    return word.startswith(CHECK_BEGINS) and CHECK.startswith(word)


def asked_for_help(args: Mapping[str, Any]) -> str:
    """Return the text about the line, if it asks for that."""
    for word, name in LINES.items():
        if any(asked in args.get(name, ()) for asked in HELP):
            return _TEXT.format(word=word, **_WORDS[word])
    return ""


def asks_for_version(args: Mapping[str, Any]) -> bool:
    """Whether the line asks for the version."""
    return any(asked in args.get(LINES[word], ()) for word, flags in VERSION.items() for asked in flags)


def sends_signal(args: Mapping[str, Any]) -> bool:
    """
    Whether uWSGI's line asks for a signal to the process of a pid file, which is sent then.

    Raises:
        ConfigError: there is no such process.
    """
    words = args.get(LINES["uwsgi"], ())
    for word, following in zip(words, [*words[1:], ""]):
        flag, equals, value = word.partition("=")
        if flag in SIGNALS:
            path = value if equals else following
            try:
                with open(path, encoding="ascii") as file:
                    pid = int(file.read(20))
                if pid < 1:  # of a group, or of all processes
                    raise ValueError(f"there is no process {pid}")
                os.kill(pid, SIGNALS[flag])
            except (OSError, ValueError) as fault:
                raise ConfigError(f"{flag} {path}: {getattr(fault, 'strerror', None) or fault}") from None
            return True
    return False
