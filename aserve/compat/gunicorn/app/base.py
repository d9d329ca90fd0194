"""In the place of `gunicorn.app.base`: classes that a program derives its application from.

Owns:     BaseApplication, Application; `program`, the app of the one that runs.
Thread:   the main thread.
Spec:     gunicorn's documentation, "Custom Application"; gunicorn 23.0.0, gunicorn/app/base.py.
Not here: the settings (compat/moving/gunicorn_cfg.py), serving (../serving.py).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from ...moving.draft import Draft
from ...moving.gunicorn import read_settings
from ...moving.gunicorn_cfg import Cfg
from ...moving.gunicorn_flags import build_parser
from ...moving.gunicorn_programs import GunicornProgram
from ...moving.lines import is_check_flag
from ..serving import program_words, run_program

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication as App

logger = logging.getLogger("aserve")

SPEC = "aserve.compat.gunicorn:program()"
_running: BaseApplication | None = None


class BaseApplication:
    """An application that sets its settings in `load_config`, and returns its app from `load`."""

    cfg: Cfg

    def __init__(self, usage: str | None = None, prog: str | None = None) -> None:
        """Set the settings."""
        self.usage, self.prog = usage, prog
        self.callable: App | None = None
        self.logger = None
        self.do_load_config()
        self._is_read = False

    def do_load_config(self) -> None:
        """Set the settings; end the process with status 1 if that raises."""
        try:
            self.load_default_config()
            self.load_config()
        except Exception as fault:
            sys.stderr.write(f"\nError: {fault}\n")
            sys.exit(1)

    def load_default_config(self) -> None:
        """Begin with gunicorn's defaults."""
        self.cfg = Cfg()

    def load_config(self) -> None:
        """Set the settings; a program overrides it."""
        raise NotImplementedError

    def init(self, parser: Any, opts: Any, args: Sequence[str]) -> dict[str, Any] | None:
        """Return settings; see Application."""
        raise NotImplementedError

    def load(self) -> App:
        """Return the app; called in each worker, or before them with preload_app."""
        raise NotImplementedError

    def reload(self) -> None:
        """Set the settings anew."""
        self.do_load_config()

    def wsgi(self) -> App:
        """Return the app, which is loaded once in a process."""
        if self.callable is None:
            self.callable = self.load()
        return self.callable

    def run(self) -> NoReturn:
        """Serve the app until the process ends."""
        global _running
        _running = self
        name = os.path.basename(getattr(sys.modules.get("__main__"), "__file__", None) or type(self).__name__)
        flags = {"check": True} if self.cfg.check_config else {}
        sys.exit(run_program(GunicornProgram(name, SPEC, self._read), flags))

    def _read(self) -> Cfg:
        """Return the settings; from the second time on they are set anew, for a reload."""
        if self._is_read:
            logger.warning(
                "a reload loads anew what load() imports; SIGUSR2 also loads what the program itself has imported"
            )
            self.reload()
        self._is_read = True
        return self.cfg


class Application(BaseApplication):
    """An application that reads gunicorn's command line, file and variable, as `gunicorn` itself."""

    def load_config(self) -> None:
        """Read the settings: those of `init`, over them the file, the variable and the command line."""
        draft, words, environ = Draft("gunicorn"), *program_words()
        found = read_settings(draft, "", environ, words)
        app = found.get("wsgi_app")
        opts = SimpleNamespace(**dict.fromkeys(self.cfg.settings))
        vars(opts).update({name: given.value for name, given in found.items()}, config=None)
        own = self.init(build_parser("the command line"), opts, [app.value] if app is not None else [])
        draft.raise_mistakes()
        for name, value in (own or {}).items():
            self.cfg.set(name.lower(), value)
        for name, given in found.items():
            self.cfg.set(name, given.value, given.where)
        if any(map(is_check_flag, words)):
            self.cfg.set("check_config", True)
        self.cfg.notes += draft.notes


def program() -> App:
    """Return the app of the program that runs in this process."""
    assert _running is not None
    return _running.wsgi()
