"""The facts of which a fleet is made: about one process, one end, one reload, one question.

Owns:     Member, with its time limits, End, Reload, Question; which workers stay when there are to be fewer.
Thread:   the supervisor's only one; pure.
Not here: all of them (fleet.py), what follows from them (decide.py), a worker's process (child.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, TRIAL, State

Plan = Any  # compared by identity; of its `config` are read: preload, reload (saved files are looked for, faults shown), reload_at_once

NEVER = math.inf  # the time of what has no limit; all times are the supervisor's (clock.py)
# After this time workers do not wait for their mold any more, and import the app by themselves. Guess: see below.
SILENCE_SECONDS = 2.0
# How long a mold, which has nothing else to do, may take to fork. Guess: a mold of gigabytes takes a tenth of a second.
FORK_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """A process of ours, from its start until it is reaped. Its slot is TRIAL, MOLD, or a worker's from 1 on."""

    slot: int
    generation: int  # of its slot: a successor's is higher
    plan: Plan
    state: State = State.STARTING
    due_at: float = NEVER  # by then it must have gone on: be ready, or have ended
    mold: Member | None = None  # the mold that has not forked it yet
    asked_at: float = NEVER  # when that mold was given the order
    forked_at: float = 0.0  # when it has forked a worker for the last time, as a mold
    has_left: bool = False  # it drains, and accepts no connections any more
    is_hung: bool = False  # its event loop stands still
    # A mold that does not carry out an order; a worker whose event loop has not turned for some seconds.
    is_silent: bool = False

    @property
    def is_worker(self) -> bool:
        """Whether clients' requests come to it: it is no trial, and no mold."""
        return TRIAL < self.slot < MOLD

    @property
    def accepts(self) -> bool:
        """Whether it may accept connections."""
        return self.state is State.READY or (self.state is State.DRAINING and not self.has_left and not self.is_silent)

    @property
    def has_silent_mold(self) -> bool:
        """Whether the mold that is to fork it does not carry out orders."""
        return self.mold is not None and self.mold.is_silent

    @property
    def fork_seconds(self) -> float:
        """How long its mold may take to fork it: before workers do not wait for that any more; then, before it is ended."""
        return FORK_SECONDS if self.has_silent_mold else SILENCE_SECONDS

    @property
    def fork_due_at(self) -> float:
        """When its mold, which forks one after another, must have forked it."""
        if self.mold is None or self.mold.state is not State.READY:
            return NEVER
        return max(self.asked_at, self.mold.forked_at) + self.fork_seconds


def choose_slots(slots: Collection[int], size: int, workers: Iterable[Member]) -> list[int]:
    """
    Return the slots of `size` workers: of the present ones, and the next numbers that are free.

    Of those that are too many the silent are left out first, then those that do not serve yet, then the oldest; `workers`: the oldest first.
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
    stood: State  # KILLED: on order; if it was killed for a fault, its state at that time
    name: str  # for the log
    why: str
    traceback: str = ""
    child: Any = None


@dataclass(eq=False)
class Reload:
    """All workers are replaced, for new code or settings."""

    why: str
    plan: Plan
    began_at: float
    number: int
    # Slot: what could not start there; as long as there is one, it is half done.
    failed: dict[int, str] = field(default_factory=dict)
    before: Reload | None = None  # a half-done one, in whose place this one has begun, which is not proven


@dataclass(eq=False)
class Question:
    """A caller waits for the end of a reload, or for the successor of a worker."""

    caller: Any
    reload: int = 0  # its number
    slot: int = 0
    generation: int = 0
