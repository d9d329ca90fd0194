"""The fleet of workers: the facts, and the changes by events and actions.

Owns:     Fleet, with a method for each event; Do and Action; the changes by an action.
Thread:   the supervisor's only one; pure: no fork, clock, socket or log, and of this room facts.py alone.
Not here: decisions (decide.py); the facts about a process, end, reload or question (facts.py), processes (children/children.py),
          settings (plan.py), acting (acts.py).

A *plan* is code and settings. A plan is proven once a worker serves with the plan. The *target* is the plan of the present reload, else the proven plan.

| a reload      | when                                          | if a worker, or its mold, cannot start                                       |
|---|---|---|
| is not proven | until the first worker serves with the plan   | the reload is abandoned, and all is as before; a half-done reload goes on    |
| is proven     | until each slot has a worker of the plan, and no old worker accepts | the reload is half done: a further try follows, and a new reload may begin |
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, TRIAL, State
from .facts import NEVER, End, Member, Plan, Question, Reload, choose_slots


class Do(enum.Enum):
    """The kinds of actions."""

    START = "start a worker, or a mold, in this slot; `worker` forks it, a mold, or it is forked here and imports the app by itself"
    DRAIN = "let this worker finish what it has, and end"
    KILL = "end this worker at once"
    OVERDUE = "it has not gone on within its time: end it"
    AVOID = "this mold does not fork: let workers import the app by themselves until it does"
    STOP_WAITING = "clients have waited for the worker that starts, or should, for as long as they may"
    PROVE = "the plan of the reload serves, and takes the place of this one: from now on there is no other"
    FINISH = "the reload is done: start programs beside the workers anew, too"
    BEGIN = "begin the reload that was asked for meanwhile"
    ANSWER = "say that this worker has taken the place of the one that was asked about; none: it has no successor, or all ends"
    TRY = "try new code of our own"
    BECOME = "the new code has shown that it can serve: become it"
    STOP = "a signal ends all: say so, and let programs beside the workers end"
    STOP_AT_ONCE = "the same, and none is to finish what it has"
    # After an end.
    ACCEPT = "the trial has shown that the new code can serve"
    REJECT = "the trial could not serve: all goes on as before"
    NOTE = "it was told to end, or nothing depends on it any more"
    RESTART = "it served: let its slot wait before another is started"
    MISS = "clients waited for it, and all ends"
    GIVE_UP = "it was the first of all, and could not start: there is nothing to serve"
    SHOW = "--reload: start another at once, which shows the fault until the app is mended"
    IGNORE = "a reload has begun since it was started, and starts another"
    ABANDON = "the reload is off, as its first worker could not start, or its code has changed since"
    RETRY = "it could not start: let its slot wait before the next try"


class Action(NamedTuple):
    """An action, with the objects of the action."""

    do: Do
    worker: Any = None
    why: str = ""
    slot: int = 0
    plan: Plan = None
    end: Any = None  # an End
    reload: Any = None  # a Reload
    asked: tuple[Question, ...] = ()  # the questions answered by the action


@dataclass(eq=False)
class Fleet:
    """The facts."""

    plan: Plan  # the proven plan; at first the only plan
    size: int  # the number of workers there should be
    gaps: set[int] = field(default_factory=set)  # slots left out after a smaller number of workers
    why_size: str = ""  # why there are to be fewer than there were
    workers: Iterable[Member] = ()  # all until reaped, molds and trials too; the oldest first
    has_served: bool = False  # a worker was ready once: there is something to serve
    ends: list[End] = field(default_factory=list)  # not handled yet
    retry_at: dict[int, float] = field(default_factory=dict)  # slot: no start before
    wishes: dict[int, tuple[int, str]] = field(default_factory=dict)  # slot: the last generation to be replaced, why
    reload: Reload | None = None  # the present reload
    next_number: int = 1  # of the next reload
    next_why: str = ""  # why a further reload is to begin, after the present reload
    refusal: tuple[float, str] | None = None  # when and why a reload or upgrade was refused, until a reload begins
    unfit: list[Plan] = field(default_factory=list)  # with an app that cannot be forked: no mold
    fault: End | None = None  # --reload: why the app cannot start, for workers to show
    upgrade_why: str = ""  # why new code of our own is to be tried, once none is being tried
    trial_why: str = ""  # why new code is tried now, or was tried last
    has_shown: bool = False  # the new code can serve, and is to take over
    waiting: list[Question] = field(default_factory=list)
    is_ending: bool = False  # all ends: no worker is to begin any more
    is_at_once: bool = False  # the same, and no worker is to finish requests
    stop_why: str = ""  # the last signal to end all
    stopped_at: float = NEVER  # the time of the signal
    is_stop_due: bool = False  # the signal has not been logged yet
    is_again: bool = False  # another had come before
    exit_status: int = 0  # of the supervisor
    is_awaited: bool = False  # all ends, clients wait, and no worker serves: starting workers may serve the clients
    is_wanted: bool = False  # the same, and no worker starts: a worker may begin
    awaited_until: float = NEVER  # the last moment of that

    @property
    def slots(self) -> list[int]:
        """The slots of the wanted workers: from 1 on, without the gaps."""
        return [slot for slot in range(1, self.size + len(self.gaps) + 1) if slot not in self.gaps]

    @property
    def target(self) -> Plan:
        """The plan of new workers."""
        return self.reload.plan if self.reload is not None else self.plan

    @property
    def is_moving(self) -> bool:
        """Whether the end of a reload is near: a half-done reload may never end."""
        return self.reload is not None and not self.reload.failed

    @property
    def is_upgrading(self) -> bool:
        """Whether new code is tried, or about to take over."""
        return not self.is_ending and (self.has_shown or any(each.slot == TRIAL for each in self.workers))

    def is_unproven(self, plan: Plan) -> bool:
        """Whether this is the plan of a reload, and no worker has served with the plan yet."""
        return plan is not self.plan and plan is self.target

    @property
    def newest(self) -> dict[int, Member]:
        """The serving worker of each slot; of several the youngest."""
        return {each.slot: each for each in self.workers if each.state is State.READY}

    @property
    def asked(self) -> list[int]:
        """The slots in need of a successor, by a wish or for a reload, in turn: failed slots come last."""
        if not self.wishes and self.reload is None:
            return []
        newest, reload, slots = self.newest, self.reload, self.slots
        wishes = {slot: last for slot, (last, _) in self.wishes.items() if slot in slots}
        wished = [slot for slot, last in wishes.items() if slot not in newest or newest[slot].generation <= last]
        wished.sort(key=lambda slot: slot not in newest or not newest[slot].is_hung)
        if reload is None:
            return wished
        owed = {slot for slot in slots if slot not in newest or newest[slot].plan is not reload.plan}
        return wished + sorted(owed.difference(wished), key=lambda slot: (slot in reload.failed, slot))

    def next_at(self, now: float) -> float:
        """Return the first time after `now` with perhaps a new action due; NEVER: only an event can change the facts."""
        limits = [at for each in self.workers for at in (each.due_at, each.fork_due_at)]
        return min((at for at in [*limits, *self.retry_at.values(), self.awaited_until] if at > now), default=NEVER)

    def waiting_for(self, reload: int) -> tuple[Question, ...]:
        """Return the questions for the end of the reload with this number."""
        return tuple(each for each in self.waiting if 0 < each.reload <= reload)

    def on_ready(self, worker: Member) -> None:
        """A worker serves: the slot, and the mold, are mended."""
        self.has_served = True
        if self.reload is not None:
            self.reload.failed.pop(worker.slot, None)
            self.reload.failed.pop(MOLD, None)

    def wish(self, worker: Member, why: str) -> bool:
        """Ask for a worker's successor; return False if a successor is on the way already, or the slot is gone."""
        if worker.slot not in self.slots:
            return False
        is_new = worker.slot not in self.asked
        if self.wishes.get(worker.slot, (0, ""))[0] < worker.generation:
            self.wishes.pop(worker.slot, None)  # the last comes last
            self.wishes[worker.slot] = worker.generation, why
        return is_new

    def on_end(self, end: End) -> None:
        """A process has ended, or could not be forked."""
        self.ends.append(end)

    def on_pause(self, slot: int, until: float | None) -> None:
        """No start in a slot before `until`; None: the slot may start at once."""
        if until is None:
            self.retry_at.pop(slot, None)
        else:
            self.retry_at[slot] = until

    def on_unfit(self, mold: Member) -> None:
        """The app of a mold cannot be forked: workers with the plan import the app without a mold."""
        in_use = [plan for plan in self.unfit if any(each.plan is plan for each in self.workers)]
        self.unfit = [*in_use, mold.plan]

    def on_asked(self, why: str) -> bool:
        """Return whether a reload may begin at once; else the new reload begins after the present reload."""
        self.next_why = why
        return self.has_served and not self.is_moving

    def on_upgrade(self, why: str) -> None:
        """New code of our own is asked for, also after a good trial: the code may have changed since."""
        self.upgrade_why = why

    def on_inherited(self, size: int | None, gaps: Iterable[int]) -> None:
        """Workers of the previous code serve; `size`: None if not known."""
        self.has_served, self.size, self.gaps = True, size or self.size, set(gaps)

    def on_stop(self, why: str, now: float, status: int = 0) -> None:
        """A signal ends all; with an exit status at once."""
        self.is_ending = self.is_stop_due = True
        self.is_again, self.stop_why, self.stopped_at = bool(self.stop_why), why, now
        self.upgrade_why, self.has_shown = "", False
        if status:
            self.is_at_once, self.is_wanted, self.exit_status = True, False, status

    def on_unfinished(self) -> None:
        """Requests, workers or programs were cut off at the end."""
        self.exit_status = self.exit_status or 1

    def on_clients(self, is_starting: bool, until: float) -> None:
        """All ends, clients wait, and no worker serves: a starting worker may serve the clients until `until`, and a worker begins if none starts."""
        self.is_awaited, self.is_wanted, self.awaited_until = True, not is_starting, until

    def begin(self, why: str, plan: Plan, now: float) -> None:
        """Replace all workers. Causes of failures until now may have been repaired."""
        self.reload = Reload(why, plan, now, self.next_number, before=self.reload)
        self.next_number, self.fault, self.refusal = self.next_number + 1, None, None
        self.retry_at.clear()

    def refuse(self, now: float, why: str) -> tuple[Question, ...]:
        """A reload is off before the beginning; return the questions to answer."""
        self.refusal = now, why
        asked = self.waiting_for(self.next_number)
        self.next_number += 1
        self.waiting = [each for each in self.waiting if each not in asked]
        return asked

    def on_abandoned(self, now: float, why: str) -> None:
        """The code of a reload, or of an upgrade, could not start, and all is as before."""
        self.refusal = now, why

    def drop(self) -> tuple[Question, ...]:
        """An unproven reload is off, if there is any; return the questions to answer."""
        reload = self.reload
        if reload is None or not self.is_unproven(reload.plan):
            return ()
        asked = self.waiting_for(reload.number)
        self.apply(Action(Do.ABANDON, reload=reload, asked=asked))
        return asked

    def resize(self, size: int, why: str = "") -> None:
        """Set the number of workers."""
        slots = choose_slots(self.slots, size, self.workers)
        self.size, self.gaps, self.why_size = size, set(range(1, max(slots))).difference(slots), why
        reloads = [each for each in (self.reload, self.reload and self.reload.before) if each is not None]
        tables: list[dict[int, Any]] = [self.wishes, self.retry_at, *(each.failed for each in reloads)]
        for table in tables:
            for slot in [slot for slot in table if slot not in slots and slot != MOLD]:
                del table[slot]

    def apply(self, action: Action) -> None:
        """Change the facts as this action does."""
        do, end = action.do, action.end
        self.waiting = [each for each in self.waiting if each not in action.asked]
        if end is not None:
            self.ends.remove(end)
            if end.plan.config.reload and do in (Do.SHOW, Do.ABANDON, Do.RETRY):
                self.fault = end
        if do is Do.PROVE:
            self.plan, action.reload.before = action.reload.plan, None
        elif do is Do.FINISH:
            self.reload = self.fault = None
        elif do is Do.ABANDON:
            self.reload = action.reload.before
        elif do is Do.RETRY:
            if action.reload is not None:
                action.reload.failed[end.slot] = f"{end.name} could not start: {end.why}"
            if end.slot in self.wishes:
                self.wishes[end.slot] = self.wishes.pop(end.slot)  # behind the rest
        elif do is Do.BEGIN:
            self.next_why = ""
        elif do is Do.TRY:
            self.trial_why, self.upgrade_why, self.has_shown = action.why, "", False
        elif do is Do.ACCEPT or do is Do.BECOME:
            self.has_shown = do is Do.ACCEPT
        elif do is Do.STOP or do is Do.STOP_AT_ONCE:
            self.is_stop_due = False
        elif do is Do.GIVE_UP:
            self.is_ending = True
        elif do is Do.AVOID:
            action.worker.is_silent = True
        elif do is Do.STOP_WAITING:
            self.awaited_until, self.is_wanted = NEVER, False
        elif do is Do.NOTE and end.is_unborn:
            self.is_wanted = self.is_awaited  # another mold may fork it
        elif do is Do.MISS or (do is Do.START and action.slot != MOLD):
            self.is_wanted = False
