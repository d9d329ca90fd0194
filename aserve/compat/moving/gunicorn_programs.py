"""The settings of a program that is written for gunicorn: it sets them itself, and then calls `run()`.

Owns:     GunicornProgram, what such a program gives; load_program.
Thread:   the main thread.
Not here: the classes that programs derive from (compat/gunicorn/), serving their app (compat/gunicorn/serving.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from ...core.named_tuple import NamedTuple
from .draft import Draft
from .guests import hosting
from .gunicorn import put_together, take_server_name
from .gunicorn_cfg import Cfg
from .gunicorn_hooks import Hooks

STAND_IN = "aserve.compat.gunicorn"  # under this name, too, where `aserve python` puts it in gunicorn's place


class GunicornProgram(NamedTuple):
    """A program that runs in this process."""

    name: str  # its file, for messages
    spec: str  # of its app
    read: Callable[[], Cfg]  # its settings; called again for a reload


def load_program(program: GunicornProgram, environ: Mapping[str, str]) -> tuple[Draft, Hooks]:
    """
    Turn a program's settings into ours.

    Raises:
        ConfigError: a value is wrong.
        LoadError: the program's code has raised.
    """
    with hosting(program.name, "reading the settings of"):
        cfg = program.read()
    draft = Draft(program.name)
    draft.notes += cfg.notes
    take_server_name(program.name, draft, STAND_IN)
    given = {name: each._replace(where=each.where or program.name) for name, each in cfg.given.items()}
    draft, hooks = put_together(draft, given, environ)
    draft.app = program.spec
    return draft, hooks
