"""Replacing workers by successors, one slot after another.

Owns:     Rollout: which slots wait for a successor, and why, and where one is starting; what workers are started for, and
          the reload that changes it.
Thread:   the supervisor's only one; pure.
Not here: starting a successor (supervisor.py), letting go who was replaced (crew.py).

Whatever the reason for replacing a worker, new code, its age or its own wish, it takes its turn here: so no two leave at
the same time, but with --reload-at-once. A worker goes when its successor serves, and not before.

A reload asks for a successor in every slot, for another plan. As long as none of these serves, the plan is unproven: if the first
cannot start, nothing has changed, and nothing does. Once it serves, a further one that cannot start is tried again; until it serves
the reload is half done, and another may take its place. If the first of that one cannot start, the half-done one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .plan import Plan


class Reload:
    """All workers are replaced, for new code or settings."""

    def __init__(self, why: str, plan: Plan, began_at: float) -> None:
        """`began_at`: by the supervisor's clock."""
        self.why = why
        self.plan = plan
        self.began_at = began_at
        self.owed: dict[int, None] = {}  # slots that have no successor yet; the first comes first
        # Of those slots, and the mold's: what could not start the last time, and why. While there are some, it is half done.
        self.failed: dict[int, str] = {}


class Rollout:
    """Slots that are to have a successor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan  # with which a worker has served
        self.reload: Reload | None = None  # the one that is under way
        self.width = 1  # so many successors may be starting at once
        self._wishes: dict[
            int, str
        ] = {}  # slot: why its worker is to be replaced, whatever becomes of a reload; the first comes first
        self._starting: set[int] = set()
        self._half_done: Reload | None = None  # in whose place the present one has begun, whose plan is unproven

    # One slot

    def add(self, slot: int, why: str) -> bool:
        """Ask for a successor; return False if that has been done already."""
        is_new = not self.has_asked(slot)
        self._wishes.setdefault(slot, why)
        return is_new

    def has_asked(self, slot: int) -> bool:
        """Whether a successor is asked for there that does not serve yet."""
        return slot in self._wishes or slot in self._owed

    def due(self) -> Iterator[int]:
        """Yield the slots that may begin now, as far as there is room: call `begin` before the next."""
        for slot in [*self._wishes, *(slot for slot in self._owed if slot not in self._wishes)]:
            if len(self._starting) >= self.width:
                return
            if slot not in self._starting:
                yield slot

    def begin(self, slot: int) -> Plan:
        """Note that a worker is starting in this slot, a successor if one is asked for; return for what."""
        if self.has_asked(slot):
            self._starting.add(slot)
        return self.next

    @property
    def next(self) -> Plan:
        """For what the next worker is started."""
        return self.reload.plan if self.reload is not None else self.plan

    @property
    def _owed(self) -> dict[int, None]:
        return self.reload.owed if self.reload is not None else {}

    def fail(self, slot: int) -> None:
        """Note that it did not become ready: the slot waits again, behind the others."""
        self._starting.discard(slot)
        if slot in self._wishes:
            self._wishes[slot] = self._wishes.pop(slot)
        if slot in self._owed:
            self._owed[slot] = self._owed.pop(slot)

    def note_half_done(self, slot: int, why: str) -> None:
        """Note that the reload's plan has served, and what could not start in this slot, or as the mold."""
        if self.reload is not None:
            self.reload.failed[slot] = why

    def succeed(self, slot: int) -> str:
        """Note that it serves; return why a successor was asked for, "" if none was."""
        why = self.reload.why if self.reload is not None and slot in self._owed else ""
        why = self._wishes.get(slot, why)
        self.forget(slot)
        return why

    def forget(self, slot: int) -> None:
        """Ask for nothing there any more."""
        self._starting.discard(slot)
        self._wishes.pop(slot, None)
        for reload in (self.reload, self._half_done):
            if reload is not None:
                reload.owed.pop(slot, None)
                reload.failed = {other: why for other, why in reload.failed.items() if other in reload.owed}

    # All of them

    @property
    def is_moving(self) -> bool:
        """Whether a reload is on its way to its end: one that is half done may never be there, and another may take its place."""
        return self.reload is not None and not self.reload.failed

    def describe(self) -> str:
        """Return that one is half done, for the end of a line; empty: none is."""
        return "; a reload is half done" if self.failed else ""

    @property
    def failed(self) -> list[str]:
        """Why a reload is half done: what could not start, and why; empty: none is."""
        return list(self.reload.failed.values()) if self.reload is not None else []

    def begin_reload(self, reload: Reload, slots: Iterable[int], width: int) -> None:
        """Ask for a successor in each of these slots, so many at a time."""
        self._half_done, self.reload, self.width = self.reload, reload, width
        self._starting.clear()  # what is starting is not what is asked for now
        reload.owed = dict.fromkeys(slots)

    def is_unproven(self, plan: Plan) -> bool:
        """Whether this is a reload's plan of which no worker has served yet."""
        return self.reload is not None and plan is self.reload.plan and plan is not self.plan

    def commit(self) -> Plan:
        """Start all workers for the reload's plan from now on; return the one of before."""
        assert self.reload is not None
        before, self.plan = self.plan, self.reload.plan
        self._half_done = None
        return before

    def abandon(self) -> Reload:
        """End a reload without effect: ask for its successors no more; return it. One that was half done goes on."""
        assert self.reload is not None
        reload, self.reload, self.width = self.reload, self._half_done, 1
        self._half_done = None
        self._starting.clear()  # they were starting with the reload's plan
        return reload

    def take_done(self) -> Reload | None:
        """Return a reload if every slot has got its successor by now, once; else None."""
        reload = self.reload
        if reload is None or reload.owed:
            return None
        self.reload, self.width = None, 1
        return reload
