"""Scripts by which a shell completes the command's flags, made by shtab.

Owns:     which flags take paths; what may stand in place of APP.
Thread:   the main thread.
Not here: the flags (flags.py), which shells there are.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ..compat.moving.lines import LINES, PYTHON
from ..features import SETTINGS, commands
from ..settings import ConfigError
from .subcommands import OWN

PATHS = ("PATH", "FILE")
# A shell asks at each Tab, for which Python starts too slowly: grep looks for the apps in the files of the current folder.
FIND_APPS = """sh -c 'grep -sHoE "^(def )?(app|application) *[=(]" *.py | sed -E "s/[.]py:(def )?(app|application) *[=(]$/:\\2/"'"""


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
        if action.dest == "app":
            action.complete = {**shtab.FILE, **_first_argument()}  # type: ignore[attr-defined]
        elif action.metavar in PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif len(words.get(action.dest, ())) > 1:
            action.choices = words[action.dest]
    return str(shtab.complete(parser, shell)) + "\n"


def _first_argument() -> dict[str, object]:
    """Return what completes the first argument, as shtab has it: subcommands, apps, and files. In tcsh, files alone."""
    words, name = " ".join((*OWN, *commands(), *LINES, PYTHON)), "_aserve_first_argument"
    scripts = {
        "bash": f'{name}() {{\n  compgen -W "{words} $({FIND_APPS})" -- "$1"\n  compgen -f -- "$1"\n}}\n',
        "zsh": f"{name}() {{\n  compadd -- {words} $({FIND_APPS})\n  _files\n}}\n",
        "fish": f"function {name}\n  string split ' ' '{words}'\n  {FIND_APPS}\n  __fish_complete_path (commandline -ct)\nend\n",
    }
    return {"bash": name, "zsh": name, "fish": f"({name})", "preamble": scripts}
