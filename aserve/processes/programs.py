"""Programs beside the workers: which the settings name, their environment, and starting them.

Owns:     programs_of; start_program; send_signal; Jobs, the interface to programs that do jobs; their environment; check_programs, before any process starts.
Thread:   the supervisor's only one; `start_program` forks, and the child becomes the program.
Not here: when a program is started, and its end (attached.py), the grammar of a command (settings/commands.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NoReturn, Protocol

from .._cparsers import lib
from ..core.descriptors import list_open
from ..settings import ConfigError, EngineSettings
from ..settings.commands import Program, name_programs, parse_program, parse_timed
from ..settings.secrecy import show_program
from .command import COMMAND_LINE, Command
from .signal_pipe import SignalPipe, block_signals

logger = logging.getLogger("aserve")

SPOOLER = "spooler"
SPOOLER_VARIABLE = "ASERVE_DOES_JOBS_OF"  # the folder, for the process that does its jobs
NOT_RUN = 127  # exit status, as a shell's: the program could not be run
# systemd's variables for this process alone.
NOT_INHERITED = (
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "FDSTORE",
)


class Jobs(Protocol):
    """The jobs of programs, which each of them records in a page of a file in memory; see features/uwsgi_api/spooler/pages.py."""

    fd: int

    def follow(self, names: Sequence[str]) -> None:
        """Have a page for each of these programs."""

    def variables(self, name: str) -> dict[str, str]:
        """Return the variables by which a program finds its page."""

    def on_end(self, name: str) -> None:
        """A program has ended."""

    def overdue(self, seconds: float) -> list[tuple[str, str, float]]:
        """Return the jobs that take longer than this: program, job, for how long."""

    def describe(self, folders: Sequence[str]) -> dict[str, Any]:
        """Return how many jobs have ended and how many wait, for JSON."""


# Takes the files in memory that the previous code has kept; called once, when the settings first name a program that does jobs.
OpenJobs = Callable[[Mapping[str, int]], Jobs]


def programs_of(config: EngineSettings, command: Command) -> list[Program]:
    """Return the programs that the settings name; `command` is ours, which is also that of a spooler."""
    spoolers = [
        Program(SPOOLER, tuple(command.words), ((SPOOLER_VARIABLE, folder),))
        for folder in config.spooler
        for _ in range(config.spooler_processes)
    ]
    return name_programs([*spoolers, *map(parse_program, config.attach), *map(parse_timed, config.cron)])


def check_programs(config: EngineSettings, environ: Mapping[str, str]) -> None:
    """
    Check that each program is there.

    Raises:
        ConfigError: a program does not exist, or is not executable.
    """
    path = environ_for(config, environ).get("PATH", os.defpath)
    for text in config.attach:
        word = parse_program(text).words[0]
        found = os.path.join(config.chdir or "", word) if os.sep in word else word
        if shutil.which(found, path=path) is None:
            where = (
                "there is no such file that can be run" if os.sep in word else f"it is in no folder of PATH ({path})"
            )
            raise ConfigError(f"attach: cannot run {word!r} of {show_program(text)!r}: {where}")
    if config.spooler and not Command.of_this_process(environ).words[1:]:
        raise ConfigError(
            f"spooler: the command line, which its processes run, is not known without {COMMAND_LINE}; mount /proc"
        )


def start_program(
    program: Program, environ: Mapping[str, str], folder: str | None, signals: SignalPipe, kept: int = -1
) -> int:
    """
    Start a program in a session of its own; return its pid. It inherits the descriptor `kept`, if there is one.

    Raises:
        OSError: no process is left.
    """
    supervisor = os.getpid()
    with block_signals():
        pid = os.fork()
        if pid == 0:
            _become(program, environ, folder, signals, supervisor, kept)
    return pid


def _become(
    program: Program,
    environ: Mapping[str, str],
    folder: str | None,
    signals: SignalPipe,
    parent: int,
    kept: int,
) -> NoReturn:
    """In the child: become the program, which inherits only standard error."""
    try:
        signals.close()  # the supervisor must not read the program's signals
        # A program would inherit ignored signals (two by Python, others by nohup), and blocked ones.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        lib.parent_death_signal(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(NOT_RUN)  # the supervisor died before that
        if folder is not None:
            os.chdir(folder)
        os.dup2(_open_nothing(), 0)
        os.dup2(2, 1)
        _keep_descriptors()
        if kept >= 0:
            os.set_inheritable(kept, True)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(program.words[0], program.words, dict(environ))  # noqa: S606 - the operator's own command
    except BaseException as exc:
        why = exc.strerror if isinstance(exc, OSError) else f"{type(exc).__name__}: {exc}"
        logger.error("attached %s: cannot run %s: %s", program.name, program.words[0], why)
    finally:
        os._exit(NOT_RUN)


def _open_nothing() -> int:
    """Return a descriptor from which nothing can be read: /dev/null, or without /dev, a pipe that has no other end."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        reading, writing = os.pipe()
        os.close(writing)
        return reading


def _keep_descriptors() -> None:
    """Let the program inherit only the standard descriptors: none that our own parent has left open, either."""
    for fd in list_open():
        if fd > 2:
            with contextlib.suppress(OSError):  # the one by which they were listed
                os.set_inheritable(fd, False)


def environ_for(config: EngineSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment: ours, with --env, and without the variables for this process alone."""
    found = {name: value for name, value in environ.items() if name not in NOT_INHERITED}
    for pair in config.env:
        name, _, value = pair.partition("=")
        found[name] = value
    return found


def send_signal(send: Callable[[int, int], None], pid: int, program: object, number: signal.Signals) -> bool:
    """Send a signal to a program or to its group; return False if that is refused, as for a program that has become another user's."""
    try:
        send(pid, number)
    except ProcessLookupError:
        pass  # the process or group has ended
    except PermissionError:
        who = "its process group" if send is os.killpg else "it"
        logger.error("%s: %s may not be sent %s, as it runs as another user; end it by hand", program, who, number.name)
        return False
    return True
