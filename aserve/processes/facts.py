"""The facts of which a fleet is made: about one worker, one end, one reload, one question.

Owns:     Worker, End, Reload, Question.
Thread:   the supervisor's only one; pure.
Not here: all of them, and what follows from them (fleet.py), a worker's process (child.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.named_tuple import NamedTuple
from ..core.page import MOLD, TRIAL, State

Plan = Any  # compared by identity; of its `config` are read: preload, reload (saved files are looked for, faults shown), reload_at_once


@dataclass(eq=False)
class Worker:
    """A process of ours, from its start until it is reaped. Its slot is TRIAL, MOLD, or a worker's from 1 on."""

    slot: int
    generation: int  # of its slot: a successor's is higher
    plan: Plan
    state: State = State.STARTING
    mold: Worker | None = None  # the mold that has not forked it yet
    has_left: bool = False  # it drains, and accepts no connections any more
    is_hung: bool = False  # its event loop stands still
    is_silent: bool = False  # a mold that does not carry out an order

    @property
    def is_worker(self) -> bool:
        """Whether clients' requests come to it: it is no trial, and no mold."""
        return TRIAL < self.slot < MOLD


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
