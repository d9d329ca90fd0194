"""What a lane's C works with is as large as it is told."""

from __future__ import annotations

from aserve._cparsers import ffi
from aserve.connections.lane_memory import BATCH_BYTES, BATCH_COUNT, CONN_BYTES, MAX_DESCRIPTORS, READ_BYTES, Memory
from aserve.settings import Config


def test_its_parts():
    """The views that Python reads are the memory that the C is told of."""
    config = Config(max_head_bytes=10_000, threads=0)
    memory = Memory(config, [])
    set, (input, vars, arrivals) = memory.set, memory.views
    assert (set.input_cap, set.read_cap, set.arrivals_cap) == (BATCH_BYTES, READ_BYTES, BATCH_COUNT)
    assert (len(input), len(vars)) == (set.input_cap, set.vars_cap) and set.vars_cap > 2 * config.max_head_bytes
    assert len(arrivals) == BATCH_COUNT * ffi.sizeof("lane_arrival")
    set.input[0], set.arrivals[1].fd = b"x", 7
    assert input[0] == b"x" and 7 in memoryview(arrivals).cast("i").tolist()
    assert set.max_head_len == 10_000 and set.stall_us == 0 and set.epoll_fd == -1


def test_the_table():
    """It begins empty, with a place for each descriptor."""
    memory = Memory(Config(), [])
    set = memory.set
    assert set.conns_cap == MAX_DESCRIPTORS and ffi.sizeof("lane_conn") == CONN_BYTES
    assert {set.conns[fd].state for fd in range(0, MAX_DESCRIPTORS, 999)} == {0} and set.stall_us > 0
