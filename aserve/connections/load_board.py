"""The load of the processes with a common listener: the process with the least to do accepts.

Owns:     LoadBoard, one process's view of the board: the process's word, and the number of connections to accept now; Load, the content of a word.
Thread:   event loop; `end` also a worker's.
Not here: the rules (cparsers/load_board.h); the callers (acceptor.py, cparsers/lane_accept.c); the memory, from the caller and common to all of the
          processes.
"""

from __future__ import annotations

from typing import Any

from .._cparsers import ffi, lib
from ..core.named_tuple import NamedTuple
from .shared_memory import pointer_to

NOBODY = (1 << 64) - 1  # the word of a process that accepts no more, or does not exist
# The time of a listener left to processes with less to do. The lane's time is the same.
REST_SECONDS = 0.001

_CONN, _REQUEST, _TURN = lib.LOAD_CONN_SHIFT, lib.LOAD_REQUEST_SHIFT, lib.LOAD_TURN_SHIFT
_COUNT_MASK = (1 << lib.LOAD_COUNT_BITS) - 1


class Load(NamedTuple):
    """The load of one process, by the process's word."""

    connections: int  # open
    requests: int  # running, or waiting for a worker
    turns: int  # connections accepted so far, or passed up; modulo 2**24

    @classmethod
    def of(cls, word: int) -> Load | None:
        """Decode a word; None: NOBODY."""
        if word == NOBODY:
            return None
        return cls(word >> _CONN & _COUNT_MASK, word >> _REQUEST & _COUNT_MASK, word >> _TURN)


class LoadBoard:
    """
    One process's place among those with the same listeners.

    `words` is shared by all of them, a memoryview of format "Q"; process `index` of `count` has words[first + index * stride]. The process that
    makes the memory fills it with NOBODY, and writes NOBODY in place of a dead process.
    """

    def __init__(self, words: memoryview, index: int, count: int, *, stride: int = 1, first: int = 0) -> None:
        if words.format != "Q" or not 0 <= index < count or len(words) <= first + (count - 1) * stride:
            raise ValueError(f"no place {index} of {count} in {len(words)} words of format {words.format!r}")
        self._words = words  # keeps the memory
        self._waits = ffi.new("load_wait[]", count)
        board: Any = ffi.new("load_board *")
        self.struct: Any = board  # for the lane
        board.words, board.waits = pointer_to("uint64_t *", words) + first, self._waits
        board.stride, board.count, board.index = stride, count, index
        self._most = count
        self._place = first + index * stride
        self._turns = self._turns_and_connections = 0
        self._exchanges: dict[int, None] = {}  # by id(): exchanges outside of the lane

    def open(self, threads: int) -> None:
        """Show this process from now on, with room for `threads` requests at once."""
        self.struct.threads = threads
        self.struct.own = self.struct.is_left = 0
        self._turns = self._turns_and_connections = 0
        self._exchanges.clear()
        self._show()

    def look_at(self, count: int) -> None:
        """Look only at the first `count` processes; the board may have room for more than there are."""
        self.struct.count = min(count, self._most)

    def leave(self) -> None:
        """Take this process off the board: no more accepts. Repeat until all is over; see load_board.h."""
        lib.load_board_leave(self.struct)

    def quota(self) -> int:
        """Return the number of connections to accept now; 0: leave them to other processes for REST_SECONDS."""
        return lib.load_board_quota(self.struct)

    def is_due(self) -> bool:
        """Whether the quota is more than 0 by now, for a resting acceptor."""
        return bool(lib.load_board_is_due(self.struct))

    def free_threads(self) -> list[tuple[int, int]]:
        """Return the processes with fewer requests than threads, but for this one: the place and the word of each."""
        words, struct = self._words, self.struct
        step = struct.stride
        first = self._place - struct.index * step
        places = [(place, words[first + place * step]) for place in range(struct.count) if place != struct.index]
        loads = [(place, word, Load.of(word)) for place, word in places]
        return [(place, word) for place, word, load in loads if load and load.requests < struct.threads]

    # Outside of the lane, whose C counts by itself. No call into C: each releases the GIL.

    def count_turn(self) -> None:
        """Count an accepted connection."""
        self._turns += 1

    def set_connections(self, count: int) -> None:
        """Show how many connections are open."""
        self._turns_and_connections = self._turns << _TURN | count << _CONN
        self._show()

    def begin(self, exchange: object) -> None:
        """Count an exchange: from now on running or waiting."""
        self._exchanges[id(exchange)] = None
        self._show()

    def end(self, exchange: object) -> None:
        self._exchanges.pop(id(exchange), None)
        self._show()

    def _show(self) -> None:
        board = self.struct
        outside = board.outside = self._turns_and_connections + (len(self._exchanges) << _REQUEST) & NOBODY
        if not board.is_left:
            self._words[self._place] = board.own + outside & NOBODY
