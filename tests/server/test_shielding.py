"""What must be finished though its task is cancelled."""

from __future__ import annotations

import anyio

from aserve.server.shielding import shielded


def test_shielded():
    """A cancelled task finishes the block, and is cancelled behind it."""
    done = []

    async def work():
        with anyio.CancelScope() as scope:
            scope.cancel()
            with shielded():
                await anyio.sleep(0)
                done.append("in it")
            await anyio.sleep(0)
            done.append("behind it")

    anyio.run(work)
    assert done == ["in it"]
