"""The modes of uWSGI's log files.

Owns:     UwsgiLogFiles, the extension.
Thread:   the main thread.
Spec:     uWSGI 2.0.31, core/logging.c: logto; plugins/logfile. logfile-chmod is for the files of logto and daemonize.
Not here: which files they are (uwsgi.py), opening them (core/log_target.py, lifecycle/given_files.py).
"""

from __future__ import annotations

from ...core.log_target import FileModes
from ...extension import Extension, Life, LifeContext
from ...settings import EngineSettings

MADE = 0o640


class UwsgiLogFiles(Extension[EngineSettings]):
    """Lets no other users read lines of requests, which may have tokens, unless logfile-chmod does."""

    def __init__(self, mode: int | None) -> None:
        """`mode`: of logfile-chmod; None: there is none."""
        self._mode = mode

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Set the modes before any process opens a log; processes that are forked later have them, too."""
        if event is Life.READ:
            FileModes.made, FileModes.given = MADE, self._mode
