"""How a path that is given from a folder becomes one that means the same file from every folder.

Owns:     Base; the functions in the column `path` of the table of settings, one for each form of value.
Thread:   the main thread, before --chdir has an effect.
Not here: which setting has which, binds (table.py); when they are called (lifecycle/surroundings.py).
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ..core.start_folder import StartFolder

QUEUE = "shared:"  # what stands before the name of a queue of jobs in --spooler
QUEUE_NAME = re.compile(r"shared:[A-Za-z0-9_.-]{1,100}\Z")


class Base(NamedTuple):
    """From where paths are meant."""

    folder: StartFolder
    is_left: bool  # --chdir leads elsewhere before they are used


def whole(text: str, base: Base) -> str:
    """Return a path, or a pattern of such, from the root on."""
    return os.path.abspath(text)


def whole_by_name(text: str, base: Base) -> str:
    """Return a path by the name of the folder: where a link leads elsewhere later, it is another file."""
    return base.folder.whole(text)


def whole_spool(text: str, base: Base) -> str:
    """Return the folder of a spooler, or the queue that hosts share."""
    return text if text.startswith(QUEUE) else whole(text, base)


def whole_folder(text: str, base: Base) -> str:
    """Return [PREFIX=]FOLDER."""
    prefix, equals, folder = text.rpartition("=")
    return f"{prefix}{equals}{whole(folder.strip(), base)}"


def whole_certificates(text: str, base: Base) -> str:
    """Return NAME=CERTIFICATE[:KEY]."""
    name, equals, files = text.partition("=")
    return f"{name}{equals}{':'.join(whole(file, base) for file in files.split(':'))}"
