"""Programs that run beside the workers, as --attach and --cron name them.

Owns:     the grammar of [NAME=]COMMAND, with times before it for --cron; the names of commands that have none.
Thread:   any; pure.
Not here: the times (crontab.py), starting programs (processes/attached.py).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple

from .crontab import parse_times
from .kinds import Kind, show_texts, texts_of
from .secrecy import show_program, show_timed

_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]*)=(?=.)", re.S)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_TIMED = re.compile(r"((?:\S+\s+){5})(\S.*)\Z", re.S)
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+\Z")
SHELL = "/bin/sh"


class Program(NamedTuple):
    """A command, and what it is called in the log."""

    name: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()  # of its own; with some it is our own, and finds its folder by itself
    when: str = ""  # see parse_times; without it, it is always to run

    def __str__(self) -> str:
        return show_command(self.words, self.when)


def show_command(words: Sequence[str], when: str) -> str:
    """Return what may be shown of a program's command: its first word; with times, the first of what its shell reads."""
    return show_program(words[-1] if when else shlex.join(words))


def parse_program(text: str) -> Program:
    """
    Return what `[NAME=]COMMAND` says; without a name, it is that of the program's file.

    The words are a shell's as far as quotes go. No shell reads them: nothing in them is replaced.

    Raises:
        ValueError: it is not of that form.
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
    Return what `[NAME=]MINUTE HOUR DAY MONTH WEEKDAY COMMAND` says; a shell reads the command, as cron has it.

    Raises:
        ValueError: it is not of that form.
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
    # So it is none of --attach's: what runs under a name is one or the other.
    return Program(f"cron {name}", (SHELL, "-c", command), when=when)


def name_programs(programs: Iterable[Program]) -> list[Program]:
    """Return them with names that differ: the second `celery` is celery-2."""
    named: dict[str, Program] = {}
    for program in programs:
        name, number = program.name, 1
        while name in named:
            number += 1
            name = f"{program.name}-{number}"
        named[name] = program._replace(name=name)
    return [*named.values()]


def _parser(parse_one: Callable[[str], Program]) -> Callable[[object], tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        texts = tuple(texts_of(value, str.splitlines))
        names = [match[1] for match in map(_NAME.match, texts) if match]
        for text in texts:
            parse_one(text)
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
