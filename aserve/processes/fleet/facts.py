"""The facts of a fleet: about a process, an end, a reload, a question.

Owns:     Member, with time limits, End, Reload, Question; the choice of workers to stay when the number falls.
Thread:   the supervisor's only one; pure.
Not here: all of them (fleet.py), decisions (decide.py), a worker's process (child.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, TRIAL, State

Plan = Any  # compared by identity; of `config` are read: preload, reload (saved files are looked for, faults shown), reload_at_once

NEVER = math.inf  # the time of no limit; all times are the supervisor's (poller.py)
# After this time workers do not wait for their mold any more, and import the app by themselves. Guess: see below.
SILENCE_SECONDS = 2.0
# How long an idle mold may take to fork. Guess: a mold of gigabytes takes a tenth of a second.
FORK_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """A process of ours, from the start until the process is reaped. The slot is TRIAL, MOLD, or a worker's from 1 on."""

    slot: int
    generation: int  # of the slot: a successor has a higher number
    plan: Plan
    state: State = State.STARTING
    due_at: float = NEVER  # when the process must be ready, or have ended
    mold: Member | None = None  # the mold that is still to fork the process
    asked_at: float = NEVER  # when the mold was given the order
    forked_at: float = 0.0  # of a mold: the time of the last fork
    has_left: bool = False  # the process drains, and accepts no connections any more
    is_hung: bool = False  # the event loop stands still
    # A mold without reaction to an order; a worker whose event loop has not turned for some seconds.
    is_silent: bool = False

    @property
    def is_worker(self) -> bool:
        """Whether clients' requests come to the process: not to a trial, nor to a mold."""
        return TRIAL < self.slot < MOLD

    @property
    def accepts(self) -> bool:
        """Whether the process may accept connections."""
        return self.state is State.READY or (self.state is State.DRAINING and not self.has_left and not self.is_silent)

    @property
    def has_silent_mold(self) -> bool:
        """Whether the mold of this process does not carry out orders."""
        return self.mold is not None and self.mold.is_silent

    @property
    def fork_seconds(self) -> float:
        """How long the mold may take to fork: before workers do not wait for the mold any more; then, before the mold is ended."""
        return FORK_SECONDS if self.has_silent_mold else SILENCE_SECONDS

    @property
    def fork_due_at(self) -> float:
        """When the mold must have forked the process; a mold forks in turn."""
        if self.mold is None or self.mold.state is not State.READY:
            return NEVER
        return max(self.asked_at, self.mold.forked_at) + self.fork_seconds


def choose_slots(slots: Collection[int], size: int, workers: Iterable[Member]) -> list[int]:
    """
    Return the slots of `size` workers: of the present ones, and the next numbers that are free.

    Of surplus slots the silent are left out first, then slots without a serving worker, then the oldest; `workers`: the oldest first.
    """
    ranks = {slot: (True, False, -slot) for slot in slots}
    for age, each in enumerate(workers):
        serves = each.state is State.READY
        if each.slot in ranks and (serves or not ranks[each.slot][1]):
            ranks[each.slot] = not (serves and each.is_silent), serves, age
    free = [slot for slot in range(1, len(slots) + size + 1) if slot not in ranks]
    kept = sorted(slots, key=lambda slot: ranks[slot])[max(len(slots) - size, 0) :]
    return kept + free[: size - len(kept)]


class End(NamedTuple):
    """A process has ended, or could not be forked."""

    slot: int
    plan: Plan
    stood: State  # KILLED: on order; for a process killed for a fault: the state before
    name: str  # for the log
    why: str
    traceback: str = ""
    child: Any = None
    is_unborn: bool = False  # its mold has ended before the fork


@dataclass(eq=False)
class Reload:
    """All workers are replaced, for new code or settings."""

    why: str
    plan: Plan
    began_at: float
    number: int
    # Slot: the failure there; with any failure, the reload is half done.
    failed: dict[int, str] = field(default_factory=dict)
    before: Reload | None = None  # a half-done reload whose place this reload has taken, until this reload is proven


@dataclass(eq=False)
class Question:
    """A caller waits for the end of a reload, or for the successor of a worker."""

    caller: Any
    reload: int = 0  # the number of the reload
    slot: int = 0
    generation: int = 0
