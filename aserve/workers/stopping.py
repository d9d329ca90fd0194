"""Ending the workers, while the event loop waits for them.

Owns:     stop_workers.
Thread:   event loop.
Not here: how a worker ends (executor.py), the rest of a server's end (server/server.py).
"""

from __future__ import annotations

import asyncio

from .executor import Executor
from .inline import InlineExecutor

# Time for the end of workers after the deadline: busy ones, with a job maybe almost done, and idle ones, on a machine with busy CPUs (at a load of
# 9 on two CPUs, 0.1 s was too short). Guesses; usually milliseconds.
BUSY_SECONDS = 0.1
IDLE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 0.01


async def stop_workers(
    executor: Executor | InlineExecutor, loop: asyncio.AbstractEventLoop, deadline: float
) -> list[str]:
    """
    Let the workers end when no job is queued any more; return the names of workers left inside the app.

    Running requests are finished even if their clients have left, until `deadline` (loop time) or a little longer.
    """
    counts = executor.workers
    busy_count = counts.at_work - counts.idle + counts.compensated + counts.aside
    executor.stop()
    now = loop.time()
    busy_deadline, idle_deadline, pause = max(deadline, now + BUSY_SECONDS), now + IDLE_SECONDS, 0.001
    while left := executor.threads.join(0.0):
        now = loop.time()
        if now >= busy_deadline and (len(left) <= busy_count or now >= idle_deadline):
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    await asyncio.sleep(0)  # one more iteration, for the last functions posted by workers
    return [*left, *executor.threads.stuck]  # without waiting for stuck workers
