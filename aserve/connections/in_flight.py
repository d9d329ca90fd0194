"""The running requests of a process, in memory readable by other processes, even after a crash.

Owns:     the table, in memory shared by the caller with readers; InFlight, the exchanges of the event loop's wires, in this table and on the load
          board; read_used, read_in_flight, read_oldest.
Thread:   `begin`, `refresh`: event loop; `end`: the thread that ends the exchange.
Not here: the requests of the lane, recorded in C by descriptor (cparsers/in_flight.h).
"""

from __future__ import annotations

import os
import struct
import time
from typing import Any

from .._cparsers import ffi, lib
from ..core.exchange import Exchange, escape
from .load_board import LoadBoard
from .shared_memory import pointer_to

# The room of the lane's tables; connections with higher descriptors stay out of the lane.
MAX_DESCRIPTORS = 1 << 16
# The places in the table for exchanges of the event loop's wires. Guess.
LOOP_COUNT = 1024
# The table: a word, the highest descriptor used by the lane so far, + 1; the entries of the event loop; those of the lane, by descriptor.
_ENTRIES_AT = 8
# The size of a table. The memory must be zero-filled at first; the system gives only used pages.
TABLE_BYTES: int = _ENTRIES_AT + (LOOP_COUNT + MAX_DESCRIPTORS) * ffi.sizeof("in_flight_entry")

_ENTRY = struct.Struct(f"={lib.IN_FLIGHT_TEXT_CAP}sQ")
_SINCE = struct.Struct("=Q")


class InFlight:
    """
    The exchanges of the event loop's wires, in the view of other processes.

    In Python, unlike the lane's in C: each call into C releases the GIL, maybe to a worker. Measured 2026-11-22 on CPython: 0.8 us for the board,
    and as much for the table, of 22 us for a small request.
    """

    def __init__(self, board: LoadBoard | None, memory: Any = None) -> None:
        """`memory`: an mmap of TABLE_BYTES, or a memoryview of one; None: no process reads the table."""
        self._board = board
        self._memory = memory
        self._free = [] if memory is None else list(reversed(range(LOOP_COUNT)))

    def begin(self, exchange: Exchange) -> None:
        """Record an exchange: from now on waiting for a worker."""
        if self._board is not None:
            self._board.begin(exchange)
        exchange.entry = -1
        if self._free:
            number = exchange.entry = self._free.pop()
            text = exchange.method_and_target.encode("latin-1")
            _ENTRY.pack_into(self._memory, _place_of(number), text, time.monotonic_ns() // 1000)

    def refresh(self, exchange: Exchange) -> None:
        """Restart the exchange's clock: a moving response must not look like a hanging request."""
        number = exchange.entry
        if number is None or number < 0:
            return
        place = _place_of(number) + lib.IN_FLIGHT_TEXT_CAP
        _SINCE.pack_into(self._memory, place, time.monotonic_ns() // 1000)
        if exchange.entry is None:  # ended by a worker meanwhile; only this thread may begin another there
            _SINCE.pack_into(self._memory, place, 0)

    def end(self, exchange: Exchange) -> None:
        """Remove an exchange: the response is with the transport, or lost."""
        number, exchange.entry = exchange.entry, None
        if number is None:
            return
        if self._board is not None:
            self._board.end(exchange)
        if number >= 0:
            _SINCE.pack_into(self._memory, _place_of(number) + lib.IN_FLIGHT_TEXT_CAP, 0)
            self._free.append(number)


def _place_of(number: int) -> int:
    return _ENTRIES_AT + number * _ENTRY.size


def lane_entries(memory: Any) -> tuple[Any, Any]:
    """Return the lane's part of a table: pointers to the highest descriptor so far, + 1, and to the first entry."""
    octets = pointer_to("char *", memory)
    return ffi.cast("uint64_t *", octets), ffi.cast("in_flight_entry *", octets + _place_of(LOOP_COUNT))


def read_used(fd: int) -> bytes:
    """Return the used part of the table in this file, for `read_in_flight`: all the memory of a table is megabytes."""
    (lane_count,) = _SINCE.unpack(os.pread(fd, _ENTRIES_AT, 0))
    return os.pread(fd, min(_place_of(LOOP_COUNT + lane_count), TABLE_BYTES), 0)


def read_in_flight(memory: Any) -> list[tuple[float, str]]:
    """
    Return the running requests of a process, or of a dead one at the end: age in seconds, and "METHOD target", escaped for a log.

    The longest first. `memory` is the table of that process.
    """
    (lane_count,) = struct.unpack_from("=Q", memory)
    now = time.monotonic_ns() // 1000
    with memoryview(memory) as view:
        used = view[_ENTRIES_AT : _place_of(LOOP_COUNT + lane_count)]
        return sorted(
            (
                ((now - since) / 1e6, escape(text.partition(b"\0")[0].decode("latin-1")))
                for text, since in _ENTRY.iter_unpack(used)
                if since
            ),
            reverse=True,
        )


def read_oldest(fd: int) -> float:
    """Return the age of a process's oldest running request in seconds; 0: none. `fd`: of the file of the table."""
    first = (_ENTRIES_AT + lib.IN_FLIGHT_TEXT_CAP) // _SINCE.size
    with memoryview(read_used(fd)) as view:
        times = view.cast("Q")[first :: _ENTRY.size // _SINCE.size].tolist()
    since = min(filter(None, times), default=0)
    return max(time.monotonic_ns() // 1000 - since, 0) / 1e6 if since else 0.0
