"""gunicorn's settings of logging: `logger_class`, `logconfig_dict`, `syslog`, `errorlog` and the like, as they are.

Owns:     Logs: gunicorn's Logger in each process, and the class that is named; GunicornLogs, the extension.
Thread:   the main thread.
Not here: whether it is needed (gunicorn_cfg.py), the Logger (gunicorn_logger.py), calling an `access` of the user's for each request (gunicorn_access.py).

aserve's messages go to the logger gunicorn.error, and the lines of its access log to gunicorn.access, by the target logger:gunicorn.access.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import TYPE_CHECKING, Any

from ...extension import Extension, Life, LifeContext
from ...lifecycle.given_files import giving_log_files
from ...settings import EngineSettings
from .draft import Draft, Given
from .guests import hosting, importing_from
from .gunicorn_access import logging_access
from .gunicorn_cfg import DEFAULT_LOGGERS, Cfg
from .gunicorn_hooks import ACCESS, ERROR, ToAserve
from .gunicorn_logger import Logger

if TYPE_CHECKING:
    from ...wsgi import WSGIApp

OF_GUNICORN = ("gunicorn.glogging", Logger.__module__)
OF_REQUESTS = ("access", "atoms", "now", "_get_user")  # a class with one of these of its own logs requests itself


class Logs:
    """The loggers of a configuration, the same in all processes."""

    def __init__(self, cfg: Cfg) -> None:
        """`cfg`: gunicorn's settings."""
        self._cfg = cfg
        for name in ("errorlog", "accesslog"):
            if getattr(cfg, name) not in ("-", "", None):
                cfg.settings[name].set(os.path.abspath(os.path.join(cfg.chdir or "", getattr(cfg, name))))
        self._kind: Any = cfg.logger_class if cfg.logger_class not in DEFAULT_LOGGERS else Logger
        self._logger: Any = None

    def find(self) -> None:
        """
        Import the class, if it is named.

        Raises:
            LoadError: it cannot be imported.
        """
        if isinstance(self._kind, str):
            where, _, name = self._kind.rpartition(".")
            with hosting(self._kind, "importing"), importing_from(*self._cfg.import_folders):
                self._kind = getattr(importlib.import_module(where), name)

    @property
    def extension(self) -> Extension[Any]:
        """Return what sets them up in each process."""
        return GunicornLogs(self)

    @property
    def _logs_requests(self) -> bool:
        """Whether the class logs requests in a way of its own."""
        found = (getattr(self._kind, name, None) for name in OF_REQUESTS)
        return self._cfg.configures_loggers and any(
            getattr(one, "__module__", OF_GUNICORN[0]) not in OF_GUNICORN for one in found
        )

    def take_requests(self, draft: Draft) -> None:
        """Let lines about requests go to gunicorn's logger."""
        if not self._cfg.configures_loggers:
            return
        draft.settings.pop("access-log", None)
        whence = draft.whence.pop("access-log", [Given("gunicorn's loggers", "", "")])
        if self._cfg.asks_for_access and not self._logs_requests:
            draft.settings["access-log"], draft.whence["access-log"] = f"logger:{ACCESS}", whence

    def begin(self, is_anew: bool) -> None:
        """
        Make the Logger, unless this process has inherited it, and let aserve's messages go there.

        Raises:
            LoadError: it has raised, as for a file that cannot be written.
        """
        error = logging.getLogger(ERROR)
        # A reload may bring the first settings of logging: two handlers that pass on to each other would never end.
        error.handlers[:] = [handler for handler in error.handlers if not isinstance(handler, ToAserve)]
        if is_anew or not self.has_begun:
            what = getattr(self._kind, "__name__", "the logger")
            with hosting(what, "setting up"), importing_from(*self._cfg.import_folders):
                self._logger = self._kind(self._cfg)
        logging.getLogger("aserve").handlers[:] = [_Relay()]

    def check(self, config: EngineSettings) -> None:
        """Make the Logger, to see whether that can be done; messages and output stay on the terminal, for the user who waits there."""
        self._cfg.settings["capture_output"].set(False)
        for name in ("errorlog", "accesslog"):
            if getattr(self._cfg, name) and config.user is not None:
                self._cfg.settings[name].set("-")
        handlers = logging.getLogger("aserve").handlers
        before = handlers[:]
        with giving_log_files(config, is_check=True):
            self.begin(is_anew=True)
        handlers[:] = before

    @property
    def has_begun(self) -> bool:
        """Whether the Logger has been made, here or before a fork."""
        return self._logger is not None

    def wrap(self, app: WSGIApp) -> WSGIApp:
        """Return the app, with calls of the Logger's `access` if it is the user's."""
        return logging_access(app, lambda: self._logger) if self._logs_requests else app


class _Relay(logging.Handler):
    """Passes messages on to gunicorn's logger."""

    def emit(self, record: logging.LogRecord) -> None:
        """Do so, if the logger's level lets it."""
        logger = logging.getLogger(ERROR)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


class GunicornLogs(Extension[EngineSettings]):
    """Sets loggers up at the events of a process."""

    def __init__(self, logs: Logs) -> None:
        """`logs` also keeps the Logger of this process."""
        self._logs = logs

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Set them up before anything is served, and for a reload; in a child aserve's messages have to go there again."""
        if event in (Life.STARTS, Life.RELOADS):
            with giving_log_files(context.plan.config):
                self._logs.begin(is_anew=True)
        elif event is Life.IMPORTS and context.is_check:
            self._logs.check(context.plan.config)
        elif event in (Life.IMPORTS, Life.FORKED):
            self._logs.begin(is_anew=False)
