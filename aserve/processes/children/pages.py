"""The pages of the workers, in memory that all processes share.

Owns:     Pages: the pages, and which of them are taken.
Thread:   the supervisor's only one takes pages and gives them back; each word is written by one process, and read by any.
Not here: the words of a page (../core/page.py), writing them (children.py, worker.py), conclusions from them.

A page is a worker's own, also while it and its successor are both in one slot. It can be read when its worker hangs or has
died. It is in a file in memory, so that it is still there when the supervisor has become another program (upgrade.py).
A word is written as a whole if the machine does so, which CPython leaves to it; PyPy writes octet by octet, so that
a word that is read once a second may, very rarely, be halfway between two numbers.
"""

from __future__ import annotations

import os
import sys
from typing import Callable

from ...connections.load_board import NOBODY, LoadBoard
from ...core.memory_file import map_memory_file, open_memory_file
from ...core.page import PAGE_BYTES, WORD_BYTES, Field


class Pages:
    """The pages. Number 0 has in its first word the number behind the highest that is taken."""

    def __init__(self, count: int, fd: int | None = None, expected: int = 0) -> None:
        """
        Make `count` pages, all of them free; or use the pages of a file, as many as it has: `reserve` those that are taken.

        `top` covers the first `expected` pages in any case.
        """
        self.fd = fd if fd is not None else _new_file(count)
        # Called with the slot and the page of a worker that has ended, before it is cleared.
        self.on_given_back: Callable[[int, memoryview], None] = lambda slot, page: None
        self._memory = memoryview(map_memory_file(self.fd))
        self._count = len(self._memory) // PAGE_BYTES - 1
        self._free = set(range(1, self._count + 1))
        self._head = self.page(0)
        self._lowest_top = expected + 1
        for number in range(self._head[0], expected + 1):
            self.page(number)[Field.LOAD] = NOBODY
        self._head[0] = max(self.top, self._lowest_top)

    @property
    def top(self) -> int:
        """The number behind the highest page that is taken: look at those from 1 on, and at their PID."""
        return self._head[0]

    def page(self, number: int) -> memoryview:
        """Return a page, as words by Field."""
        return self._memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES].cast("Q")

    def take(self) -> int:
        """
        Return the number of a free page; all of it is 0, but LOAD is NOBODY.

        Raises:
            OSError: all pages are taken.
        """
        if not self._free:
            raise OSError(f"all {len(self._memory) // PAGE_BYTES - 1} pages of shared memory are taken")
        number = min(self._free)
        self._free.discard(number)
        self.page(number)[Field.LOAD] = NOBODY  # before any process looks at it
        self._head[0] = max(self.top, number + 1)
        return number

    def reserve(self, number: int) -> None:
        """Record that a worker has this page already."""
        self._free.discard(number)

    def give_back(self, number: int) -> None:
        """Clear a page whose worker has ended; see `on_given_back`."""
        page = self.page(number)
        if page[Field.SLOT]:
            self.on_given_back(page[Field.SLOT], page)
        cleared = memoryview(bytearray(PAGE_BYTES)).cast("Q")
        cleared[Field.LOAD] = NOBODY
        self._memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES] = cleared.cast("B")
        self._free.add(number)
        while self.top > self._lowest_top and self.top - 1 in self._free:
            self._head[0] -= 1

    def new_board(self, number: int) -> LoadBoard:
        """Return the load board of all pages, for the worker of this one; call its `look_at` with `top` - 1 again and again."""
        stride = PAGE_BYTES // WORD_BYTES
        words = self._memory.cast("Q")
        board = LoadBoard(words, number - 1, self._count, stride=stride, first=stride + Field.LOAD)
        board.look_at(self.top - 1)  # the others were never taken: their words are no loads
        return board


def _new_file(count: int) -> int:
    fd = open_memory_file("aserve-pages")
    os.truncate(fd, (count + 1) * PAGE_BYTES)  # a page takes no memory until it is written to
    os.pwrite(fd, (1).to_bytes(WORD_BYTES, sys.byteorder), 0)
    return fd
