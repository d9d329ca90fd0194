"""The folder in which workers keep the app's own metrics, for prometheus_client.

Owns:     AppFiles: making the folder, the names of a worker's files, removing files and folder; `enter` and `leave`, for a process that
          imports the app.
Thread:   the supervisor's only one; `enter` and `leave` the main thread.
Not here: the content of these files (features/metrics/app.py).

A folder of aserve's own is in memory if possible, and only for this user. The supervisor, and workers that have outlived it, hold a lock
on it, by a descriptor that all of them have from the supervisor. A killed supervisor leaves the folder behind; the next one
that starts finds it unlocked, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping
from typing import Any

from .app import VARIABLE, is_installed, name_files
from .settings import MetricsSettings

logger = logging.getLogger("aserve")

PREFIX = "aserve-app-metrics-"
# In memory first. Never the working directory, which tempfile would take in the end.
ROOTS = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108 - mkdtemp makes it for this user only
GIVEN = "app_metrics_folder"  # in Role.given
# A worker's files grow in steps of 1 MiB. Where one finds no room, the kernel kills the worker by SIGBUS. Guess: it has two of them.
ROOM_BYTES = 2 << 20
MAX_TRIES = 20  # to make a folder. Guess: a try fails only if another supervisor looks within the same microsecond.


def chosen_folder(config: MetricsSettings, environ: Mapping[str, str]) -> str | None:
    """Return the folder that the user has chosen; "": make one; None: none is needed."""
    if config.metrics is None or config.metrics_app == "off" or not is_installed():
        return None
    return environ.get(VARIABLE, "")


class AppFiles:
    """One folder."""

    def __init__(self, folder: str, lock: int | None) -> None:
        self.folder = folder
        self.lock = lock  # a descriptor of it; None: the folder is the user's

    @classmethod
    def open(cls, given: str | None) -> AppFiles | None:
        """Make a folder, or clean the user's; return None, with a line in the log, if that fails."""
        try:
            if given:
                folder = os.path.abspath(given)
                os.makedirs(folder, exist_ok=True)
                for path in glob.glob(
                    f"{glob.escape(folder)}/*_{name_of('[0-9]*')}.db"
                ):  # keep the files of other processes
                    os.unlink(path)
                return cls(folder, None)
            return cls._open_own()
        except OSError as exc:
            logger.warning(
                "the app's own metrics are left out: no folder for them can be made (%s); set %s to one, or --metrics-app off",
                exc, VARIABLE,
            )  # fmt: skip
            return None

    @classmethod
    def _open_own(cls) -> AppFiles:
        writable = [root for root in ROOTS if os.access(root, os.W_OK | os.X_OK)]
        for root in writable:
            _remove_abandoned(root)
        roots = [root for root in writable if _has_room(root)]
        if writable and not roots:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), writable[0])
        for _ in range(MAX_TRIES):
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=roots[0] if roots else ROOTS[-1])
            lock = _lock(folder)
            if lock is not None:
                return cls(folder, lock)
        raise FileNotFoundError(errno.ENOENT, "another process removes each new folder", folder)

    @classmethod
    def inherit(cls, state: dict[str, Any]) -> AppFiles:
        """Take over the folder of `describe`."""
        return cls(state["folder"], state["lock"])

    def describe(self) -> dict[str, Any]:
        """Return the folder and lock for `inherit`."""
        return {"folder": self.folder, "lock": self.lock}

    def forget(self, page: int) -> None:
        """Remove the live gauges of a worker that has ended."""
        for path in glob.glob(f"{glob.escape(self.folder)}/gauge_live*_{name_of(page)}.db"):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def close(self) -> None:
        """Remove the folder, unless it is the user's: no process counts any more."""
        if self.lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self.lock)


def _has_room(folder: str) -> bool:
    try:
        status = os.statvfs(folder)
    except OSError:  # it is gone
        return False
    return status.f_bavail * status.f_frsize >= ROOM_BYTES


def _lock(folder: str) -> int | None:
    """Lock a new folder; None: another starting supervisor has removed it, since it was not locked yet."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    with contextlib.suppress(FileNotFoundError):
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits while another supervisor removes it
        if os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
    os.close(lock)
    return None


def _remove_abandoned(root: str) -> None:
    """Remove aserve's folders that are not locked."""
    for folder in glob.glob(f"{root}/{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or locked, or just being removed by another supervisor
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(fd)


_own: list[AppFiles] = []  # of a trial, or of a worker that found no room beside the others


def enter(role: Any, environ: MutableMapping[str, str]) -> None:
    """
    Put the app's metrics of this process into the files of its role; a trial has a folder of its own, until `leave`.

    So has a worker while the folder of all is full: nobody reads these files, and the worker serves.
    """
    folder, why_apart = role.given.get(GIVEN), ""
    if folder is not None and not _has_room(folder):
        why_apart = f"there is no room in {folder}"
        logger.warning("the app's own metrics of this worker are left out, until it is replaced: %s", why_apart)
    if why_apart or (role.is_trial and chosen_folder(role.plan.config, environ) is not None):
        files = AppFiles.open(None)
        if files is not None:
            _own.append(files)
            folder = files.folder
    if folder is not None:
        name_files(environ, folder, name_of(role.page_number), why_apart)


def leave() -> None:
    """Remove the folder of this process, if it has one."""
    while _own:
        _own.pop().close()


def name_of(page: object) -> str:
    """Return the name in the files of the worker with this page; 0 for a mold, which has none."""
    return f"w{page}"
