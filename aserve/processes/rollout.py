"""Replacing workers by successors, one slot after another.

Owns:     Rollout: which slots wait for a successor, and why, and where one is starting; what workers are started for, and
          the reload that changes it.
Thread:   the supervisor's only one; pure.
Not here: starting a successor (supervisor.py), letting go who was replaced (crew.py).

Whatever the reason for replacing a worker, new code, its age or its own wish, it takes its turn here: so no two leave at
the same time, but with --reload-at-once. A worker goes when its successor serves, and not before.

A reload asks for a successor in every slot, for another plan. As long as none of these serves, the plan is unproven: if the first
cannot start, nothing has changed, and nothing does. Once it serves, a further one that cannot start is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .plan import Plan


class Reload(NamedTuple):
    """All workers are replaced, for new code or settings."""

    why: str
    plan: Plan
    began_at: float  # the supervisor's clock


class Rollout:
    """Slots that are to have a successor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan  # with which a worker has served
        self.reload: Reload | None = None  # the one that is under way
        self.half_done = ""  # why it may never come to its end, as far as is known
        self.width = 1  # so many successors may be starting at once
        self._waiting: dict[int, str] = {}  # slot: why; the first comes first
        self._starting: dict[int, str] = {}
        self._owed: set[int] = set()  # slots that the reload has asked for, and that have no successor yet

    # One slot

    def add(self, slot: int, why: str) -> bool:
        """Ask for a successor; return False if that has been done already."""
        if self.has_asked(slot):
            return False
        self._waiting[slot] = why
        return True

    def has_asked(self, slot: int) -> bool:
        """Whether a successor is asked for there that does not serve yet."""
        return slot in self._waiting or slot in self._starting

    def due(self) -> Iterator[int]:
        """Yield the slots that may begin now, as far as there is room: call `begin` before the next."""
        for slot in list(self._waiting):
            if len(self._starting) >= self.width:
                return
            yield slot

    def begin(self, slot: int) -> Plan:
        """Note that a worker is starting in this slot, a successor if one is asked for; return for what."""
        if slot in self._waiting:
            self._starting[slot] = self._waiting.pop(slot)
        return self.next

    @property
    def next(self) -> Plan:
        """For what the next worker is started."""
        return self.reload.plan if self.reload is not None else self.plan

    def fail(self, slot: int) -> None:
        """Note that it did not become ready: the slot waits again."""
        if slot in self._starting:
            self._waiting[slot] = self._starting.pop(slot)

    def succeed(self, slot: int) -> str:
        """Note that it serves; return why a successor was asked for, "" if none was."""
        self._owed.discard(slot)
        return self._starting.pop(slot, "")

    def forget(self, slot: int) -> None:
        """Ask for nothing there any more."""
        self._owed.discard(slot)
        self._waiting.pop(slot, None)
        self._starting.pop(slot, None)

    # All of them

    @property
    def is_moving(self) -> bool:
        """Whether a reload is on its way to its end: one that is half done may never be there, and another may take its place."""
        return self.reload is not None and not self.half_done

    def describe(self) -> str:
        """Return that one is half done, for the end of a line; empty: none is."""
        return "; a reload is half done" if self.half_done else ""

    def begin_reload(self, reload: Reload, slots: Iterable[int], width: int) -> None:
        """Ask for a successor in each of these slots, so many at a time."""
        self.reload, self.half_done, self.width = reload, "", width
        for slot in slots:
            self._owed.add(slot)
            self.fail(slot)  # what is starting there is not what is asked for now
            self.add(slot, reload.why)

    def is_unproven(self, plan: Plan) -> bool:
        """Whether this is a reload's plan of which no worker has served yet."""
        return self.reload is not None and plan is self.reload.plan and plan is not self.plan

    def commit(self) -> Plan:
        """Start all workers for the reload's plan from now on; return the one of before."""
        assert self.reload is not None
        before, self.plan = self.plan, self.reload.plan
        return before

    def abandon(self) -> Reload:
        """End a reload without effect: ask for its successors no more; return it."""
        assert self.reload is not None
        reload, self.reload, self.half_done, self.width = self.reload, None, "", 1
        self._owed.clear()
        for slots in (self._waiting, self._starting):
            for slot in [slot for slot, why in slots.items() if why == reload.why]:
                del slots[slot]
        for slot in list(self._starting):
            self.fail(slot)  # it was starting with the reload's plan
        return reload

    def take_done(self) -> Reload | None:
        """Return a reload if every slot has got its successor by now, once; else None."""
        reload = self.reload
        if reload is None or self._owed:
            return None
        self.reload, self.half_done, self.width = None, "", 1
        return reload
