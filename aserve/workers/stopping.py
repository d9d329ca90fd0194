"""The end of the workers, as the event loop waits for it.

Owns:     stop_workers.
Thread:   event loop.
Not here: how a worker ends (executor.py), what else a server lets go of (server/server.py).
"""

from __future__ import annotations

import asyncio

from .executor import Executor
from .inline import InlineExecutor

# How long workers may take to end when no time is left: those that run a job, which may be as good as done, and those
# that were idle, where others burn every CPU (at a load of 9 on two, 0.1 s were too few). Guesses; it is milliseconds.
BUSY_SECONDS = 0.1
IDLE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 0.01


async def stop_workers(
    executor: Executor | InlineExecutor, loop: asyncio.AbstractEventLoop, deadline: float
) -> list[str]:
    """
    Let the workers end when nothing is queued any more; return the names of those that are left inside the app.

    What runs may outlive its client, and is finished all the same, until `deadline` (loop time) or a little longer.
    """
    counts = executor.workers
    busy_count = counts.at_work - counts.idle + counts.compensated + counts.aside
    executor.stop()
    now = loop.time()
    busy_deadline, idle_deadline, pause = max(deadline, now + BUSY_SECONDS), now + IDLE_SECONDS, 0.001
    while left := executor.join(0.0):
        now = loop.time()
        if now >= busy_deadline and (len(left) <= busy_count or now >= idle_deadline):
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    await asyncio.sleep(0)  # one more turn for what the last workers posted
    return [*left, *executor.stuck]  # for those that are stuck nobody need wait
