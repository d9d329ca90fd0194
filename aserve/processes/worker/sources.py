"""The app's source files, and the changed files among them (--reload).

Owns:     Sources: the states at the last look; the choice of the project's own modules.
Thread:   a worker's event loop; pure, but for looks at files.
Not here: when to look (reloading.py), the reload (acts.py).

The project lies below the folder of the command's start, or below the folder of the app's file.
Packages installed there, as in a .venv, are not the project's own. While code cannot be imported, all Python files of the project
count: the missing part may be a file without an import yet.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from ..monitoring.touched import look_at

INSTALLED = ("site-packages", "dist-packages")
SKIPPED = (*INSTALLED, "__pycache__", "node_modules")
# The most files of a folder named by mistake, such as /. Guess: larger than any project.
MAX_FILES = 20_000
# A file's time is the kernel's at the last tick: with 100 ticks a second, 10 ms old.
CLOCK_NS = 10_000_000


class Sources:
    """Files, checked from time to time."""

    def __init__(self, extra: Sequence[str], folders: Sequence[str]) -> None:
        """Look at modules below these folders, and at these extra files; their present state counts as seen."""
        self._folders = tuple(dict.fromkeys(map(os.path.realpath, folders)))
        self._extra = [os.path.abspath(pattern) for pattern in extra]
        self._is_own: dict[str, bool] = {}  # by a module's file
        self._seen: dict[str, tuple[int, int, int] | None] = {}
        self._has_all = False
        self._looked_at_ns = 0  # by the clock of files
        self._extra_files = list(itertools.islice(self._find_all(), MAX_FILES))
        self.find_changed()

    def folders(self) -> set[str]:
        """Return the folders of all checked files."""
        found = {os.path.dirname(path) for path in self._seen}
        return {*found, *(self._folders if self._has_all else ()), *filter(os.path.isdir, self._extra)}

    def look_at_all(self) -> None:
        """Look at every Python file of the project from now on. New files count as seen; no change is forgotten."""
        if not self._has_all:
            self._has_all = True
            self.look_around()

    def look_around(self) -> list[str]:
        """Return the extra files that have appeared, or gone, since the last time, by reading each of their folders."""
        before = set(self._extra_files)
        self._extra_files = list(itertools.islice(self._find_all(), MAX_FILES))
        differing = sorted(before ^ set(self._extra_files))
        self._seen.update((path, look_at(path)) for path in differing)
        return differing

    def find_changed(self) -> list[str]:
        """
        Return the files changed, or gone, since the last time.

        A module imported since has changed if the file has: the import or the change may have been first.
        """
        changed, before_ns = [], self._looked_at_ns
        self._looked_at_ns = time.time_ns() - CLOCK_NS
        for path in self._paths():
            now = look_at(path)
            is_new = path not in self._seen
            has_changed = bool(now and before_ns and now[0] > before_ns) if is_new else now != self._seen[path]
            self._seen[path] = now
            if has_changed:
                changed.append(path)
        return changed

    def _paths(self) -> Iterator[str]:
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and self._is_ours(path):
                yield path
        yield from self._extra_files

    def _is_ours(self, path: str) -> bool:
        known = self._is_own.get(path)
        if known is None:
            real = os.path.realpath(path)
            is_below = any(real.startswith(os.path.join(folder, "")) for folder in self._folders)
            known = self._is_own[path] = is_below and not any(part in INSTALLED for part in real.split(os.sep))
        return known

    def _find_all(self) -> Iterator[str]:
        for pattern in self._extra:
            if os.path.isdir(pattern):
                yield from files_below(pattern)
            else:
                yield from filter(os.path.isfile, glob.iglob(pattern, recursive=True))
        for folder in self._folders if self._has_all else ():
            yield from (path for path in files_below(folder) if path.endswith(".py"))


def files_below(folder: str) -> Iterator[str]:
    """Yield the files below a folder, but hidden files, and files made or installed by a tool."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in SKIPPED and not _is_venv(where, name)]
        yield from (os.path.join(where, name) for name in names if name[0] != ".")


def _is_venv(where: str, name: str) -> bool:
    return os.path.isfile(os.path.join(where, name, "pyvenv.cfg"))


def forget_compiled(paths: Iterable[str]) -> None:
    """
    Remove Python's compiled code of these files.

    Python takes the code for current if time, in whole seconds, and size are the source's (PEP 552): two saves within a second may be so.
    """
    for path in paths:
        with contextlib.suppress(OSError, NotImplementedError):
            os.unlink(importlib.util.cache_from_source(path))
