"""The memory of a lane's C has the set sizes."""

import mmap

import pytest
from harness.apps import hello

from aserve._cparsers import ffi, lib
from aserve.connections.in_flight import MAX_DESCRIPTORS, TABLE_BYTES, read_in_flight
from aserve.connections.lane.lane_memory import (
    ARRIVAL_BYTES,
    BATCH_BYTES,
    BATCH_COUNT,
    CONN_BYTES,
    READ_BYTES,
    Arrival,
    Memory,
    arrivals_of,
)  # fmt: skip
from aserve.connections.load_board import LoadBoard
from aserve.features import Config


def test_its_parts_are_the_same_memory():
    """Python's views are the memory that C is told of."""
    config = Config(max_head_bytes=10_000, threads=0)
    memory = Memory(config, [])
    set, (input, vars, arrivals) = memory.set, memory.views
    assert (set.input_cap, set.read_cap, set.arrivals_cap) == (BATCH_BYTES, READ_BYTES, BATCH_COUNT)
    assert (len(input), len(vars)) == (set.input_cap, set.vars_cap) and set.vars_cap > 2 * config.max_head_bytes
    assert len(arrivals) == BATCH_COUNT * ffi.sizeof("lane_arrival")
    set.input[0], set.arrivals[1].fd = b"x", 7
    assert input[0] == b"x" and 7 in memoryview(arrivals).cast("i").tolist()
    assert set.body_cap == config.body_memory_bytes == 1 << 19
    assert Memory(Config(body_memory_bytes=0), []).set.body_cap == READ_BYTES
    assert set.max_head_len == 10_000 and set.stall_us == 0 and set.epoll_fd == -1


def test_the_table_begins_empty():
    """The table begins empty, with a place for each descriptor."""
    memory = Memory(Config(), [])
    set = memory.set
    assert set.conns_cap == MAX_DESCRIPTORS and ffi.sizeof("lane_conn") == CONN_BYTES
    assert {set.conns[fd].state for fd in range(0, MAX_DESCRIPTORS, 999)} == {0} and set.stall_us > 0


def test_what_other_processes_share():
    """C gets the board, and its part of the table; without them C has neither."""
    set = Memory(Config(), []).set
    assert not set.board and not set.entries and not set.entries_used
    board, table = LoadBoard(memoryview(mmap.mmap(-1, 8)).cast("Q"), 0, 1), mmap.mmap(-1, TABLE_BYTES)
    memory = Memory(Config(), [], board, table)
    assert memory.set.board == board.struct
    memory.set.entries[MAX_DESCRIPTORS - 1].since = 1
    memory.set.entries_used[0] = MAX_DESCRIPTORS
    assert len(read_in_flight(table)) == 1


@pytest.mark.one_way
@pytest.mark.skipif(not lib.lane_available(), reason="the lane is Linux's")
def test_a_watch_that_begins_anew(start_server):
    """The executor's time to look for a silent worker is set from now."""
    server = start_server(hello, lane="auto")
    lane = server.server._listening.lane
    lane.set.stall_at = 0
    server.call(lane.watch)
    assert lane.set.stall_at > 0


def test_arrivals_have_the_names_and_values_of_the_structure():
    """Each field of the structure in C is the attribute of the same name, in two arrivals one after another."""
    table = ffi.new("lane_arrival[]", 2)
    for row in range(2):
        for number, name in enumerate(Arrival._fields, 1):
            setattr(table[row], name, row * 100 + number)
    first, second = arrivals_of(ffi.buffer(table, 2 * ARRIVAL_BYTES)[:])
    assert first == Arrival(*range(1, 17)) and second == Arrival(*range(101, 117))
