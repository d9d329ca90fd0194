"""Memory shared by processes is found by C, and outlives nothing."""

import gc
import mmap
from typing import Any

import pytest

from aserve._cparsers import ffi
from aserve.connections.shared_memory import pointer_to


@pytest.mark.parametrize("is_view", [False, True])
def test_octets_of_c_are_in_the_memory(is_view):
    memory = mmap.mmap(-1, 16)
    pointer = pointer_to("uint64_t *", memoryview(memory)[8:] if is_view else memory)
    pointer[0] = 7
    assert memoryview(memory).cast("Q").tolist() == ([0, 7] if is_view else [7, 0])


def test_a_cycle_may_be_garbage():
    """A keeper of both may be garbage; so may cffi's own object for a buffer, which CPython 3.11 crashes on."""

    class Keeper:
        def __init__(self, words: Any) -> None:
            self.words, self.pointer, self.me = words, pointer_to("uint64_t *", words), self

    for _ in range(10):
        Keeper(memoryview(mmap.mmap(-1, 8)).cast("Q")).pointer[0] = 7
    gc.collect()
    assert ffi.sizeof("uint64_t") == 8
