"""The workers that there are to be: how many, who is missing, and when a slot may have its next child.

Owns:     Crew: its size, and why it is that; whether any worker has served; absences, and the pauses after failures; letting a worker
          go while others serve.
Thread:   the supervisor's only one.
Not here: who is there (children.py), starting a child (supervisor.py), whose turn it is to be replaced (rollout.py).
"""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Sequence

from ..connections.listeners import Listener
from ..core.tally import Tally
from ..settings import MAX_WORKERS, with_reach
from .absences import Absences
from .backoff import Backoff
from .child import Child, State
from .children import Children
from .plan import Plan
from .rollout import Rollout
from .timers import Timers
from .watch import Watch

logger = logging.getLogger("aserve")


class Crew:
    """The slots, from 1 to the size, and how each of them fares."""

    def __init__(
        self,
        plan: Plan,
        listeners: Sequence[Listener],
        children: Children,
        rollout: Rollout,
        timers: Timers,
        tally: Tally,
        watch: Watch,
    ) -> None:
        self.size, self._why_size = plan.workers
        self.has_served = False  # a worker was ready once: there is something to serve
        self.absences = Absences()
        self._listeners = listeners
        self._children = children
        self._rollout = rollout
        self._timers = timers
        self._tally = tally
        self._watch = watch
        self._backoffs: collections.defaultdict[int, Backoff] = collections.defaultdict(Backoff)  # by slot, MOLD too

    def describe(self) -> str:
        """Return in one line how things are."""
        if self.absences:
            return f"degraded: {self.absences.describe(self.size)}"
        places = ", ".join(with_reach(listener.url, listener.address) for listener in self._listeners)
        return f"serving on {places} with {workers(self.size)}"

    # Its size

    def begin(self, child: Child) -> None:
        """The first worker serves: say so, and with --workers auto count on what it takes."""
        self.has_served = True
        if child.plan.config.workers == "auto":
            self.size, self._why_size = child.plan.count_workers(self._watch.bytes_of(child))
        logger.info("%s (%s)", self.describe(), self._why_size)

    def change_plan(self, child: Child) -> None:
        """Have as many workers as the new plan says, of which this worker serves as the first."""
        self.resize(*child.plan.count_workers(self._watch.bytes_of(child)))

    def resize(self, size: int, why: str) -> None:
        """Have so many workers from now on; those of higher slots go."""
        if not 1 <= size <= MAX_WORKERS:
            logger.warning("%s: the number of workers stays %d; it may be 1 to %d", why, self.size, MAX_WORKERS)
            return
        logger.info("%s: the number of workers is %d now; it was %d", why, size, self.size)
        gone, self.size = range(size + 1, self.size + 1), size
        for slot in gone:
            self._rollout.forget(slot)
            self.absences.end(slot)
            self._backoffs.pop(slot, None)
            for child in self._children.find(slot, State.STARTING):
                self._children.drain(child, is_replaced=True)
            for child in self._children.find(slot, State.READY):
                self.retire(child, why)

    # One worker

    def replace(self, slot: int, why: str, reason: str) -> bool:
        """Give a worker a successor when it is its turn, and count it by `reason`; return False if that is on its way already."""
        is_new = slot <= self.size and self._rollout.add(slot, why)
        if is_new:
            self._tally.expect_restart(slot, reason)
            logger.info("worker %d is to be replaced: %s", slot, why)
        return is_new

    def is_to_begin(self, slot: int) -> bool:
        """Whether a worker is yet to serve there: a successor that was asked for, or one where none serves."""
        return self._rollout.has_asked(slot) or (slot <= self.size and not self._children.find(slot, State.READY))

    def retire(self, child: Child, why: str) -> None:
        """Let a worker go, while others serve."""
        if child.slot <= self.size:
            self._tally.count_restart(child.slot)
        logger.info("%s drains: %s", child, why)
        self._children.drain(child, is_replaced=True)
        if self._watch.is_hung(child):
            self._children.end_with_stacks(child, "its event loop hangs, and its successor serves")

    # Pauses after failures

    def may_try(self, slot: int) -> bool:
        """Whether a slot's pause is over, or it has none."""
        return self._backoffs[slot].due_at <= time.monotonic()

    def pause(self, slot: int) -> float:
        """Let a slot wait for its next child; return for how many seconds."""
        return self._wake_after(self._backoffs[slot].fail(time.monotonic()))

    def pause_after(self, child: Child) -> float:
        """The same after a child that was ready: the pause is short, unless others of its slot have just failed, too."""
        backoff = self._backoffs[child.slot]
        backoff.succeed(child.served_seconds)
        return self._wake_after(backoff.fail_later(time.monotonic()))

    def _wake_after(self, seconds: float) -> float:
        self._timers.wake_after(seconds)
        return seconds

    def forget_failures(self, slot: int | None = None) -> None:
        """Let a slot, or all of them, try at once: whatever was wrong may have been repaired."""
        for backoff in self._backoffs.values() if slot is None else [self._backoffs[slot]]:
            backoff.reset()


def workers(count: int) -> str:
    """Return so many workers in words: "1 worker", "2 workers"."""
    return f"{count} worker{'' if count == 1 else 's'}"
