"""Whether a process should be replaced, and why: for whoever can start another one.

Owns:     Failing.
Thread:   event loop only.
Not here: who finds that out (wsgi/deadlines.py), and what is done about it (server/running.py, processes/worker.py).
"""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger("aserve")


class Failing:
    """Why the process of a server that has been started should be replaced."""

    def __init__(self) -> None:
        self.why = ""  # empty when all is well
        self._has_begun = asyncio.Event()

    def begin(self, why: str) -> None:
        """Note a reason, and log it; the first one stays."""
        if not self.why:
            logger.error("this process should be replaced: %s", why)
            self.why = why
            self._has_begun.set()

    async def wait(self) -> str:
        """Wait until there is a reason, and return it."""
        await self._has_begun.wait()
        return self.why
