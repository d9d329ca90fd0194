"""The role of a process that a supervisor has forked: its slot, its channel, and what it shares with other processes.

Owns:     Role.
Thread:   any; it is never changed.
Not here: the work of a role (worker.py, mold.py), the supervisor's facts about the process (child.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...connections.listeners import Listener
from ...connections.load_board import LoadBoard
from ...core.errors import Fault
from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, TRIAL
from ..fleet.plan import Plan
from .channel import Channel
from .child import name_of
from .pages import Pages


class Role(NamedTuple):
    """The role of a forked child."""

    slot: int
    generation: int
    plan: Plan
    channel: Channel
    listeners: Sequence[Listener]
    page: memoryview  # words by page.Field
    pages: Pages | None = None  # of all workers
    load_board: LoadBoard | None = None  # among them
    in_flight: Any = None  # memory for the table of its running requests
    supervisor_pid: int = 0
    given: Mapping[str, Any] = MappingProxyType({})  # by extensions; see Supervision.share
    fault: Fault | None = None  # why the app cannot start: to be shown in its place
    is_new: bool = False  # no worker has served this code yet: its answers to --warm-up decide
    page_number: int = 0  # no other worker has it at the same time; 0: no worker

    @property
    def is_mold(self) -> bool:
        """Whether it imports the app for workers that are forked from it."""
        return self.slot == MOLD

    @property
    def is_trial(self) -> bool:
        """Whether it is a trial of new code."""
        return self.slot == TRIAL

    @property
    def is_worker(self) -> bool:
        """Whether it serves in a slot of its own."""
        return TRIAL < self.slot < MOLD

    @property
    def name(self) -> str:
        """The name in the log."""
        return name_of(self.slot)
