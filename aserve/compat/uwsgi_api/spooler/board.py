"""The reports of a spooler process to the supervisor: its present job, and the results of earlier ones.

Owns:     Page, the layout of the shared memory; its environment variable.
Thread:   the main thread of a spooler, and the supervisor's only one: each word has one writer at a time.
Not here: the memory of all pages, and reading it (pages.py), jobs (runner.py).
"""

from __future__ import annotations

import mmap
import os
import time
from typing import Callable

PAGE_VARIABLE = "ASERVE_SPOOLER_PAGE"  # the descriptor and number of a spooler's page
PAGE_BYTES = 512
RESULTS = ("done", "failed", "retried")  # in the order of the page's words
_BEGAN_AT, _NAME_BYTES, _NAME = len(RESULTS), 4, 5  # then the name
_MAX_NAME_BYTES = PAGE_BYTES - 8 * _NAME


class Page:
    """The page of one process; its counts include those of the processes before it."""

    def __init__(self, memory: memoryview | None = None) -> None:
        """Without memory, the page has no reader."""
        self._octets = memory if memory is not None else memoryview(bytearray(PAGE_BYTES))
        self._words = self._octets[: 8 * _NAME].cast("Q")

    @classmethod
    def inherited(cls, text: str, map_file: Callable[[int], mmap.mmap]) -> Page:
        """Return the page that the supervisor has assigned to this process; "": a page without a reader."""
        if not text:
            return cls()
        fd, number = map(int, text.split(","))
        memory = memoryview(map_file(fd))
        os.close(fd)
        return cls(memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])

    def begin(self, name: str) -> None:
        """Note that a job begins."""
        octets = name.encode("utf-8", "backslashreplace")[:_MAX_NAME_BYTES]
        self._octets[8 * _NAME : 8 * _NAME + len(octets)] = octets
        self._words[_NAME_BYTES] = len(octets)
        self._words[_BEGAN_AT] = time.monotonic_ns()  # last: a reader then finds the name

    def end(self, result: str) -> None:
        """Note that the job has ended with this result."""
        self._words[_BEGAN_AT] = 0
        self._words[RESULTS.index(result)] += 1

    def job(self) -> tuple[str, float] | None:
        """Return the running job, and its seconds so far; None: none runs."""
        began_at = self._words[_BEGAN_AT]
        if not began_at:
            return None
        octets = bytes(self._octets[8 * _NAME : 8 * _NAME + self._words[_NAME_BYTES]])
        return octets.decode("utf-8", "replace"), (time.monotonic_ns() - began_at) / 1e9
