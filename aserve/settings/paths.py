"""Makes a path of a setting absolute: the same file from every folder.

Owns:     Base; the functions in the column `path` of the table of settings, one for each form of value.
Thread:   the main thread, before --chdir has an effect.
Not here: the function of each setting, binds (table.py); calling them (lifecycle/surroundings.py).
"""

from __future__ import annotations

import os

from ..core.named_tuple import NamedTuple
from ..core.start_folder import StartFolder


class Base(NamedTuple):
    """The folder for relative paths."""

    folder: StartFolder
    is_left: bool  # --chdir changes the folder before the paths are used


def whole(text: str, base: Base) -> str:
    """Return an absolute path, or pattern of paths."""
    return os.path.abspath(text)


def whole_by_name(text: str, base: Base) -> str:
    """Return an absolute path by the folder's name, maybe a link: when the link changes, so does the file."""
    return base.folder.whole(text)


def whole_folder(text: str, base: Base) -> str:
    """Return [PREFIX=]FOLDER with an absolute folder."""
    prefix, equals, folder = text.rpartition("=")
    return f"{prefix}{equals}{whole(folder.strip(), base)}"


def whole_certificates(text: str, base: Base) -> str:
    """Return NAME=CERTIFICATE[:KEY] with absolute paths."""
    name, equals, files = text.partition("=")
    return f"{name}{equals}{':'.join(whole(file, base) for file in files.split(':'))}"
