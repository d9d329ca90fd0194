"""Programs beside the workers: starting them, and signals to them.

Owns:     start_program; send_signal.
Thread:   the supervisor's only one; `start_program` forks, and the child becomes the program.
Not here: when a program is started, and the end (attached.py), the list of programs (Supervision.programs).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Callable, NoReturn

from ..._cparsers import lib
from ...core.descriptors import for_each_above_standard
from ...lifecycle.program import Program
from ..children.signal_pipe import SignalPipe, block_signals

logger = logging.getLogger("aserve")

NOT_RUN = 127  # exit status, as a shell's: the program could not be run


def start_program(
    program: Program, environ: Mapping[str, str], folder: str | None, signals: SignalPipe, kept: Sequence[int] = ()
) -> int:
    """
    Start a program in a new session; return the pid. The program inherits the descriptors `kept`.

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
    kept: Sequence[int],
) -> NoReturn:
    """In the child: become the program, with standard error as the only inheritance."""
    try:
        signals.close()  # the supervisor must not read the program's signals
        # A program would inherit ignored signals (two by Python, more by nohup), and blocked signals.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        lib.parent_death_signal(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(NOT_RUN)  # the supervisor died before
        if folder is not None:
            os.chdir(folder)
        os.dup2(_open_nothing(), 0)
        os.dup2(2, 1)
        _keep_descriptors()
        for fd in kept:
            os.set_inheritable(fd, True)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(program.words[0], program.words, dict(environ))  # noqa: S606 - the operator's own command
    except BaseException as exc:
        why = exc.strerror if isinstance(exc, OSError) else f"{type(exc).__name__}: {exc}"
        logger.error("attached %s: cannot run %s: %s", program.name, program.words[0], why)
    finally:
        os._exit(NOT_RUN)


def _open_nothing() -> int:
    """Return a descriptor without anything to read: /dev/null, or without /dev, a pipe with a closed far end."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        reading, writing = os.pipe()
        os.close(writing)
        return reading


def _keep_descriptors() -> None:
    """Let the program inherit only the standard descriptors: no descriptor left open by our own parent, either."""
    for_each_above_standard(lambda fd: os.set_inheritable(fd, False))


def send_signal(send: Callable[[int, int], None], pid: int, program: object, number: signal.Signals) -> bool:
    """Send a signal to a program or to the program's group; return False after a refusal, as for a program that has become a foreign user's."""
    try:
        send(pid, number)
    except ProcessLookupError:
        pass  # the process or group has ended
    except PermissionError:
        who = "its process group" if send is os.killpg else "it"
        logger.error("%s: %s may not be sent %s, as it runs as another user; end it by hand", program, who, number.name)
        return False
    return True
