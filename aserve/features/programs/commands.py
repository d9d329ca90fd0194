"""Programs beside the workers, in the words of --attach and --cron.

Owns:     the grammar of [NAME=]COMMAND, with times in front for --cron; default names of commands; COMMANDS and TIMED, the kinds of these settings.
Thread:   any; pure.
Not here: the times (settings/crontab.py), starting programs (processes/programs/attached.py).
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Callable

from ...core.patterns import lazy_pattern
from ...lifecycle.program import Program
from ...settings.crontab import parse_times
from ...settings.kinds import Kind, checked_texts, show_texts
from ...settings.secrecy import show_program, show_timed

_NAME = lazy_pattern(r"([a-z0-9][a-z0-9_.-]*)=(?=.)", re.S)
_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*=")
_TIMED = lazy_pattern(r"((?:\S+\s+){5})(\S.*)\Z", re.S)
_PLAIN = lazy_pattern(r"[A-Za-z0-9_.-]+\Z")
SHELL = "/bin/sh"


def parse_program(text: str) -> Program:
    """
    Parse `[NAME=]COMMAND`; the default name comes from the program's file.

    Words and quotes are a shell's, but no shell runs: nothing is expanded.

    Raises:
        ValueError: the text has another form.
    """
    match = _NAME.match(text)
    command = text[match.end() :] if match else text
    if _VARIABLE.match(command):
        raise ValueError(
            f"{show_program(command)!r} begins with a variable, and no shell reads it: write env before it, or use --env"
        )
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise ValueError(f"{show_program(command)!r}: {str(fault).lower()}") from None
    if not words or not words[0] or "\0" in command:
        raise ValueError(f"{show_program(text)!r} has no command")
    return Program(match[1] if match else os.path.basename(words[0]) or words[0], tuple(words))


def parse_timed(text: str) -> Program:
    """
    Parse `[NAME=]MINUTE HOUR DAY MONTH WEEKDAY COMMAND`; a shell runs the command, as in cron.

    Raises:
        ValueError: the text has another form.
    """
    match = _NAME.match(text)
    line = text[match.end() :] if match else text
    parts = _TIMED.match(line.strip())
    if not parts or "\0" in line:
        raise ValueError(
            f"{show_timed(text)!r} is not five times and a command, such as 0 3 * * * ./manage.py clearsessions"
        )
    when, command = " ".join(parts[1].split()), parts[2]
    parse_times(when)
    file = command.split()[0].rpartition("/")[2]
    name = match[1] if match else file if _PLAIN.match(file) else "sh"
    # The prefix keeps names of --cron and --attach apart.
    return Program(f"cron {name}", (SHELL, "-c", command), when=when)


def _parser(parse_one: Callable[[str], Program]) -> Callable[[object], tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        texts = checked_texts(value, parse_one)
        names = [match[1] for match in map(_NAME.match, texts) if match]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is named twice")
        return texts

    return parse


COMMANDS = Kind(
    "[NAME=]COMMAND",
    "a program and its arguments, with a name for the log before them; in a variable one to a line",
    _parser(parse_program),
    show_texts,
)
TIMED = Kind(
    "[NAME=]TIMES COMMAND",
    "minute, hour, day of the month, month and day of the week as crontab(5) has them, then what a shell runs, with a name for the "
    "log before all that; in a variable one to a line",
    _parser(parse_timed),
    show_texts,
)
