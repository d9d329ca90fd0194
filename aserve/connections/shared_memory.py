"""Memory that processes share, as C sees it.

Owns:     pointer_to.
Thread:   any.
Not here: its content (load_board.py, in_flight.py); making it, which the caller does.
"""

from __future__ import annotations

from typing import Any

from .._cparsers import ffi


def pointer_to(ctype: str, memory: Any) -> Any:
    """
    Return the address of `memory`, an mmap or a memoryview of one, as a pointer of this type; keep the memory beside it.

    The object that cffi makes for a buffer is not kept: CPython 3.11 crashes if its garbage collector finds that and
    the memoryview together in a cycle.
    """
    with ffi.from_buffer(memory) as octets:
        return ffi.cast(ctype, octets)
