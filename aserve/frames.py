"""The frames of a thread's stack.

Owns:     outer_frames.
Thread:   any.
Not here: what is said of them (stacks.py, wsgi/deadlines.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """
    Yield a frame, and those that it was called by, the innermost first.

    PyPy ends early where another thread is in code that is compiled: 7.3.11 then raises a SystemError, once in some runs.
    """
    while frame is not None:
        yield frame
        try:
            frame = frame.f_back
        except SystemError:
            return
