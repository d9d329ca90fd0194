"""The subcommands: first arguments that name a task other than serving an APP.

Owns:     is_subcommand, run_subcommand: `aserve status` and the like, `aserve top`, `aserve config`, `aserve translate`.
Thread:   the main thread.
Not here: the questions to a running server (processes/ask.py), the screen (top_screen.py), one setting (explain.py), another server's settings
          (features/moving/).

Each imports its modules when it is called: a server does not load them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ..processes.ask import is_command, run_command
from ..settings import ConfigError
from .flags import parse_args
from .plans import read_file

CONFIG, TRANSLATE = "config", "translate"


def is_subcommand(argv: Sequence[str]) -> bool:
    """Whether the first argument is a subcommand. (An app in a module of that name is `status:app`.)"""
    return is_command(argv) or argv[:1] in ([CONFIG], [TRANSLATE])


def run_subcommand(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """
    Run the subcommand that the first argument names; return the exit status.

    Raises:
        ConfigError: other arguments are wrong, or no server answers.
    """
    if argv[0] == TRANSLATE:
        from ..features.moving.translate import run_translate

        return run_translate(argv, environ)
    if argv[0] == CONFIG:
        sys.stdout.write(_explain(argv[1:], environ))
        return 0
    return run_command(argv, environ, _watch)


def _explain(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    from .explain import explain, split_name

    name, rest = split_name(argv)
    args = parse_args(rest)
    toml, toml_name = read_file(args.get("config", environ.get("ASERVE_CONFIG")))
    return explain(name, args, environ, toml, toml_name, sys.stdout.isatty())


def _watch(path: str) -> int:
    if not find_spec("textual"):
        raise ConfigError("aserve top needs textual, which is not installed; pip install 'aserve-wsgi[top]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("aserve top needs a terminal; `aserve status` prints the same once")
    from .top_screen import run_top  # an optional dependency, needed only here

    run_top(path)
    return 0
