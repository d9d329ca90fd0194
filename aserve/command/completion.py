"""Scripts by which a shell completes the command's flags, made by shtab.

Owns:     which flags take paths.
Thread:   the main thread.
Not here: the flags (flags.py), which shells there are.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ..features import SETTINGS
from ..settings import ConfigError

PATHS = ("PATH", "FILE")


def completion_of(parser: argparse.ArgumentParser, shell: str) -> str:
    """
    Return a script for a shell.

    Raises:
        ConfigError: shtab is not installed, or too old for this shell.
    """
    if not find_spec("shtab"):
        raise ConfigError(
            "--print-completion needs shtab, which is not installed; pip install 'aserve-wsgi[completion]'"
        )
    import shtab  # an optional dependency, needed once

    if shell not in shtab.SUPPORTED_SHELLS:
        raise ConfigError(f"--print-completion {shell} needs a newer shtab; pip install -U shtab")
    words = {setting.name: setting.kind.metavar.split("|") for setting in SETTINGS}
    for action in parser._actions:
        if action.metavar in PATHS or action.dest == "app":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif len(words.get(action.dest, ())) > 1:
            action.choices = words[action.dest]
    return str(shtab.complete(parser, shell)) + "\n"
