"""The memory of a lane's C code: its structure, the table of connections, and the memory for a batch.

Owns:     Memory, and the size of each part; Arrival: the values that C writes for each event of a connection, by their names.
Thread:   made on the event loop; then used by the C code, and by the leader, which reads the arrivals of a poll.
Not here: its use (lane.py; cparsers/lane.h).
"""

from __future__ import annotations

import mmap
import struct
import time
from typing import Any

from ..._cparsers import ffi, lib
from ...core.exchange import LEAVING_SECONDS
from ...core.named_tuple import NamedTuple
from ...protocols.http2 import section_bytes
from ...protocols.one_request import FRONT_VARS
from ...settings import EngineSettings
from ...workers.executor import STALL_SECONDS
from ..in_flight import MAX_DESCRIPTORS, lane_entries
from ..limit import descriptor_limit
from ..listeners import Listener
from ..load_board import LoadBoard

CODES = {"http": lib.LANE_HTTP, "https": lib.LANE_HTTP, "uwsgi": lib.LANE_UWSGI, "scgi": lib.LANE_SCGI}

# The most requests that one call returns. Guess: a batch is rarely larger, and 64 requests are 1 ms of work.
BATCH_COUNT = 64
# Octets read from one connection by one read: a head and a body of a usual form, or the
# 71,453 octets of the echo in benchmarks/. A body of known length comes in parts; a head does not.
READ_BYTES = 1 << 17
# The same for a whole batch: more would not stay in a CPU's cache until the app reads it. Measured 2026-11-21
# with that echo, beside uWSGI in the same run: 0.78 to 0.86 times its requests per CPU second; with twice
# as much 0.54 to 0.70, with half 0.60 to 0.70.
BATCH_BYTES = 4 * READ_BYTES
CONN_BYTES: int = ffi.sizeof("lane_conn")
KNOWN_BYTES: int = lib.LANE_KNOWN * ffi.sizeof("known_section")  # 1.2 MB; the kernel gives only used pages


class Arrival(NamedTuple):
    """A request, a part of a request, or another event of a connection: lane_arrival of cparsers/lane.h."""

    content_length: int
    fd: int
    consumed: int
    input_off: int
    input_len: int
    vars_off: int
    vars_len: int
    nfirst: int
    flags: int
    modifier1: int
    listener: int
    kind: int
    is_first: int
    peer_off: int
    peer_len: int
    carrier: int


_LETTERS = {"uint64_t": "Q", "int32_t": "i", "uint32_t": "I"}
_FIELDS = ffi.typeof("lane_arrival").fields
assert tuple(name for name, _ in _FIELDS) == Arrival._fields, "_cparsers is another version's"
ARRIVAL_BYTES: int = ffi.sizeof("lane_arrival")
_unpack = struct.Struct("@" + "".join(_LETTERS[field.type.cname] for _, field in _FIELDS) + "0Q").iter_unpack
_new = tuple.__new__  # a half of what `Arrival._make` costs


def arrivals_of(octets: Any) -> list[Arrival]:
    """Return the arrivals that C has written into a table."""
    return [_new(Arrival, values) for values in _unpack(octets)]


def kept_body_bytes(config: EngineSettings) -> int:
    """Return the most octets of a body that the lane keeps over HTTP/2: in memory, and with room in a batch."""
    return min(max(READ_BYTES, config.body_memory_bytes), BATCH_BYTES)


def _raise_trim_threshold(octets: int) -> None:
    """
    Let the C library keep twice this much freed memory, instead of giving it to the kernel at once.

    The bodies of a batch come and go together, and glibc returns what is free at the end of a heap above
    128 KiB; each page is then a fault again (measured: 7 for each request of 71 KB, a sixth of its price).
    The limit rises by itself to twice the largest block ever freed (mallopt(3), M_MMAP_THRESHOLD).
    """
    bytes(octets)


def _new_table(octets: int) -> mmap.mmap:
    # Python's default would share it with processes that the app forks.
    return mmap.mmap(-1, octets, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Memory:
    """The C structure of the lane, and the memory that it points to."""

    def __init__(
        self, config: EngineSettings, listeners: list[Listener], board: LoadBoard | None = None, in_flight: Any = None,
        carries: bool = False,
    ) -> None:  # fmt: skip
        """Make it; `carries`: HTTP/2, too; `board` and `in_flight` (see InFlight) are shared with other processes."""
        _raise_trim_threshold(BATCH_BYTES)
        vars_bytes = 2 * config.max_head_bytes + 1024 + BATCH_COUNT * 4096
        # Not cleared, so that the kernel gives only the pages that are used.
        new = ffi.new_allocator(should_clear_after_alloc=False)
        self._input = new("char[]", BATCH_BYTES)
        self._vars = new("char[]", vars_bytes)
        self._arrivals = new("lane_arrival[]", BATCH_COUNT)
        self.listeners = ffi.new("lane_listener[]", len(listeners))
        self._conns = ffi.from_buffer("lane_conn[]", _new_table(MAX_DESCRIPTORS * CONN_BYTES))
        self._known = ffi.from_buffer("known_section[]", _new_table(KNOWN_BYTES))
        self.views = (
            ffi.buffer(self._input, BATCH_BYTES),
            ffi.buffer(self._vars, vars_bytes),
            ffi.buffer(self._arrivals, BATCH_COUNT * ARRIVAL_BYTES),
        )
        for struct_, listener in zip(self.listeners, listeners):
            struct_.fd = listener.socket.fileno()
            struct_.protocol = CODES[listener.bind.protocol]
            struct_.is_tcp, struct_.is_tls = listener.bind.kind == "tcp", listener.bind.protocol == "https"
        set = self.set = ffi.new("lane *")
        set.listeners, set.nlisteners = self.listeners, len(listeners)
        set.conns, set.conns_cap = self._conns, MAX_DESCRIPTORS
        set.known = self._known
        if any(listener.bind.protocol == "https" for listener in listeners):
            self._sessions = ffi.from_buffer("tls_session *[]", _new_table(MAX_DESCRIPTORS * ffi.sizeof("void *")))
            set.sessions = self._sessions
        if carries:
            set.first_stream = min(MAX_DESCRIPTORS - lib.LANE_STREAMS, descriptor_limit() or MAX_DESCRIPTORS)
            self._h2 = lib.lane_h2_new(section_bytes(config.max_head_bytes, config.max_fields))
            set.h2 = self._h2 = ffi.gc(self._h2, lib.lane_h2_free)
        set.input, set.input_cap, set.read_cap = self._input, BATCH_BYTES, READ_BYTES
        set.body_cap = kept_body_bytes(config)
        set.vars, set.vars_cap = self._vars, vars_bytes
        set.arrivals, set.arrivals_cap = self._arrivals, BATCH_COUNT
        set.max_line_len = config.max_request_line_bytes
        set.max_head_len = config.max_head_bytes
        set.max_fields = config.max_fields
        set.max_vars = config.max_fields + FRONT_VARS
        set.max_body_len = config.max_body_bytes
        set.now_at = int(time.monotonic())
        set.leaving_seconds = 0 if config.keep_half_closed else LEAVING_SECONDS
        set.stall_us = 0 if config.threads == 0 else round(1e6 * STALL_SECONDS)
        set.epoll_fd = set.wake_fd = set.stall_fd = set.rest_fd = -1
        self._board = board
        if board is not None:
            set.board = board.struct
        if in_flight is not None:
            self._in_flight = in_flight  # kept
            set.entries_used, set.entries = lane_entries(in_flight)
