"""The page of a worker, as shared by its supervisor (aserve/processes/children/pages.py), for a test to read and to write.

A test that halts a worker writes there when its event loop has last ticked: so the test decides for how long it seems to turn, and not the test's own
duration.
"""

import mmap
import os
import time
from collections.abc import Iterator

from aserve.connections.load_board import Load
from aserve.core.page import PAGE_BYTES, Field

HOUR_NS = 3600 * 10**9


class SharedPages:
    """The pages of one supervisor's workers."""

    def __init__(self, supervisor: int) -> None:
        folder = f"/proc/{supervisor}/fd"
        names = [name for name in os.listdir(folder) if "aserve-pages" in os.readlink(f"{folder}/{name}")]
        with open(f"{folder}/{names[0]}", "r+b") as file:
            self._memory = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def of(self, worker: int) -> memoryview:
        """Return the page of this process, as words by Field."""
        return next(page for page in self if page[Field.PID] == worker)

    def __iter__(self) -> Iterator[memoryview]:
        size = PAGE_BYTES // self._memory.itemsize
        return (self._memory[at : at + size] for at in range(size, len(self._memory), size))

    @property
    def connections(self) -> list[int]:
        """The workers' numbers of connections, as they show one another."""
        loads = [Load.of(page[Field.LOAD]) for page in self if page[Field.PID]]
        return sorted(load.connections for load in loads if load)


def let_turn(page: memoryview) -> None:
    """Let the event loop of a halted worker seem to turn, for an hour."""
    page[Field.TICKED_AT] = time.monotonic_ns() + HOUR_NS


def let_hang(page: memoryview) -> None:
    """Let the worker seem to hang."""
    page[Field.TICKED_AT] = 1
