"""The settings of jobs in folders.

Owns:     SpoolerSettings; the form of a queue's name.
Thread:   any; pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.patterns import lazy_pattern
from ....settings import REPLACED, ConfigError, Needs, row
from ....settings.kinds import MODULES, PATHS, count, duration
from ....settings.paths import Base, whole
from ..settings import UwsgiSettings

QUEUE = "shared:"  # the prefix of a queue's name in --spooler
QUEUE_NAME = lazy_pattern(r"shared:[A-Za-z0-9_.-]{1,100}\Z")
_SPOOLER = Needs(("spooler",))


def whole_spool(text: str, base: Base) -> str:
    """Return the absolute folder of a spooler, or the name of a shared queue."""
    return text if text.startswith(QUEUE) else whole(text, base)


class SpoolerSettings(UwsgiSettings):
    """The settings of this feature."""

    # fmt: off
    spooler: Sequence[str] = row(
        (), "Processes", "--spooler", PATHS,
        "folder of jobs, added by the app with uwsgi.spool or @spool, and done by separate processes; or shared:NAME, a queue "
        "of all hosts in --shared; repeatable; see `aserve docs spooler`",
        "For apps written for uWSGI, and any app with few jobs. A task queue does more.",
        needs=REPLACED,
        path=whole_spool,
    )
    spooler_processes: int = row(
        1, "Processes", "--spooler-processes", count(1, 64),
        "processes for the jobs of each --spooler",
        "uWSGI's default: a job at a time.",
        needs=_SPOOLER,
    )
    spooler_seconds: float = row(
        0.0, "Processes", "--spooler-timeout", duration(0.0),
        "how long a job of --spooler may take; then the job's process is killed, and the job is done again; 0: any time",
        "Only you know how long a job may take, and the remains of a job cut off.",
        needs=_SPOOLER,
    )
    spooler_max_jobs: int = row(
        0, "Processes", "--spooler-max-jobs", count(0, 1_000_000_000),
        "jobs before a process of --spooler is replaced by a new process; 0: any number",
        "As for --max-requests: only an app with leaks needs a limit.",
        needs=_SPOOLER,
    )
    spooler_import: Sequence[str] = row(
        (), "Processes", "--spooler-import", MODULES,
        "module, or file of Python, imported by processes of --spooler after the app; repeatable",
        "The app mostly imports the jobs by itself.",
        needs=_SPOOLER,
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if self.spooler and self.uwsgi_module == "off":
            raise ConfigError("--spooler is for apps that import uwsgi, which --uwsgi-module off prevents")
        for folder in self.spooler:
            if folder.startswith(QUEUE) and (not self.shared or not QUEUE_NAME.match(folder)):
                raise ConfigError(
                    f"--spooler {folder}: shared:NAME needs --shared, and a name of letters, digits, _, . and -"
                )
