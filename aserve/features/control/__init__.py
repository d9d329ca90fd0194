"""The commands that ask a running server by its control socket: `aserve status`, `top` and the others (--control).

Owns:     Controlling, the extension.
Thread:   see Extension.
Not here: the commands (ask.py, with top.py and top_screen.py for `aserve top`), which a server does not load; the socket and the answers
          (lifecycle/control.py; supervising.py, processes/answers.py; command/alone.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ...extension import Extension, Run, ServerContext
from ...lifecycle.supervision import Supervision, SupervisorContext
from ...settings import ConfigError
from .settings import ControlSettings

COMMANDS = ("status", "top", "reload", "recycle", "workers", "balancers", "stacks")


class Controlling(Extension[ControlSettings]):
    """--control."""

    modules = ("supervising",)

    @classmethod
    def is_on(cls, config: ControlSettings) -> bool:
        """See Extension."""
        return config.control_socket is not None

    @staticmethod
    def commands() -> Mapping[str, Run]:
        """See Extension."""
        return dict.fromkeys(COMMANDS, _ask)

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        from .supervising import ControlSocket

        path = self._config.control_socket
        assert path is not None  # or it were off
        return ControlSocket(path, context.watch, is_asked_for=self._config.control is not None)

    def start(self, context: ServerContext) -> None:
        """Have requests timed, as `aserve status` shows the oldest; with workers, their supervisor does."""
        self.wants = ("times",) if context.slot is None and self._config.control is not None else ()


def _ask(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    from .ask import run_command

    return run_command(argv, environ, _watch)


def _watch(path: str) -> int:
    if not find_spec("textual"):
        raise ConfigError("aserve top needs textual, which is not installed; pip install 'aserve-wsgi[top]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("aserve top needs a terminal; `aserve status` prints the same once")
    from .top_screen import run_top  # an optional dependency, needed only here

    run_top(path)
    return 0
