"""A program beside the workers, as described by an extension.

Owns:     Program; OwnProgram, the interface of a program of aserve's own; unique names; the environment of a program; showing a command.
Thread:   any; pure. The methods of an OwnProgram: the supervisor's only thread.
Not here: starting and ending programs (processes/programs/attached.py), the list (Supervision.programs).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..core.named_tuple import NamedTuple
from ..settings import EngineSettings
from ..settings.secrecy import show_program

# systemd's variables for the supervisor alone.
NOT_INHERITED = (
    "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "FDSTORE",
)  # fmt: skip


class OwnProgram(Protocol):
    """One of aserve's own programs: started in the folder of the supervisor's start, and more than a command."""

    fds: Sequence[int]  # inherited descriptors
    may_end: bool  # an exit with status 0 is no fault: the next start comes without a pause

    def variables(self) -> Mapping[str, str]:
        """Return variables for a starting process."""

    def on_end(self) -> None:
        """Note the end of the process."""

    def overdue(self) -> str:
        """Return why the process must be killed, for a log line after the name; "": no reason."""


class Program(NamedTuple):
    """A command, and its name in the log."""

    name: str
    words: tuple[str, ...]
    when: str = ""  # see parse_times; "": always
    own: OwnProgram | None = None

    def __str__(self) -> str:
        return show_command(self.words, self.when)


def show_command(words: Sequence[str], when: str) -> str:
    """Return a program's command without possible secrets: the first word; with times, the first word of the shell's command."""
    return show_program(words[-1] if when else shlex.join(words))


def name_programs(programs: Iterable[Program]) -> list[Program]:
    """Return the programs with unique names: the second `celery` is celery-2."""
    named: dict[str, Program] = {}
    for program in programs:
        name, number = program.name, 1
        while name in named:
            number += 1
            name = f"{program.name}-{number}"
        named[name] = program._replace(name=name)
    return [*named.values()]


def environ_for(config: EngineSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment: the supervisor's, with --env, and without the variables for the supervisor alone."""
    found = {name: value for name, value in environ.items() if name not in NOT_INHERITED}
    for pair in config.env:
        name, _, value = pair.partition("=")
        found[name] = value
    return found
