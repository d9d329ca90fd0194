"""What must be finished though its task is cancelled.

Owns:     shielded.
Thread:   event loop only.
Not here: what is finished (server/server.py).
"""

from __future__ import annotations

import contextlib


def shielded() -> contextlib.AbstractContextManager[object]:
    """Return a block that no cancellation interrupts, anyio's or asyncio's."""
    import anyio  # 0.9 MB with what it needs: a program that serves in a task group has it, and the command does without

    return anyio.CancelScope(shield=True)
