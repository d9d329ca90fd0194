"""The settings of programs beside the workers.

Owns:     ProgramSettings.
Thread:   any; pure.
Not here: the grammar of a command and of times (commands.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...settings import REPLACED, EngineSettings, row
from ...settings.secrecy import show_program, show_timed
from .commands import COMMANDS, TIMED


class ProgramSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    attach: Sequence[str] = row(
        (), "Processes", "--attach", COMMANDS,
        "a program to run beside the workers, started anew after an end and at a reload: 'celery -A shop worker', 'beat=celery "
        "-A shop beat'; repeatable; see `aserve docs attached`",
        "systemd can start such services, too; this is for programs of the app, changed together with the app.",
        secret=show_program,
        needs=REPLACED,
    )
    cron: Sequence[str] = row(
        (), "Processes", "--cron", TIMED,
        "a command to run beside the workers at times, as in a crontab, one run at a time: '0 3 * * * ./manage.py "
        "clearsessions'; repeatable; see `aserve docs attached`",
        "cron and systemd can run commands, too; this is for commands of the app, changed together with the app.",
        secret=show_timed,
        needs=REPLACED,
    )
    # fmt: on
