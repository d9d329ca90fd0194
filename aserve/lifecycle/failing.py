"""The reason why a process should be replaced, for the supervisor or service manager.

Owns:     Failing.
Thread:   event loop only.
Not here: finding the reason (wsgi/deadlines.py), and acting on it (server/running.py, processes/worker/worker.py).
"""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger("aserve")


class Failing:
    """The reason why the process of a started server should be replaced."""

    def __init__(self) -> None:
        self.why = ""  # "": there is no reason
        self._has_begun = asyncio.Event()

    def begin(self, why: str) -> None:
        """Note a reason, and log it; the first one stays."""
        if not self.why:
            logger.error("this process should be replaced: %s", why)
            self.why = why
            self._has_begun.set()

    async def wait(self) -> str:
        """Wait for a reason."""
        await self._has_begun.wait()
        return self.why
