"""Shields a block from cancellation of its task.

Owns:     shielded.
Thread:   event loop only.
Not here: the shielded code (server/server.py).
"""

from __future__ import annotations

import contextlib


def shielded() -> contextlib.AbstractContextManager[object]:
    """Return a block that no cancellation interrupts, anyio's or asyncio's."""
    import anyio  # 0.9 MB with its imports: a program with a task group has it already, and the command saves it

    return anyio.CancelScope(shield=True)
