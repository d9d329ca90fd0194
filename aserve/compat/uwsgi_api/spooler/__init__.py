"""Jobs in a folder, done by separate processes (--spooler): uWSGI's spooler.

Owns:     Spooling, the extension.
Thread:   see Extension.

supervising.py describes the processes to the supervisor, which keeps them running (processes/programs/attached.py). folder.py has the files, runner.py
the process that does the jobs, board.py its reports to the supervisor, functions.py the app's functions: `uwsgi.spool` and the decorators of
uwsgidecorators. ../module.py puts those into the modules.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from ....core.command_line import COMMAND_LINE, read_command_line
from ....extension import BesideContext, Extension, Life, LifeContext, RunBeside
from ....lifecycle.supervision import Supervision, SupervisorContext
from ....settings import ConfigError
from .settings import QUEUE, SpoolerSettings
from .supervising import SPOOLER_VARIABLE, Spoolers

logger = logging.getLogger("aserve")


class Spooling(Extension[SpoolerSettings]):
    """--spooler."""

    switches = ("spooler",)

    @classmethod
    def is_supervised(cls, config: SpoolerSettings) -> bool:
        """Whether it has a part in a supervisor: always, as a reload may name the first folder."""
        return True

    @staticmethod
    def processes() -> Mapping[str, RunBeside]:
        """See Extension."""
        return {SPOOLER_VARIABLE: _run_jobs}

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        return Spoolers(context.words, context.kept)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Check that a process like this one can be started; --check warns of folders that this user may not write."""
        if event is Life.CHECKS:
            for place in self._config.spooler:
                if not (place.startswith(QUEUE) or _may_write(place)):
                    logger.warning("this user may not write the spooler %r: no job could be put there, or done", place)
        if event is Life.READ and not read_command_line()[1:]:
            raise ConfigError(
                f"--spooler: the command line, which its processes run, is not known without {COMMAND_LINE}; mount /proc"
            )


def _run_jobs(folder: str, context: BesideContext) -> int:
    from ..jobs import run_jobs

    return run_jobs(folder, context)


def _may_write(folder: str) -> bool:
    """Whether this user may put jobs into a folder, or make it where it is not there."""
    place = os.path.abspath(folder)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
