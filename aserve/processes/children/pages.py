"""The pages of the workers, in memory shared by all processes.

Owns:     Pages: the pages, and the set of taken pages.
Thread:   the supervisor's only one takes pages and gives pages back; each word is written by one process, and read by any.
Not here: the words of a page (../core/page.py), writing pages (children.py, worker.py), conclusions.

Each worker has a page, also while worker and successor are both in a slot. The page can be read when the worker hangs or has died. The pages are
a file in memory, so that a page is still there when the supervisor has become a new program (upgrade.py). A word is written as a whole if the
machine does so, as CPython leaves the write to the machine; PyPy writes octet by octet, so that a word read once a second may, very rarely, be
halfway between two numbers.
"""

from __future__ import annotations

import os
import sys

from ...connections.load_board import NOBODY, LoadBoard
from ...core.memory_file import map_memory_file, open_memory_file
from ...core.page import PAGE_BYTES, WORD_BYTES, Field


class Pages:
    """The pages. The first word of number 0 is the number behind the highest taken page."""

    def __init__(self, count: int, fd: int | None = None, expected: int = 0) -> None:
        """
        Make `count` pages, all of them free; or use all pages of a file: `reserve` the taken pages.

        `top` covers the first `expected` pages in any case.
        """
        self.fd = fd if fd is not None else _new_file(count)
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
        """The number behind the highest taken page: look at the pages from 1 on, and at PID there."""
        return self._head[0]

    def page(self, number: int) -> memoryview:
        """Return a page, as words by Field."""
        return self._memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES].cast("Q")

    def take(self) -> int:
        """
        Return the number of a free page; all words are 0, but LOAD is NOBODY.

        Raises:
            OSError: all pages are taken.
        """
        if not self._free:
            raise OSError(f"all {len(self._memory) // PAGE_BYTES - 1} pages of shared memory are taken")
        number = min(self._free)
        self._free.discard(number)
        self.page(number)[Field.LOAD] = NOBODY  # before any process looks at the word
        self._head[0] = max(self.top, number + 1)
        return number

    def reserve(self, number: int) -> None:
        """Record that a worker has this page already."""
        self._free.discard(number)

    def give_back(self, number: int) -> memoryview:
        """Clear a page whose worker has ended; return the last words."""
        last = memoryview(bytearray(self.page(number).tobytes())).cast("Q")
        cleared = memoryview(bytearray(PAGE_BYTES)).cast("Q")
        cleared[Field.LOAD] = NOBODY
        self._memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES] = cleared.cast("B")
        self._free.add(number)
        while self.top > self._lowest_top and self.top - 1 in self._free:
            self._head[0] -= 1
        return last

    def new_board(self, number: int) -> LoadBoard:
        """Return the load board of all pages, for the worker of this page; call `look_at` of the board with `top` - 1 again and again."""
        stride = PAGE_BYTES // WORD_BYTES
        words = self._memory.cast("Q")
        board = LoadBoard(words, number - 1, self._count, stride=stride, first=stride + Field.LOAD)
        board.look_at(self.top - 1)  # the rest was never taken: the words are no loads
        return board


def _new_file(count: int) -> int:
    fd = open_memory_file("aserve-pages")
    os.truncate(fd, (count + 1) * PAGE_BYTES)  # a page takes no memory until written to
    os.pwrite(fd, (1).to_bytes(WORD_BYTES, sys.byteorder), 0)
    return fd
