"""The processes that do jobs, as a supervisor sees them.

Owns:     Spoolers, the part of --spooler in a supervisor; SpoolerProcess, one process.
Thread:   the supervisor's only one.
Not here: starting and ending processes (processes/programs/attached.py), the pages on which they report (pages.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....lifecycle.program import Program, name_programs
from ....lifecycle.supervision import Supervision
from .settings import SpoolerSettings

if TYPE_CHECKING:
    from .pages import JobPages

SPOOLER = "spooler"
SPOOLER_VARIABLE = "ASERVE_DOES_JOBS_OF"  # the folder, for the process that does its jobs


class Spoolers(Supervision):
    """All processes of --spooler."""

    def __init__(self, words: Sequence[str], kept: Mapping[str, int]) -> None:
        """`words`: of the supervisor's command, which is that of a spooler, too; `kept`: see SupervisorContext."""
        self._words, self._kept = words, kept
        self._pages: JobPages | None = None  # no settings have named a folder so far
        self._folders: Sequence[str] = ()

    def programs(self, config: Any) -> Sequence[Program]:
        """Return a program for each process."""
        self._folders = config.spooler
        folders = [folder for folder in config.spooler for _ in range(config.spooler_processes)]
        programs = name_programs(Program(SPOOLER, tuple(self._words)) for _ in folders)
        if programs and self._pages is None:
            from .pages import JobPages  # most sites have no jobs

            self._pages = JobPages(self._kept)
        if self._pages is None:
            return []
        pages = self._pages
        pages.follow([program.name for program in programs])
        return [
            program._replace(own=SpoolerProcess(program.name, folder, pages, config))
            for program, folder in zip(programs, folders)
        ]

    def status(self) -> Mapping[str, Any]:
        """Return how many jobs wait, and have ended; None: there is no spooler."""
        return {"jobs": self._pages.describe(self._folders) if self._pages is not None else None}


class SpoolerProcess:
    """One process: an Own (lifecycle/program.py)."""

    def __init__(self, name: str, folder: str, pages: JobPages, config: SpoolerSettings) -> None:
        self.fds: Sequence[int] = [pages.fd]
        self.may_end = bool(config.spooler_max_jobs)
        self._name, self._folder, self._pages = name, folder, pages
        self._limit = config.spooler_seconds

    def variables(self) -> Mapping[str, str]:
        """Return the variables by which the process finds its folder and its page."""
        return {SPOOLER_VARIABLE: self._folder, **self._pages.variables(self._name)}

    def on_end(self) -> None:
        """Note that its running job has failed."""
        self._pages.on_end(self._name)

    def overdue(self) -> str:
        """Say that its job takes too long; it is then done again."""
        job = self._pages.overdue(self._name, self._limit) if self._limit else None
        return f"has been at {job[0]} for {job[1]:.0f} s (--spooler-timeout)" if job is not None else ""
