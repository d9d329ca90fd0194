"""The surroundings of the app: folder, variables, and sys.path.

Owns:     the effect of --chdir, --env and --python-path; PLACED; absolute paths in settings.
Thread:   the main thread, before the import of the app, in each process with an import.
Not here: the folder of the app itself on sys.path (loading.py).
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import MutableMapping
from typing import TypeVar

from ..core.errors import AserveError
from ..core.start_folder import StartFolder
from ..settings import EngineSettings
from ..settings.paths import Base

S = TypeVar("S", bound=EngineSettings)

TEMPORARY_FOLDERS = {"TMPDIR", "TEMP", "TMP"}  # the variables of the module tempfile
PLACED: set[str] = set()  # the folders of --python-path in this process: the app's has its place among these, if named
HERE = StartFolder(".", is_said=False)


class SurroundingsError(AserveError):
    """The folder of --chdir cannot be entered."""


def set_surroundings(config: EngineSettings, environ: MutableMapping[str, str]) -> None:
    """
    Set the surroundings of this process; `environ`: os.environ of the process.

    Raises:
        SurroundingsError: --chdir names no folder open to this process.
    """
    for pair in config.env:
        name, _, value = pair.partition("=")
        environ[name] = value
    if config.chdir is not None:
        try:
            os.chdir(config.chdir)
        except OSError as fault:
            raise SurroundingsError(f"--chdir {config.chdir}: {fault.strerror}") from None
    for name in TEMPORARY_FOLDERS & environ.keys():
        environ[name] = environ[name] and os.path.abspath(environ[name])  # the app may change the folder
    for folder in reversed(config.python_path):
        _import_from(os.path.abspath(folder))
        PLACED.add(os.path.abspath(folder))


def with_whole_paths(config: S, folder: StartFolder = HERE) -> S:
    """Return the settings with absolute paths: the app may change the folder, and a supervisor uses the same settings."""
    base = Base(folder, is_left=config.chdir is not None)
    rows = [setting for setting in config.rows() if setting.path is not None]
    return config.replace(**{row.name: row.with_whole_paths(getattr(config, row.name), base) for row in rows})


def _import_from(folder: str) -> None:
    """Put a folder first on sys.path, and behind it the folders of its .pth files, by which packages are installed in place."""
    before = [path for path in sys.path if path != folder]
    sys.path[:] = before  # in place: other code refers to this list
    site.addsitedir(folder)
    sys.path[:] = [folder, *(path for path in sys.path[len(before) :] if path != folder), *before]
