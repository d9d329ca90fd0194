"""The supervisor's view of spooler processes (--spooler): results of jobs, overdue jobs, waiting jobs.

Owns:     JobPages: the memory of their pages, which survives their ends, and the supervisor's exec.
Thread:   the supervisor's only one.
Not here: the form of a page (board.py), starting and ending those processes (supervising.py, processes/programs/attached.py), jobs themselves (runner.py).

A supervisor imports this only if there is a spooler process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ....core.memory_file import KEPT, map_memory_file, open_memory_file
from .board import PAGE_BYTES, PAGE_VARIABLE, RESULTS, Page
from .folder import count_jobs
from .settings import QUEUE

NAME = "aserve-spoolers"
# Guess: more spooler processes than any site has; those beyond are not counted. Unwritten pages take no memory.
MAX_PAGES = 1024


class JobPages:
    """The pages of the spooler processes, in the order of the settings."""

    def __init__(self, kept: Mapping[str, int] = {}) -> None:
        """
        Make the pages, or take over those of the previous process, if `kept` has them.

        Raises:
            OSError: no descriptor is left.
        """
        self.fd = kept[NAME] if NAME in kept else open_memory_file(NAME)
        if NAME not in kept:
            os.truncate(self.fd, MAX_PAGES * PAGE_BYTES)
        KEPT[NAME] = self.fd
        self._memory = memoryview(map_memory_file(self.fd))
        self._pages: dict[str, Page] = {}  # by the name of a process
        self._numbers: dict[str, int] = {}

    def follow(self, names: Sequence[str]) -> None:
        """Assign a page to each of these names."""
        self._numbers = {name: number for number, name in enumerate(names[:MAX_PAGES])}
        self._pages = {name: Page(self._page(number)) for name, number in self._numbers.items()}

    def _page(self, number: int) -> memoryview:
        return self._memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment variables by which a new process finds its page."""
        self.on_end(name)  # of an earlier process of this name
        return {PAGE_VARIABLE: f"{self.fd},{self._numbers[name]}"} if name in self._numbers else {}

    def on_end(self, name: str) -> None:
        """Note that a process has ended: its running job has failed."""
        page = self._pages.get(name)
        if page is not None and page.job() is not None:
            page.end("failed")

    def overdue(self, name: str, seconds: float) -> tuple[str, float] | None:
        """Return the job at which a process has been for longer than `seconds`, and for how long; None: it is at none."""
        page = self._pages.get(name)
        job = page.job() if page is not None else None
        return job if job is not None and job[1] > seconds else None

    def describe(self, folders: Sequence[str]) -> dict[str, Any]:
        """Return the number of ended jobs by result, since the start, and of waiting jobs by folder, but not of queues, which hosts share."""
        words = self._memory.cast("Q")  # all pages: also of processes that are no longer in the settings
        return {
            "ended": {result: sum(words[number :: PAGE_BYTES // 8]) for number, result in enumerate(RESULTS)},
            "waiting": {folder: count_jobs(folder) for folder in folders if not folder.startswith(QUEUE)},
        }
