"""The folder in which the command was started, by name: where the name leads now, and not where it led then.

Owns:     StartFolder: the name, entering the folder again, and forgetting the modules of the folder to which the name led before.
Thread:   the main thread.
Not here: --chdir and --python-path (lifecycle/surroundings.py), the folder of the app on sys.path (lifecycle/loading.py).

A deploy puts a new release beside the current one, and points a symbolic link at it. A process stays in the folder where it began,
even if the link changes: so before each import, and before settings are read again, it enters the folder by the link's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .errors import AserveError
from .named_tuple import NamedTuple


class FolderGoneError(AserveError):
    """The folder of the start has another name now, or none: an import from it would find the old code."""


class StartFolder(NamedTuple):
    """The folder's name, and whether the environment gave it."""

    name: str
    is_said: bool  # by the environment: the name as typed; else the folder to which it led at the start

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str]) -> StartFolder:
        """
        Return the working directory by the name that the shell or systemd has given it, if that is true.

        It may be a symbolic link to the current release: os.getcwd() would return the folder to which it leads.
        """
        said = environ.get("PWD", "")
        try:
            here = os.getcwd()
            is_said = os.path.isabs(said) and os.path.samefile(said, here)
            return cls(said if is_said else here, is_said)
        except OSError:  # it was removed, or may not be entered
            return cls(".", False)

    def whole(self, path: str) -> str:
        """Return a path relative to here as an absolute one; unchanged if the folder's name is not certain."""
        return os.path.join(self.name, path) if self.is_said and os.path.isdir(self.name) else path

    def enter(self, own: frozenset[str], is_anew: bool = False) -> None:
        """
        Enter the folder to which the name leads now; if it is another one, or `is_anew`, forget the modules imported from the old one.

        `own`: the names of modules to keep in any case.

        Raises:
            FolderGoneError: the name leads nowhere, or elsewhere and it is uncertain whether that folder is meant.
        """
        before = real_folder()
        is_moved = self._leads_elsewhere()
        if is_moved:
            self._change_folder()
            _move_path(before, os.getcwd())
        if is_moved or is_anew:
            sys.path_importer_cache.clear()  # lists of folders: old ones, if a link has another folder of the same time
            _forget_modules(before, own)

    def _leads_elsewhere(self) -> bool:
        try:
            return not os.path.samefile(self.name, ".")
        except PermissionError:  # after --user: the name cannot be resolved
            return False
        except OSError as exc:
            raise FolderGoneError(
                f"{self.name}, where aserve was started, cannot be entered any more ({exc.strerror}): "
                "put it back, or start aserve in a folder that stays, or with --chdir"
            ) from None

    def _change_folder(self) -> None:
        if not self.is_said:
            raise FolderGoneError(
                f"{self.name}, where aserve was started, is another folder now, and without PWD in the environment it is not known "
                "which one is meant: start aserve anew, with --chdir"
            )
        try:
            os.chdir(self.name)
        except OSError as exc:
            raise FolderGoneError(f"{self.name}, where aserve was started, cannot be entered: {exc.strerror}") from None


def real_folder() -> str:
    """Return the working directory without symbolic links; "": it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _move_path(before: str, after: str) -> None:
    """Replace the old folder in sys.path, where PYTHONPATH or `python -m` put it or a folder in it, by the new one."""
    moved = [after + path[len(before) :] if _is_below(path, before) else path for path in sys.path]
    sys.path[:] = moved  # the same list: others refer to it


def _forget_modules(folder: str, own: frozenset[str]) -> None:
    """Forget modules of the folder, which a configuration imported, so that they are imported again; not aserve's, nor those in C."""
    for name, module in [*sys.modules.items()]:
        path = getattr(module, "__file__", None) or ""
        if name not in own and name.partition(".")[0] != "aserve" and path.endswith(".py") and _is_below(path, folder):
            del sys.modules[name]


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is the app's: in this folder, and not in a virtual environment in it."""
    is_installed = any(_begins(path, prefix) for prefix in (sys.prefix, sys.base_prefix))
    return bool(folder) and _begins(path, folder) and not is_installed


def _begins(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
