"""Opens a file below a folder, and never one outside.

Owns:     ServedFolder; FoundFile, an open file or folder inside.
Thread:   a worker (with --threads 0: the event loop).
Spec:     POSIX openat, O_NOFOLLOW.
Not here: the names open to clients (static.py), the response (reply.py).

A path is not checked first and opened afterwards: another process could put a symbolic link there in between. Each part is opened below the part
before, and none may be a link. If a part is a link, the path is resolved, and a result inside the folder is opened in the same way: a link made
meanwhile is not followed. The open descriptor is then checked: only a regular file will do.
"""

from __future__ import annotations

import errno
import logging
import os
import stat

from ...core.log_once import LogOnce

logger = logging.getLogger("aserve")

# NONBLOCK: opening a FIFO must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# PATH: to traverse a folder, a server needs no right to list the folder.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

# Errors of open() with the meaning "no such file": the name is too long, or is a socket's, among others. EINVAL and EILSEQ: the file system (exFAT,
# ZFS) allows no such name; EINVAL also comes from readlink(), if the link was replaced just before.
_ABSENT = frozenset((
    errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.ENODEV, errno.EINVAL, errno.EILSEQ,
))  # fmt: skip
_LINK = frozenset((errno.ELOOP, errno.ENOTDIR, errno.EMLINK))  # a symbolic link, in the middle or at the end; FreeBSD's
_FORBIDDEN = frozenset((errno.EACCES, errno.EPERM))


class FoundFile:
    """An open regular file or folder; call `close`."""

    __slots__ = ("_flags", "_folder", "_name", "fd", "status")

    def __init__(self, folder: int, name: bytes, flags: int) -> None:
        self._folder = folder  # the file's folder
        self._name = name
        self._flags = flags
        self.fd = os.open(name, flags, dir_fd=folder)
        self.status = os.fstat(self.fd)

    @property
    def is_file(self) -> bool:
        """Whether this is a regular file."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        return stat.S_ISDIR(self.status.st_mode)

    def take_sibling(self, suffix: bytes) -> bool:
        """Become the sibling file with this suffix; False: there is none."""
        try:
            fd = os.open(self._name + suffix, self._flags, dir_fd=self._folder)
        except OSError as exc:
            if exc.errno not in _ABSENT | _FORBIDDEN:
                raise
            return False
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            return False
        os.close(self.fd)
        self.fd, self.status = fd, status
        return True

    def take_fd(self) -> int:
        """Return the file's descriptor, for the caller to close."""
        fd, self.fd = self.fd, -1
        return fd

    def close(self) -> None:
        """Close the descriptors not taken."""
        for fd in (self.fd, self._folder):
            if fd >= 0:
                os.close(fd)
        self.fd = self._folder = -1


class ServedFolder:
    """A configured folder, or one file; the configured path may contain links."""

    def __init__(self, path: str, may_leave: bool) -> None:
        self.path = path
        self._path = os.fsencode(path)
        self._may_leave = may_leave  # links may lead out of the folder
        self._line = LogOnce(logger, logging.WARNING)

    def find(self, parts: list[bytes]) -> FoundFile | None:
        """
        Open the file or folder at these names, the folder itself without names; None: nothing to serve.

        Raises:
            OSError: the system has no descriptor left, or a disk has failed.
        """
        try:
            if self._may_leave or not parts:
                folder, name = os.path.split(os.path.join(self._path, *parts))
                found = _found(folder, [name], 0)
            else:
                found = self._walk(parts)
        except OSError as exc:
            if exc.errno in _FORBIDDEN:
                self._line.log(
                    "a file below %s cannot be read: %s: %s (said once)",
                    self.path,
                    os.fsdecode(parts[-1] if parts else b""),
                    exc.strerror,
                )
            elif exc.errno not in _ABSENT:
                raise
            return None
        if found.is_file or found.is_folder:
            return found
        found.close()
        return None

    def _walk(self, parts: list[bytes]) -> FoundFile:
        try:
            return _found(self._path, parts, os.O_NOFOLLOW)
        except OSError as exc:
            if exc.errno not in _LINK:
                raise
        root = os.path.join(os.path.realpath(self._path), b"")
        real = os.path.realpath(os.path.join(root, *parts))
        if not real.startswith(root):
            raise FileNotFoundError(errno.ENOENT, "a link leads out of the folder")
        return _found(root, real[len(root) :].split(b"/"), os.O_NOFOLLOW)


def _found(root: bytes, parts: list[bytes], flags: int) -> FoundFile:
    """Open one part after another; the last is the file."""
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER | flags, dir_fd=folder)
            os.close(folder)
            folder = below
        return FoundFile(folder, parts[-1], _FILE | flags)
    except BaseException:
        os.close(folder)
        raise
