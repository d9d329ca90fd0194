"""Programs and timed commands beside the workers: --attach, --cron.

Owns:     Programs, the extension; Named, the part in a supervisor.
Thread:   see Extension and Supervision.
Not here: starting and ending programs (processes/programs/attached.py).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ...extension import Extension, Life, LifeContext
from ...lifecycle.program import Program, environ_for
from ...lifecycle.supervision import Supervision, SupervisorContext
from ...settings import ConfigError
from ...settings.secrecy import show_program
from .commands import parse_program, parse_timed
from .settings import ProgramSettings


class Programs(Extension[ProgramSettings]):
    """--attach and --cron."""

    switches = ("attach", "cron")

    @classmethod
    def is_supervised(cls, config: ProgramSettings) -> bool:
        """Whether there is a part in a supervisor: always, as a reload may name the first program."""
        return True

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        return Named()

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Check for each program of --attach."""
        if event is Life.READ:
            self._check(context.environ or {})

    def _check(self, environ: Mapping[str, str]) -> None:
        config = self._config
        path = environ_for(config, environ).get("PATH", os.defpath)
        for text in config.attach:
            word = parse_program(text).words[0]
            found = os.path.join(config.chdir or "", word) if os.sep in word else word
            if shutil.which(found, path=path) is None:
                where = (
                    "there is no such file that can be run"
                    if os.sep in word
                    else f"it is in no folder of PATH ({path})"
                )
                raise ConfigError(f"--attach: cannot run {word!r} of {show_program(text)!r}: {where}")


class Named(Supervision):
    """The programs of the settings."""

    def programs(self, config: Any) -> Sequence[Program]:
        """See Supervision."""
        return [*map(parse_program, config.attach), *map(parse_timed, config.cron)]
