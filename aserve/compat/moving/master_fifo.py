"""uWSGI's FIFO for commands of deploy scripts: `echo c > FILE` (--master-fifo).

Owns:     MasterFifo, the extension; CommandFifo, its part in a supervisor; COMMANDS.
Thread:   the supervisor's only one.
Spec:     uWSGI 2.0.31, core/fifo.c and its documentation, "The Master FIFO"; fifo(7).
Not here: what a supervisor does at a signal (processes/), aserve's own socket for questions (features/control/).
"""

from __future__ import annotations

import logging
import os
import signal
import stat
from collections.abc import Mapping
from selectors import EVENT_READ
from typing import TYPE_CHECKING

from ...core.errors import BindError
from ...extension import Extension
from ...lifecycle.supervision import Supervision, SupervisorContext
from .settings import MovingSettings

if TYPE_CHECKING:  # a server without --control does without it
    from ...lifecycle.control import Answer, Later, Watch

logger = logging.getLogger("aserve")

MODE = 0o600
MOST_OCTETS = 64  # of a file that a script has written where no FIFO was yet
READ_OCTETS = 4096
# All reloads are one here: each worker is replaced when its successor is ready.
COMMANDS = {
    "r": signal.SIGHUP, "R": signal.SIGHUP, "c": signal.SIGHUP, "w": signal.SIGHUP, "W": signal.SIGHUP,
    "q": signal.SIGTERM, "Q": signal.SIGQUIT, "+": signal.SIGTTIN, "-": signal.SIGTTOU,
    "l": signal.SIGUSR1, "L": signal.SIGUSR1, "f": signal.SIGUSR2,
}  # fmt: skip
INSTEAD = {"s": "`aserve status --control PATH` prints what there is", "p": "`--maintenance` keeps clients out"}


class MasterFifo(Extension[MovingSettings]):
    """--master-fifo."""

    switches = ("master_fifo",)

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        assert self._config.master_fifo is not None  # or it were off
        return CommandFifo(self._config.master_fifo, context.watch)


class CommandFifo(Supervision):
    """Obeys commands of one letter; a line's end and spaces are none."""

    _descriptor = -1

    def __init__(self, path: str, watch: Watch) -> None:
        self._path, self._watch = path, watch

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """See Supervision; after an upgrade, go on without it if it cannot be made."""
        try:
            _make(self._path)
            # For writing, too: there is always a writer, so no read returns an end.
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as fault:
            text = f"--master-fifo {self._path}: {fault.strerror or fault}"
            if not is_upgraded:
                raise BindError(text) from None
            logger.error("%s; serving without it", text)
        else:
            self._watch(self._descriptor, self._obey, EVENT_READ)

    def _obey(self) -> None:
        for command in os.read(self._descriptor, READ_OCTETS).decode("latin-1").split():
            for letter in command:
                if letter in COMMANDS:
                    logger.info("command %s of %s", letter, self._path)
                    os.kill(os.getpid(), COMMANDS[letter])
                else:
                    why = INSTEAD.get(letter, f"commands are {' '.join(COMMANDS)}")
                    logger.warning("command %r of %s has no effect here: %s", letter, self._path, why)

    def close(self, is_end: bool) -> None:
        """See Supervision."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if is_end:
            self._watch(descriptor, self._obey, 0)
            _remove(self._path, os.fstat(descriptor))
        os.close(descriptor)


def _make(path: str) -> None:
    """Make the FIFO, in place of one that no program reads, or of what a script has written where there was none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        pass
    else:
        if not (stat.S_ISFIFO(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size <= MOST_OCTETS)):
            raise BindError("there is a file, and it is no FIFO")
        if stat.S_ISFIFO(found.st_mode) and _is_read(path):
            raise BindError("another program takes its commands from there; stop it, or choose another path")
        os.unlink(path)
    os.mkfifo(path, MODE)


def _is_read(path: str) -> bool:
    """Whether a program has the FIFO open for reading, such as the uWSGI beside which this server is tried."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:  # fifo(7): ENXIO, there is no reader; or this user may not ask
        return False
    return True


def _remove(path: str, own: os.stat_result) -> None:
    """Remove the FIFO, unless another has taken its place."""
    try:
        if os.path.samestat(os.lstat(path), own):
            os.unlink(path)
    except OSError as fault:
        logger.warning("cannot remove %s: %s", path, fault.strerror)
