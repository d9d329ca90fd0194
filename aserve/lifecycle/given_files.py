"""Files made by root for the user of the process: logs.

Owns:     give_files; giving_log_files, for handlers of `logging`; can_give, whether a start by root would give files.
Thread:   the main thread, before the process gives up root.
Not here: giving up root (privileges.py), the names of the files (features/access_log, compat/moving/gunicorn_logs.py).

nginx opens logs as root, and gunicorn gives log files to `user`. Here the writing processes open logs as that user, and open them again after a
rotation. A file is given only where no other user could put a file of root's, or a link to one, in the place: where all folders above are root's,
and none but root may write to them. In other folders the file is made with the rights of that user alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from io import TextIOWrapper

from ..core.log_target import FileModes
from ..settings import EngineSettings
from .privileges import Account, find_account

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def give_files(paths: Iterable[str], user: str | None, group: str | None, umask: int | None = None) -> None:
    """
    Make these files, where missing, and give them to the account after root; do nothing if this is not root.

    `umask`: the umask of --umask, beside the process's. A failure is an error when the file is opened for writing.

    Raises:
        ConfigError: there is no such user or group.
    """
    account = find_account(user, group) if os.geteuid() == 0 else None
    if account is not None:
        mode = 0o644 & FileModes.made & ~(umask or 0)  # less the bits of the umask
        for path in paths:
            if can_give(path):
                _give(path, mode, account)
            elif not os.path.lexists(path):
                _make_as(account, path, mode)


@contextlib.contextmanager
def giving_log_files(config: EngineSettings, *, is_check: bool = False) -> Iterator[None]:
    """Give each file opened by a handler of `logging` meanwhile; with `is_check` open none of the user's files."""
    opening = logging.FileHandler._open

    def give_and_open(handler: logging.FileHandler) -> TextIOWrapper:
        if is_check and config.user is not None:
            return open(os.devnull, "a", encoding="utf-8")
        give_files([handler.baseFilename], config.user, config.group, config.umask)
        return opening(handler)

    logging.FileHandler._open = give_and_open  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        logging.FileHandler._open = opening  # type: ignore[method-assign]


def _give(path: str, mode: int, account: Account) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, FLAGS, mode)
        try:
            os.fchown(fd, account.uid, account.gid)
        finally:
            os.close(fd)


def _make_as(account: Account, path: str, mode: int) -> None:
    groups = os.getgroups()
    with contextlib.suppress(OSError), contextlib.ExitStack() as back:
        back.callback(os.setgroups, groups)
        os.setgroups([*os.getgrouplist(account.name, account.gid)] if account.name else [account.gid])
        back.callback(os.setegid, os.getegid())
        os.setegid(account.gid)
        back.callback(os.seteuid, 0)  # first on the way back: the other calls need root
        os.seteuid(account.uid)
        os.close(os.open(path, FLAGS, mode))


def can_give(path: str) -> bool:
    """Whether this is an ordinary file of root's, or none yet, where only root may put files."""
    folder = os.path.dirname(os.path.abspath(path))
    if not (_are_roots(folder) and _are_roots(os.path.realpath(folder))):
        return False
    try:
        status = os.lstat(path)
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_uid == 0 and status.st_nlink == 1


def _are_roots(folder: str) -> bool:
    """Whether no user but root may put a file into this folder, or another folder in the folder's place."""
    safe = 0  # of /tmp and the like: the sticky bit keeps files of root, but not a new name
    while True:
        try:
            status = os.lstat(folder)
        except OSError:
            return False
        is_open = not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if status.st_uid != 0 or (is_open and not status.st_mode & safe):
            return False
        if folder == os.path.dirname(folder):
            return True
        folder, safe = os.path.dirname(folder), stat.S_ISVTX
