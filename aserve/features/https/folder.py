"""The folder of certificates: paths and rights, and files that are there whole or not at all.

Owns:     Folder.
Thread:   any; files of several writing processes are written under turn.py's lock.
Not here: the folder's place (settings.py), the making of certificates (program.py), the content of notes (notes.py).

    account.pem            the account's key
    certificates/NAME.pem  key and chain of a name in one file, for one rename to replace both
    challenges/TOKEN       the authority's text at /.well-known/acme-challenge/TOKEN
    names/NAME.json        notes: whose certificate, and the failed orders since
    lock                   of the process in turn
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ...core.accounts import user_name
from ...core.descriptors import sync_folder
from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...settings import ConfigError

FOLDERS = ("certificates", "challenges", "names")
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Larger than any answer to a challenge, and any file of ours.
MAX_BYTES = 1 << 20
# The names of `write` beside a file; and the time after which nothing writes there any more. Guess: a minute, for some KB and a slow disk.
UNFINISHED, UNFINISHED_SECONDS = lazy_pattern(r"(?:.+\.(?:pem|json)|[A-Za-z0-9_-]+)\.[0-9]+\.new\Z"), 60.0


class FileOwner(NamedTuple):
    """The user and group of the files."""

    uid: int
    gid: int


class Folder:
    def __init__(self, path: str) -> None:
        self.path = path
        self.account, self.lock = self._place("account.pem"), self._place("lock")
        self.challenges = self._place("challenges")

    def certificate(self, name: str) -> str:
        """Return the path of a name's key and certificates."""
        return self._place("certificates", f"{name}.pem")

    def challenge(self, token: str) -> str:
        """Return the path of the answer to a challenge; the caller has made sure that the token is no path."""
        return os.path.join(self.challenges, token)

    def _place(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    def make(self, owner: FileOwner | None) -> None:
        """
        Make missing parts, and see that only the owner can read them; None: the owner is this process's user.

        Raises:
            ConfigError: a part cannot be made, or others can read a part, or the user cannot write there; the text has the remedy.
        """
        try:
            _make_parents(self.path)
            for path in (self.path, *map(self._place, FOLDERS)):
                if not os.path.isdir(path):
                    os.mkdir(path, 0o700)
                    if owner is not None:  # the owner may have put a link in the place, to a folder of root's
                        os.chown(path, *owner, follow_symlinks=False)
        except OSError as exc:
            user = user_name(owner.uid if owner is not None else os.geteuid())
            raise ConfigError(
                f"the folder {self.path} cannot be made: {exc.strerror}; make it with "
                f"`install -d -m 700 -o {user} {self.path}`, or name another with --https-folder"
            ) from None
        self.look(owner)

    def look(self, owner: FileOwner | None) -> None:
        """
        Refuse rights on present parts that let others read keys, or keep the server from renewing them; see `make`.

        Raises:
            ConfigError: see `make`.
        """
        owner = owner or FileOwner(os.geteuid(), os.getegid())
        user = user_name(owner.uid)
        for path in filter(os.path.lexists, (self.path, *map(self._place, FOLDERS), *self._keys())):
            found = os.stat(path)
            if found.st_uid != owner.uid:
                raise ConfigError(
                    f"{path} belongs to {user_name(found.st_uid)}, and the server runs as {user}: "
                    f"chown -R {user} {self.path}, or name another with --https-folder"
                )
            if found.st_mode & FOR_OTHERS:
                raise ConfigError(
                    f"others than {user} may read {path}, and keys are there: chmod -R go= {self.path}, and if they "
                    "could be read by strangers, remove them, and new ones are made"
                )

    def _keys(self) -> Iterator[str]:
        for folder in filter(os.path.isdir, (self.path, self._place("certificates"))):
            yield from (entry.path for entry in os.scandir(folder) if entry.name.endswith(".pem"))

    def write(self, path: str, octets: bytes, check: Callable[[str], None] = lambda path: None) -> None:
        """
        Write a file for the owner's eyes only; others see the old file or the new one.

        `check`: looks at the new file, meanwhile at another path, and raises if the old one is to stay.

        Raises:
            OSError: a failed write; the old file is unchanged.
        """
        beside = f"{path}.{os.getpid()}.new"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.write(octets)
                file.flush()
                os.fsync(file.fileno())
            check(beside)
            os.rename(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        sync_folder(os.path.dirname(path))

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object of a name's notes; empty if missing or damaged."""
        try:
            with open(self._place("names", f"{name}.json"), "rb") as file:
                notes = json.loads(file.read(MAX_BYTES))
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}

    def write_json(self, name: str, notes: Mapping[str, Any]) -> None:
        """
        Write the object of a name's notes.

        Raises:
            OSError: a failed write.
        """
        self.write(self._place("names", f"{name}.json"), json.dumps(notes).encode())

    def drop_unfinished(self) -> None:
        """Remove the leftovers of processes killed in the middle of a write; follow no link."""
        for path in (self.path, *map(self._place, FOLDERS)):
            with contextlib.suppress(OSError):
                _drop_unfinished(path, time.time() - UNFINISHED_SECONDS)

    def drop_challenges(self) -> None:
        """Remove all answers: no order is under way."""
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.challenges):
                os.unlink(entry.path)


def _make_parents(path: str) -> None:
    """Make the folders above a path; under no umask may others write there, as they could put another folder in the place."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        _make_parents(above)
        os.mkdir(above, 0o755)


def _drop_unfinished(folder: str, before: float) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for entry in os.scandir(fd):
            is_ours = UNFINISHED.match(entry.name) and entry.is_file(follow_symlinks=False)
            if is_ours and entry.stat(follow_symlinks=False).st_mtime < before:
                os.unlink(entry.name, dir_fd=fd)
    finally:
        os.close(fd)
