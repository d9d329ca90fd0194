"""The role of a process forked by the supervisor: the slot, the channel, and the shared memory.

Owns:     Role.
Thread:   any; a role is never changed.
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
    load_board: LoadBoard | None = None  # of all pages
    in_flight: Any = None  # memory for the table of running requests
    supervisor_pid: int = 0
    given: Mapping[str, Any] = MappingProxyType({})  # by extensions; see Supervision.share
    fault: Fault | None = None  # why the app cannot start: to be shown in place of the app
    is_new: bool = False  # no worker has served this code yet: answers to --warm-up decide
    page_number: int = 0  # no second worker has the page at the same time; 0: no worker

    @property
    def is_mold(self) -> bool:
        """Whether the process imports the app for workers to be forked."""
        return self.slot == MOLD

    @property
    def is_trial(self) -> bool:
        """Whether the process is a trial of new code."""
        return self.slot == TRIAL

    @property
    def is_worker(self) -> bool:
        """Whether the process serves in a slot."""
        return TRIAL < self.slot < MOLD

    @property
    def name(self) -> str:
        """The name in the log."""
        return name_of(self.slot)
