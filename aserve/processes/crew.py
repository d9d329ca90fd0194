"""The crew of workers: the number of workers, replacements, missing workers, pauses after failures, orders to all.

Owns:     Crew: the log lines about the number of workers; the pauses of a slot after failures;
          orders for all alike, to reopen logs and to send balancers elsewhere: at once for a serving worker, and for a starting worker when ready.
Thread:   the supervisor's only one.
Not here: decisions (fleet/decide.py), letting a worker go (acts.py), processes, and orders for a single process (children.py), starts (supervisor.py).
"""

from __future__ import annotations

import collections
import logging
import time

from ..settings import MAX_WORKERS
from .children.child import Child, State
from .children.children import Children
from .children.poller import Clock
from .fleet.backoff import Backoff
from .fleet.facts import End
from .fleet.fleet import Fleet
from .fleet.resources import Limits
from .monitoring.overview import Overview
from .monitoring.status import Status
from .monitoring.watch import Watch

logger = logging.getLogger("aserve")


class Crew:
    """The slots, from 1 to the size, and the state of each."""

    def __init__(
        self, fleet: Fleet, children: Children, clock: Clock, status: Status, overview: Overview, watch: Watch
    ) -> None:
        self._fleet = fleet
        self._children = children
        self._clock = clock
        self._status = status
        self._absences = status.absences
        self._overview = overview  # has the wish for balancers, also after an upgrade
        self._tally = overview.tally
        self._watch = watch
        self._limits: Limits | None = None  # the reason of the present size; None: by no limits, or before an upgrade
        self._logs_reopened_at = 0.0
        self._backoffs: collections.defaultdict[int, Backoff] = collections.defaultdict(Backoff)  # by slot, MOLD too

    # The number of workers

    def begin(self, child: Child) -> None:
        """Log that the first worker serves; with --workers auto choose the number of workers by the worker's memory."""
        self._limits = child.plan.limits
        size, why = child.plan.count_workers(self._watch.bytes_of(child) if self._limits else 0, self._limits)
        if self._limits:
            self._fleet.resize(size)
        logger.info("%s (%s)", self._status.describe_serving(), why)

    def change_plan(self, child: Child) -> None:
        """Set the number of workers by the new plan, with `child` as the first worker to serve."""
        wanted, why = child.plan.count_workers(self._watch.bytes_of(child))
        size = child.plan.config.workers_after(wanted, self._fleet.size)
        if size != self._fleet.size:
            self.resize(size, why)

    def follow_limits(self) -> None:
        """With --workers auto, set the number of workers anew after a change of the machine's limits."""
        if not (serving := self._children.having(State.READY)):
            return  # the size of a worker is not known, and the next look comes
        before, self._limits = self._limits, self._fleet.plan.limits
        if before and self._limits and self._limits != before:
            sizes = filter(None, map(self._watch.bytes_of, serving))
            # A new worker is as small as the freshest.
            size, why = self._fleet.plan.count_workers(min(sizes, default=0), self._limits)
            if size != self._fleet.size:
                self.resize(size, why)

    def resize(self, size: int, why: str) -> None:
        """Set the number of workers."""
        before, slots = self._fleet.size, self._fleet.slots
        if self._fleet.is_ending:
            return
        if not 1 <= size <= MAX_WORKERS:
            logger.warning("%s: the number of workers stays %d; it may be 1 to %d", why, before, MAX_WORKERS)
            return
        logger.info("%s: the number of workers is %d now; it was %d", why, size, before)
        self._children.note_silent()
        self._fleet.resize(size, why)
        for slot in set(slots).difference(self._fleet.slots):
            self._absences.pop(slot, None)
            self._backoffs.pop(slot, None)

    # A single worker

    def replace(self, slot: int, why: str, reason: str) -> None:
        """Ask for a successor of the serving worker in a slot, in turn, and count the wish by `reason`, once."""
        serving = self._fleet.newest.get(slot)
        if serving is not None and self._fleet.wish(serving, why):
            self._tally.expect_restart(slot, reason)
            logger.info("worker %d is to be replaced: %s", slot, why)

    def note_absence(self, end: End, why: str) -> bool:
        """Record whether the slot of an ended worker has no ready worker; return the answer."""
        is_missing = end.slot in self._fleet.slots and end.slot not in self._fleet.newest
        if is_missing:
            self._absences.begin(end.slot, why)
        return is_missing

    # All workers

    def set_unready(self, why: str) -> None:
        """Tell balancers a reason to send requests elsewhere, at each of our addresses; "": no reason."""
        logger.info("balancers are told: %s", why or "ready")
        self._overview.why_unready = why
        for child in self._children.having(State.READY):
            self._children.tell(child, {"do": "set unready", "why": why})

    def tell_orders(self, child: Child) -> None:
        """Send a worker that has just become ready the orders for all workers."""
        if child.began_at <= self._logs_reopened_at:
            self._children.tell(child, {"do": "reopen logs"})  # the log may have been opened before
        if self._overview.why_unready:
            self._children.tell(child, {"do": "set unready", "why": self._overview.why_unready})

    def reopen_logs(self) -> None:
        """Let all workers reopen their logs."""
        self._logs_reopened_at = time.monotonic()
        for child in self._children.having(State.READY, State.DRAINING):
            self._children.tell(child, {"do": "reopen logs"})

    # Pauses after failures

    def pause(self, slot: int) -> float:
        """Let a slot wait before the next child; return the seconds."""
        return self._wait(slot, self._backoffs[slot].fail(self._clock()))

    def pause_after(self, child: Child) -> float:
        """Let a slot wait after a ready child: shortly, unless children of the slot have just failed, too."""
        backoff = self._backoffs[child.slot]
        backoff.succeed(child.served_seconds)
        return self._wait(child.slot, backoff.fail_later(self._clock()))

    def _wait(self, slot: int, seconds: float) -> float:
        self._fleet.on_pause(slot, self._backoffs[slot].due_at)
        return seconds

    def forget_failures(self, slot: int | None = None) -> None:
        """Let a slot, or all slots, try at once: the cause may have been repaired."""
        for one in list(self._backoffs) if slot is None else [slot]:
            self._backoffs[one].reset()
            self._fleet.on_pause(one, None)
