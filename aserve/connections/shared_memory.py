"""Memory shared by processes, in C's view.

Owns:     pointer_to.
Thread:   any.
Not here: the content (load_board.py, in_flight.py); making the memory, the caller's work.
"""

from __future__ import annotations

from typing import Any

from .._cparsers import ffi


def pointer_to(ctype: str, memory: Any) -> Any:
    """
    Return the address of `memory`, an mmap or a memoryview of one, as a pointer of this type; keep the memory beside the pointer.

    cffi's object for a buffer is not kept: CPython 3.11 crashes if the garbage collector finds that object and the memoryview together in a cycle.
    """
    with ffi.from_buffer(memory) as octets:
        return ffi.cast(ctype, octets)
