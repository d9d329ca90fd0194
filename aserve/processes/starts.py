"""The start of a worker or a mold, which fleet.py has found due.

Owns:     Starts: forking, here or by a mold, and the role of the child.
Thread:   the supervisor's only one; `fork` returns in the child, too.
Not here: the fork itself (children.py), what is due (fleet.py), the work of a role (worker.py, mold.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Callable

from ..connections.listeners import Listener
from ..core.errors import Fault
from .channel import Channel
from .child import MOLD, Child
from .children import Children
from .ends import Ends
from .fleet import Action, Fleet
from .molds import Molds
from .overview import Overview
from .role import Role
from .shutdown import Shutdown
from .signal_pipe import block_signals


class Starts:
    """The starts of one supervisor's children."""

    def __init__(
        self,
        fleet: Fleet,
        children: Children,
        molds: Molds,
        overview: Overview,
        ends: Ends,
        shutdown: Shutdown,
        listeners: Sequence[Listener],
        let_go: Callable[[], None],
    ) -> None:
        """`let_go`: close in a child what only the supervisor needs."""
        self._fleet = fleet
        self._children = children
        self._molds = molds
        self._overview = overview
        self._ends = ends
        self._shutdown = shutdown
        self._listeners = listeners
        self._let_go = let_go

    def fork(self, start: Action) -> Role | bool:
        """Start a child, here or by a mold; return whether that went well, and in a child that was forked here its role."""
        slot, plan, fleet = start.slot, start.plan, self._fleet
        given = {name: value for share in self._overview.shares for name, value in share().items()}
        with block_signals():
            try:
                child, channel = self._fork(start)
            except OSError as exc:
                self._ends.on_no_fork(slot, plan, exc)
                return False
            fleet.apply(start)
            if channel is None:
                if fleet.is_ending:
                    self._shutdown.on_begun(child)
                return True
            self._let_go()
            shared = self._children.memory_of(child)
            is_new = fleet.is_unproven(plan) or not fleet.has_served
            return Role(
                slot, child.generation, plan, channel, self._listeners, *shared, os.getppid(), given, self.fault_for(slot), is_new,
                child.page,
            )  # fmt: skip

    def _fork(self, start: Action) -> tuple[Child, Channel | None]:
        """Fork a child, by a mold or here; return it, and in the child itself, if it is forked here, its channel."""
        if start.worker is not None:
            return self._children.have_forked(start.slot, start.plan, start.worker), None
        if start.slot == MOLD:
            self._molds.prepare()
        return self._children.fork(start.slot, start.plan)

    def fault_for(self, slot: int) -> Fault | None:
        """Return why the app cannot start, for a worker that is to show it; beside a worker that serves none does."""
        fault = self._fleet.fault
        return Fault(fault.why, fault.traceback) if fault is not None and slot not in self._fleet.newest else None
