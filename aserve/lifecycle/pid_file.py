"""The file with the process's number, for scripts with signals.

Owns:     writing and removing the file, and the lock for the ownership; note_that_it_stays, for a user without the right of removal.
Thread:   the main thread.
Not here: the caller (server/running.py), which binds first, so that a second server on the same address does not write the file.

The lock is one of fcntl(2), and ends with the process in any case. So a number now of another process, or a file left by an old container, prevents
no start. Forked children do not have the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Iterator

from ..settings import ConfigError
from .privileges import Account

logger = logging.getLogger("aserve")


@contextlib.contextmanager
def pid_file(path: str | None) -> Iterator[None]:
    """
    Write this process's number into the file, and remove the file at the end, unless another process has replaced it.

    Replace the file of a process that has ended or was killed; None: write no file.

    Raises:
        ConfigError: the file cannot be written, or belongs to a running server.
    """
    if path is not None:
        _look_for_owner(os.path.abspath(path))
        _write(os.path.abspath(path), _line())
    with kept_pid_file(path):
        yield


@contextlib.contextmanager
def kept_pid_file(path: str | None) -> Iterator[None]:
    """Remove the file at the end, written before the exec by `pid_file`."""
    if path is None:
        yield
        return
    path, line = os.path.abspath(path), _line()  # the app may change the folder
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, path, line)
        with contextlib.suppress(OSError):  # the file is gone, or the file system has no locks
            file = stack.enter_context(open(path))
            fcntl.lockf(file, fcntl.LOCK_SH)
        yield


def note_that_it_stays(path: str | None, account: Account) -> None:
    """Log at the start that this account of the process will not be able to remove root's file."""
    if path is None or _may_remove(os.path.abspath(path)):
        return
    # The file is not given to the account: root's scripts send signals to the number there.
    logger.info(
        "the pid file %s will stay at the end, as %s may not remove it, and the next start replaces it; put it into a folder of that user, "
        "such as RuntimeDirectory= of systemd makes, to have it removed",
        os.path.abspath(path), account,
    )  # fmt: skip


def _may_remove(path: str) -> bool:
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        owner, rights = os.lstat(path).st_uid, os.stat(folder)
    except FileNotFoundError:
        return True  # gone already
    # In a sticky folder, such as /tmp, only the owner of the file or of the folder may do so.
    return not rights.st_mode & stat.S_ISVTX or os.geteuid() in (0, owner, rights.st_uid)


def _line() -> str:
    return f"{os.getpid()}\n"


def _look_for_owner(path: str) -> None:
    """
    Look whether a running server has written the file.

    Raises:
        ConfigError: a running server has.
    """
    try:
        with open(path, "r+") as file:
            number = file.read().strip()
            if number != str(os.getpid()):  # else a container has begun again, or two share one volume
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"the pid file {path} is that of a server that runs, pid {number}: stop that, or give this another --pid-file"
        ) from None
    except (OSError, ValueError):
        pass  # there is none, or no lock, or no text


def _write(path: str, line: str) -> None:
    own = f"{path}.{os.getpid()}"
    try:
        # Renamed into place: readers never see half of the file, and a symbolic link there is replaced, not followed.
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
        return  # a forked child of the app in this code
    try:
        with open(path) as file:
            if file.read() == line:
                os.unlink(path)
    except (FileNotFoundError, PermissionError):
        pass  # the latter after --user: the start has said so, see note_that_it_stays; or the folder's rights have changed since
    except OSError as exc:
        logger.info("the pid file %s stays: %s; the next start replaces it", path, exc.strerror)
