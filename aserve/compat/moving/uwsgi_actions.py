"""The actions of uWSGI's hooks: `exec:COMMAND`, `write:FILE TEXT`, `unlink:FILE` and the like.

Owns:     ACTIONS, by name; Place, where they are done; ActionError.
Thread:   the main thread; a command may take its time, as in uWSGI.
Spec:     uWSGI 2.0.31, core/hooks.c.
Not here: when they are done (uwsgi_hooks.py).
"""

from __future__ import annotations

import contextlib
import grp
import logging
import os
import pwd
import socket
import stat
import subprocess
import time
from collections.abc import Mapping, MutableMapping
from typing import Callable

from ...core.named_tuple import NamedTuple
from .draft import is_number

logger = logging.getLogger("aserve")

FILE_MODE = 0o666  # without the umask
WAIT_SECONDS = 60  # uWSGI's, without wait-for-fs-timeout
Action = Callable[[str, "Place"], None]


class ActionError(Exception):
    """An action could not be done. Its text does not show the argument, which may contain a secret."""


class Place(NamedTuple):
    """The folder and the variables of an action."""

    folder: str
    environ: Mapping[str, str]  # of a command
    own: MutableMapping[str, str]  # of this process

    def path_of(self, text: str) -> str:
        """Return the path that a relative one means."""
        return os.path.join(self.folder, text)


def do_action(name: str, argument: str, place: Place) -> None:
    """
    Do one of ACTIONS.

    Raises:
        ActionError: it could not be done.
    """
    try:
        ACTIONS[name](argument, place)
    except OSError as fault:
        raise ActionError(fault.strerror or str(fault)) from None
    except (ValueError, LookupError) as fault:
        raise ActionError(str(fault.args[0])) from None


def _exec(command: str, place: Place) -> None:
    ended = subprocess.run(  # noqa: S603  # the author of the file may run any code anyway
        ["/bin/sh", "-c", command], cwd=place.folder, env=place.environ, stdin=subprocess.DEVNULL, check=False
    )
    if ended.returncode:
        raise ValueError(f"the command has ended with status {ended.returncode}")


def _exec_safely(command: str, place: Place) -> None:
    try:
        _exec(command, place)
    except ValueError as fault:
        logger.warning("safeexec of a hook: %s", fault)


def _writer(flags: int, end: str = "") -> Action:
    """Return an action that writes a text into a file, opened with these flags."""

    def write(argument: str, place: Place) -> None:
        path, space, text = argument.partition(" ")
        if not space and not (end and flags & os.O_APPEND):
            raise ValueError("it is not of the form FILE TEXT")
        _write(place.path_of(path), os.O_CREAT | flags, text + end)

    return write


def _write(path: str, flags: int, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags, FILE_MODE)
    try:
        os.write(descriptor, os.fsencode(text))
    finally:
        os.close(descriptor)


def _create(path: str, place: Place) -> None:
    _write(place.path_of(path), os.O_CREAT | os.O_TRUNC, "")


def _touch(path: str, place: Place) -> None:
    _write(place.path_of(path), os.O_CREAT, "")
    os.utime(place.path_of(path))


def _write_fifo(argument: str, place: Place) -> None:
    """Write into a FIFO, if a program reads it."""
    path, space, text = argument.partition(" ")
    if not space:
        raise ValueError("it is not of the form FILE TEXT")
    with contextlib.suppress(OSError):
        _write(place.path_of(path), os.O_NONBLOCK, text)


def _set_mode(argument: str, place: Place) -> None:
    path, _, mode = argument.partition(" ")
    os.chmod(place.path_of(path), int(mode, 8))


def _set_sticky(path: str, place: Place) -> None:
    path = place.path_of(path)
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_ISVTX)


def _set_owner(argument: str, place: Place) -> None:
    path, user, group = argument.split(" ")
    uid = int(user) if is_number(user) else pwd.getpwnam(user).pw_uid
    os.chown(place.path_of(path), uid, int(group) if is_number(group) else grp.getgrnam(group).gr_gid)


def _set_variable(argument: str, place: Place) -> None:
    name, equals, value = argument.partition("=")
    if not equals:
        raise ValueError("it is not of the form NAME=VALUE")
    place.own[name] = value


def _waiter(is_there: Callable[[str], bool]) -> Action:
    """Return an action that waits until a path is there."""

    def wait(path: str, place: Place) -> None:
        for _ in range(WAIT_SECONDS):
            if is_there(place.path_of(path)):
                return
            time.sleep(1.0)
        raise ValueError(f"there is none after {WAIT_SECONDS} s")

    return wait


def _log(text: str, place: Place) -> None:
    logger.info("%s", text)


ACTIONS: Mapping[str, Action] = {
    "exec": _exec,
    "safeexec": _exec_safely,
    "write": _writer(os.O_TRUNC),
    "writen": _writer(os.O_TRUNC, "\n"),
    "append": _writer(os.O_APPEND),
    "appendn": _writer(os.O_APPEND, "\n"),
    "create": _create,
    "creat": _create,
    "touch": _touch,
    "writefifo": _write_fifo,
    "cd": lambda path, place: os.chdir(place.path_of(path)),
    "chdir": lambda path, place: os.chdir(place.path_of(path)),
    "hostname": lambda name, place: socket.sethostname(name),
    "wait_for_fs": _waiter(os.path.exists),
    "wait_for_file": _waiter(os.path.isfile),
    "wait_for_dir": _waiter(os.path.isdir),
    "mkdir": lambda path, place: os.mkdir(place.path_of(path)),
    "unlink": lambda path, place: os.unlink(place.path_of(path)),
    "chmod": _set_mode,
    "sticky": _set_sticky,
    "chown": _set_owner,
    "chown2": _set_owner,
    "putenv": _set_variable,
    "print": _log,
    "log": _log,
}
