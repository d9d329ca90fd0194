"""The command of the start of this process, to be run again.

Owns:     Command: the interpreter, the arguments, the environment and the working directory.
Thread:   the supervisor's only one.
Not here: the arguments' meaning (command/cli.py), the second run (upgrade.py).
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import NoReturn

from ...core.command_line import COMMAND_LINE, read_command_line
from ...core.forks import flush_output
from ...core.named_tuple import NamedTuple
from ...core.start_folder import StartFolder
from ...settings import Setting, without_secrets

# Each passes a descriptor to new code: of a trial's channel, and of the supervisor's Inheritance (upgrade.py).
TRIAL_VARIABLE = "ASERVE_TRIAL"
INHERITANCE_VARIABLE = "ASERVE_INHERITANCE"


class Command(NamedTuple):
    """A command, as typed."""

    words: list[str]  # the first: the interpreter's path
    environ: Mapping[str, str]
    folder: str

    @property
    def start(self) -> StartFolder:
        """The folder of the start, and whether the name is as typed."""
        return StartFolder(self.folder, self.environ.get("PWD") == self.folder)

    def show(self, rows: Iterable[Setting]) -> str:
        """Return the command line without the secrets of these settings, for anyone to read."""
        return shlex.join(without_secrets(self.words, rows))

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str]) -> Command:
        """Return the command of the start of this process, with this environment."""
        return cls([sys.executable, *read_command_line()[1:]], dict(environ), StartFolder.of_this_process(environ).name)

    def execute(self, variable: str, fd: int) -> NoReturn:
        """
        Replace this program by the command, in this process; the variable names an inherited descriptor.

        Raises:
            OSError: the command cannot be run; then all is as before.
        """
        if not self.words[1:]:
            raise FileNotFoundError(errno.ENOENT, f"the command line is not known without {COMMAND_LINE}")
        here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
        try:
            os.chdir(self.folder)
            flush_output()
            os.execve(self.words[0], self.words, {**self.environ, variable: str(fd)})  # noqa: S606 - it was run before
        finally:
            os.fchdir(here)
            os.close(here)
