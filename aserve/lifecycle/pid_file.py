"""The file with the number of the process, for those who send it signals.

Owns:     writing and removing it.
Thread:   the main thread.
Not here: when (server/running.py): after binding, so that a second server that finds the address taken does not write it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from ..settings import ConfigError

logger = logging.getLogger("aserve")


@contextlib.contextmanager
def pid_file(path: str | None) -> Iterator[None]:
    """
    Write this process's number into the file, and remove it in the end, unless it is another's by then.

    What a process left there that is gone, or was killed, is replaced; None: there is no such file.

    Raises:
        ConfigError: it cannot be written.
    """
    if path is not None:
        _write(os.path.abspath(path), _line())
    with kept_pid_file(path):
        yield


@contextlib.contextmanager
def kept_pid_file(path: str | None) -> Iterator[None]:
    """Remove the file in the end, as `pid_file` does, which this process has used already, as another program."""
    if path is None:
        yield
        return
    path, line = os.path.abspath(path), _line()  # the app may change the folder
    try:
        yield
    finally:
        _remove(path, line)


def _line() -> str:
    return f"{os.getpid()}\n"


def _write(path: str, line: str) -> None:
    own = f"{path}.{os.getpid()}"
    try:
        # Renamed, so that nobody reads half of it, and that a link of somebody else's in its place is replaced, not followed.
        with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever --umask says
            file.write(line)
        os.replace(own, path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            os.unlink(own)
        raise ConfigError(f"cannot write the pid file {path}: {exc.strerror}; see --pid-file") from None


def _remove(path: str, line: str) -> None:
    if line != _line():
        return  # a child of the app's that has come this far
    try:
        with open(path) as file:
            if file.read() == line:
                os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        # A user other than root may not remove what root has put into /run.
        logger.info("the pid file %s stays: %s; the next start replaces it", path, exc.strerror)
