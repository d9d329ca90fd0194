"""Runs what must be finished though its task is cancelled.

Owns:     to_the_end.
Thread:   event loop only.
Not here: the coroutines (server/server.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """
    Run a coroutine to its end, in a task of its own, however often this task is cancelled; then the cancellation takes effect.

    Raises:
        CancelledError: this task was cancelled meanwhile; or the loop ends, and cancels all tasks.
    """
    import anyio  # 0.9 MB with its imports: a program with a task group has it already, and the command saves it

    task, cancelled = asyncio.ensure_future(work), None
    with anyio.CancelScope(shield=True):  # anyio would cancel at each step; asyncio cancels once
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as exc:
                cancelled = exc
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
