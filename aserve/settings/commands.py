"""Programs that run beside the workers, as --attach names them.

Owns:     the grammar of [NAME=]COMMAND, and the names of commands that have none.
Thread:   any; pure.
Not here: starting them (processes/attached.py).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from .kinds import Kind, _texts_of, show_texts

_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]*)=(?=.)", re.S)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Program(NamedTuple):
    """A command, and what it is called in the log."""

    name: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()  # of its own; with some it is our own, and finds its folder by itself

    def __str__(self) -> str:
        return shlex.join(self.words)


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
            f"{command!r} begins with a variable, and no shell reads it: write env before it, or use --env"
        )
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise ValueError(f"{command!r}: {str(fault).lower()}") from None
    if not words or not words[0] or "\0" in command:
        raise ValueError(f"{text!r} has no command")
    return Program(match[1] if match else os.path.basename(words[0]) or words[0], tuple(words))


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


def _parse_commands(value: object) -> tuple[str, ...]:
    texts = tuple(_texts_of(value, str.splitlines))
    names = [match[1] for match in map(_NAME.match, texts) if match]
    for text in texts:
        parse_program(text)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice")
    return texts


COMMANDS = Kind(
    "[NAME=]COMMAND",
    "a program and its arguments, with a name for the log before them; in a variable one to a line",
    _parse_commands,
    show_texts,
)
