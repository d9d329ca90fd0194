"""The subcommands: first arguments that name a task other than serving an APP.

Owns:     is_subcommand, run_subcommand; `aserve config`.
Thread:   the main thread.
Not here: the subcommands of features (Extension.commands), what `aserve config` prints (explain.py), what `aserve init` writes (init.py),
          the pages of `aserve docs` (pages.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping, Sequence

from ..core.start_folder import StartFolder
from ..features import commands
from ..lifecycle.standard_streams import discard_output
from .flags import parse_args
from .plans import read_file, read_origin_of


def is_subcommand(argv: Sequence[str]) -> bool:
    """Whether the first argument is a subcommand. (An app in a module of that name is `status:app`.)"""
    return bool(argv) and (argv[0] in OWN or argv[0] in commands())


def run_subcommand(argv: Sequence[str], environ: MutableMapping[str, str]) -> int:
    """
    Run the subcommand that the first argument names; return the exit status.

    Raises:
        ConfigError: other arguments are wrong, or no server answers.
    """
    if argv[0] not in OWN:
        return commands()[argv[0]](argv, environ)
    try:
        sys.stdout.write(OWN[argv[0]](argv[1:], environ))
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    return 0


def _init(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    from .init import init

    return init(argv, StartFolder.of_this_process(environ).name)


def _docs(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    from .pages import show_pages

    return show_pages(argv)


def _explain(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    from .explain import explain, split_name

    name, rest = split_name(argv)
    args = parse_args(rest, environ)
    origin = read_origin_of(args)
    toml, toml_name = read_file(args.get("config", environ.get("ASERVE_CONFIG")))
    return explain(name, args, environ, toml, toml_name, sys.stdout.isatty(), origin)


OWN = {"config": _explain, "init": _init, "docs": _docs}
