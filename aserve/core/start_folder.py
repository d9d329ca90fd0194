"""The folder of the command's start, by name: the present folder of the name, not the earlier one.

Owns:     StartFolder: the name, entering the folder again, and forgetting the modules of the earlier folder.
Thread:   the main thread.
Not here: --chdir and --python-path (lifecycle/surroundings.py), the folder of the app on sys.path (lifecycle/loading.py).

A deploy puts a new release beside the current one, and points a symbolic link at the new one. A process stays in the folder of the start, even if
the link changes: so before each import, and before settings are read again, the process enters the folder by the link's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .errors import AserveError
from .named_tuple import NamedTuple


class FolderGoneError(AserveError):
    """The folder of the start has another name now, or none: an import would find the old code."""


class StartFolder(NamedTuple):
    """The folder's name, and whether the environment gave the name."""

    name: str
    is_said: bool  # by the environment: the name as typed; else the folder of the name at the start

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str]) -> StartFolder:
        """
        Return the working directory by the name given by the shell or systemd, if true.

        The name may be a symbolic link to the current release: os.getcwd() would return the folder behind the link.
        """
        said = environ.get("PWD", "")
        try:
            here = os.getcwd()
            is_said = os.path.isabs(said) and os.path.samefile(said, here)
            return cls(said if is_said else here, is_said)
        except OSError:  # the folder was removed, or may not be entered
            return cls(".", False)

    def whole(self, path: str) -> str:
        """Return a path relative to here as an absolute one; unchanged if the folder's name is uncertain."""
        return os.path.join(self.name, path) if self.is_said and os.path.isdir(self.name) else path

    def enter(self, own: frozenset[str], is_anew: bool = False) -> None:
        """
        Enter the present folder of the name; in a new folder, or `is_anew`, forget the modules imported from the old one.

        `own`: the names of modules to keep in any case.

        Raises:
            FolderGoneError: the name leads nowhere, or elsewhere, maybe to a folder not meant.
        """
        before = real_folder()
        is_moved = self._leads_elsewhere()
        if is_moved:
            self._change_folder()
            after = (
                os.getcwd()
            )  # replaces the old folder, and folders in it, put into sys.path by PYTHONPATH or `python -m`
            moved = [after + path[len(before) :] if _is_below(path, before) else path for path in sys.path]
            sys.path[:] = moved  # the same list: other code refers to it
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
    """Return the working directory without symbolic links; "": removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _forget_modules(folder: str, own: frozenset[str]) -> None:
    """Forget modules of the folder, imported by a configuration, for a new import; not aserve's, nor modules in C."""
    for name, module in [*sys.modules.items()]:
        path = getattr(module, "__file__", None) or ""
        if name not in own and name.partition(".")[0] != "aserve" and path.endswith(".py") and _is_below(path, folder):
            del sys.modules[name]


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is the app's: in this folder, and not in a virtual environment there."""
    is_installed = any(_begins(path, prefix) for prefix in (sys.prefix, sys.base_prefix))
    return bool(folder) and _begins(path, folder) and not is_installed


def _begins(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
