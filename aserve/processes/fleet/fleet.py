"""The fleet of workers, and the next actions to reach the wanted state: facts in, actions out.

Owns:     Fleet, the facts; how events and actions change them; decide, which follows from them and the time alone.
Thread:   the supervisor's only one; pure: no fork, clock, socket or log, and of this room facts.py alone.
Not here: the facts about one process, end, reload or question (facts.py), processes (children.py), settings (plan.py), acting (reactions.py).

`decide` is to be called after every event, and at `next_at`; and again once its actions are done, until it returns none. It looks at facts alone:
so it does not matter which event came, or whether one was missed. The first rule that finds something counts: see SERVING and ENDING at the end.

A *plan* is code and settings. It is proven once a worker serves with it. The *target* is the plan of a reload that is under way, else the proven one.

| a reload      | when                                          | if a worker, or its mold, cannot start                                       |
|---|---|---|
| is not proven | until the first worker serves with its plan   | it is abandoned, and all is as before; a half-done one goes on               |
| is proven     | until each slot has one, and no other accepts | it is half done: there is another try, and another reload may take its place |
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, TRIAL, State
from .facts import NEVER, End, Member, Plan, Question, Reload, choose_slots

STARTING, READY, DRAINING, KILLED = State.STARTING, State.READY, State.DRAINING, State.KILLED


class Do(enum.Enum):
    """What is to be done."""

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
    ADVANCE = "try new code of our own, or become it"
    # What follows from an end.
    NOTE = "it was told to end, or nothing depends on it any more"
    RESTART = "it served: let its slot wait before another is started"
    MISS = "clients waited for it, and all ends"
    GIVE_UP = "it was the first of all, and could not start: there is nothing to serve"
    SHOW = "--reload: start another at once, which shows the fault until the app is mended"
    IGNORE = "a reload has begun since it was started, and starts another"
    ABANDON = "the reload is off, as its first worker could not start, or its code has changed since"
    RETRY = "it could not start: let its slot wait before the next try"


class Action(NamedTuple):
    """One thing to be done, and what it is about."""

    do: Do
    worker: Any = None
    why: str = ""
    slot: int = 0
    plan: Plan = None
    end: Any = None  # an End
    reload: Any = None  # a Reload
    asked: tuple[Question, ...] = ()  # are answered with it


@dataclass(eq=False)
class Fleet:
    """The facts."""

    plan: Plan  # the proven one; at first the only one
    size: int  # the number of workers there should be
    gaps: set[int] = field(default_factory=set)  # slots that are left out, as their workers were too many
    why_size: str = ""  # why there are to be fewer than there were
    workers: Iterable[Member] = ()  # all that have not been reaped, molds and trials among them; the oldest first
    has_served: bool = False  # a worker was ready once: there is something to serve
    ends: list[End] = field(default_factory=list)  # not handled yet
    retry_at: dict[int, float] = field(default_factory=dict)  # slot: no start before
    wishes: dict[int, tuple[int, str]] = field(default_factory=dict)  # slot: up to which generation, why
    reload: Reload | None = None  # that is under way
    next_number: int = 1  # of the next reload
    next_why: str = ""  # why another is to begin, after the one that is under way
    refusal: tuple[float, str] | None = None  # when and why the last one was refused, until another begins
    unfit: list[Plan] = field(default_factory=list)  # whose app cannot be forked: they have no mold
    fault: End | None = None  # --reload: why the app cannot start, which workers show
    is_upgrade_due: bool = False  # new code of our own is to be tried, or to take over, once none is being tried
    waiting: list[Question] = field(default_factory=list)
    is_ending: bool = False  # all of it ends: no worker is to begin any more
    is_at_once: bool = False  # the same, and none is to finish what it has
    is_awaited: bool = False  # all ends, clients wait, and no worker serves: those that start may do so, and serve them
    is_wanted: bool = False  # the same, and none starts: one may begin
    awaited_until: float = NEVER  # when that ends

    @property
    def slots(self) -> list[int]:
        """The slots of the workers that there should be: from 1 on, but for gaps."""
        return [slot for slot in range(1, self.size + len(self.gaps) + 1) if slot not in self.gaps]

    @property
    def target(self) -> Plan:
        """The plan for which workers are started."""
        return self.reload.plan if self.reload is not None else self.plan

    @property
    def is_moving(self) -> bool:
        """Whether a reload is on its way to its end: one that is half done may never be there."""
        return self.reload is not None and not self.reload.failed

    def is_unproven(self, plan: Plan) -> bool:
        """Whether this is the plan of a reload with which no worker has served yet."""
        return plan is not self.plan and plan is self.target

    @property
    def newest(self) -> dict[int, Member]:
        """The worker that serves in each slot; of several the one that has begun last."""
        return {each.slot: each for each in self.workers if each.state is READY}

    @property
    def asked(self) -> list[int]:
        """The slots in which a successor is yet to serve, by a wish or for a reload, in their turn: what has failed comes last."""
        newest, reload, slots = self.newest, self.reload, self.slots
        wishes = {slot: last for slot, (last, _) in self.wishes.items() if slot in slots}
        wished = [slot for slot, last in wishes.items() if slot not in newest or newest[slot].generation <= last]
        wished.sort(key=lambda slot: slot not in newest or not newest[slot].is_hung)
        if reload is None:
            return wished
        owed = {slot for slot in slots if slot not in newest or newest[slot].plan is not reload.plan}
        return wished + sorted(owed.difference(wished), key=lambda slot: (slot in reload.failed, slot))

    def next_at(self, now: float) -> float:
        """Return the first time after `now` at which something may be due that was not; NEVER: only an event can change that."""
        limits = [at for each in self.workers for at in (each.due_at, each.fork_due_at)]
        return min((at for at in [*limits, *self.retry_at.values(), self.awaited_until] if at > now), default=NEVER)

    def waiting_for(self, reload: int) -> tuple[Question, ...]:
        """Return the questions that the end of the reload with this number answers."""
        return tuple(each for each in self.waiting if 0 < each.reload <= reload)

    def on_ready(self, worker: Member) -> None:
        """A worker serves: what could not start in its slot, or as its mold, now can."""
        self.has_served = True
        if self.reload is not None:
            self.reload.failed.pop(worker.slot, None)
            self.reload.failed.pop(MOLD, None)

    def wish(self, worker: Member, why: str) -> bool:
        """Ask for a worker's successor; return False if one is on its way already, or the slot is none any more."""
        if worker.slot not in self.slots:
            return False
        is_new = worker.slot not in self.asked
        if self.wishes.get(worker.slot, (0, ""))[0] < worker.generation:
            self.wishes.pop(worker.slot, None)  # the last comes last
            self.wishes[worker.slot] = worker.generation, why
        return is_new

    def begin(self, why: str, plan: Plan, now: float) -> None:
        """Replace all workers. What could not start until now may have been repaired."""
        self.reload = Reload(why, plan, now, self.next_number, before=self.reload)
        self.next_number, self.fault, self.refusal = self.next_number + 1, None, None
        self.retry_at.clear()

    def refuse(self) -> tuple[Question, ...]:
        """A reload is off before it has begun; return the questions that this answers."""
        asked = self.waiting_for(self.next_number)
        self.next_number += 1
        self.waiting = [each for each in self.waiting if each not in asked]
        return asked

    def drop(self) -> tuple[Question, ...]:
        """A reload that is not proven is off, if there is one; return the questions that this answers."""
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
                self.wishes[end.slot] = self.wishes.pop(end.slot)  # behind the others
        elif do is Do.BEGIN:
            self.next_why = ""
        elif do is Do.GIVE_UP:
            self.is_ending = True
        elif do is Do.AVOID:
            action.worker.is_silent = True
        elif do is Do.STOP_WAITING:
            self.awaited_until = NEVER
        elif do is Do.MISS or (do is Do.START and action.slot != MOLD):
            self.is_wanted = False


def decide(fleet: Fleet, now: float) -> list[Action]:
    """Return what is due now; none: nothing is until the next event, or `next_at`."""
    rules = ENDING if fleet.is_ending else SERVING
    return next(filter(None, (list(rule(fleet, now)) for rule in rules)), [])


def _see_to_end(fleet: Fleet, now: float) -> Iterator[Action]:
    """One after another: what follows from the next may depend on it."""
    for end in fleet.ends[:1]:
        do = _judge(fleet, end)
        reload = fleet.reload if do in (Do.ABANDON, Do.RETRY) else None
        asked = [each for each in fleet.waiting if do is Do.RETRY and each.slot == end.slot]
        if reload is not None:
            asked += fleet.waiting_for(reload.number)
        yield Action(do, end=end, reload=reload, asked=tuple(asked))


def _judge(fleet: Fleet, end: End) -> Do:
    if end.stood in (DRAINING, KILLED):
        return Do.NOTE
    if end.stood is READY and not fleet.is_unproven(end.plan):
        return Do.RESTART
    if fleet.is_ending or (end.slot != MOLD and end.slot not in fleet.slots):
        return Do.MISS if fleet.is_awaited else Do.NOTE
    if end.plan is not fleet.target:
        return Do.IGNORE
    # A fault that is shown already: the worker that was to show it has failed, which is no fault of the app's.
    if end.plan.config.reload and fleet.fault is None and not fleet.is_unproven(end.plan):
        return Do.SHOW
    if not fleet.has_served:
        return Do.GIVE_UP
    return Do.ABANDON if fleet.is_unproven(end.plan) else Do.RETRY


def _hurry(fleet: Fleet, now: float) -> Iterator[Action]:
    for each in fleet.workers:
        if each.due_at <= now:
            yield Action(Do.OVERDUE, each)
        elif each.fork_due_at <= now:
            late = f"it has not forked {each} within {each.fork_seconds:g} s"
            yield Action(Do.KILL if each.has_silent_mold else Do.AVOID, each.mold, late)
            return  # others that it is to fork are late, too


def _advance(fleet: Fleet, now: float) -> Iterator[Action]:
    reload, workers = fleet.reload, [each for each in fleet.workers if each.is_worker]
    is_busy = any(each.mold or each.slot == TRIAL for each in fleet.workers)  # new code, or a mold to fork
    if reload is not None and fleet.is_unproven(reload.plan):
        new = [each for each in workers if each.state is READY and each.plan is reload.plan]
        if new:
            yield Action(Do.PROVE, new[0], plan=fleet.plan, reload=reload)
    elif reload is not None and fleet.newest.keys() >= set(fleet.slots):
        accepting = [each for each in workers if each.accepts]
        if all(each.plan is reload.plan for each in accepting):
            yield Action(Do.FINISH, reload=reload, asked=fleet.waiting_for(reload.number))
    if fleet.next_why and fleet.has_served and not fleet.is_moving:
        yield Action(Do.BEGIN, why=fleet.next_why)
    elif fleet.is_upgrade_due and fleet.has_served and reload is None and not is_busy:
        yield Action(Do.ADVANCE)


def _let_go(fleet: Fleet, now: float) -> Iterator[Action]:
    """Of those that start or serve, all that are for other code, in a slot that is none, or have a successor that serves."""
    newest = fleet.newest
    for worker in fleet.workers:
        is_extra = worker.is_worker and worker.slot not in fleet.slots
        if worker.state is STARTING and worker.slot != TRIAL:
            if is_extra or worker.has_silent_mold or worker.plan is not fleet.target:
                yield Action(Do.DRAIN, worker)
        elif worker.state is READY and worker.slot == MOLD:
            if worker.plan is not fleet.target and worker.plan is not fleet.plan:
                yield Action(Do.DRAIN, worker)
        elif worker.state is READY and worker.is_worker and (is_extra or newest[worker.slot] is not worker):
            last, wish = fleet.wishes.get(worker.slot, (0, ""))
            why = wish if worker.generation <= last else fleet.reload.why if fleet.reload is not None else ""
            yield Action(Do.DRAIN, worker, fleet.why_size if is_extra else why)
            if worker.is_hung:
                yield Action(
                    Do.KILL, worker, "its event loop hangs" + ("" if is_extra else ", and its successor serves")
                )


def _answer(fleet: Fleet, now: float) -> Iterator[Action]:
    newest, asked = fleet.newest, fleet.asked
    for question in [each for each in fleet.waiting if each.slot or fleet.is_ending]:
        new = None if fleet.is_ending else newest.get(question.slot)
        if new is not None and new.generation > question.generation:
            yield Action(Do.ANSWER, new, asked=(question,))
        elif fleet.is_ending or question.slot not in fleet.slots or (new is not None and question.slot not in asked):
            yield Action(Do.ANSWER, asked=(question,))


def _start(fleet: Fleet, now: float) -> Iterator[Action]:
    """A mold before workers, the first of all before others; then where none serves; then successors, as many as may be."""
    plan, newest, mold = fleet.target, fleet.newest, None
    coming = {each.slot for each in fleet.workers if each.state in (STARTING, KILLED)}  # its end decides what follows
    paused = {slot for slot, at in fleet.retry_at.items() if now < at and not fleet.is_ending}
    if plan.config.preload and all(plan is not each for each in fleet.unfit):
        molds = [each for each in fleet.workers if each.slot == MOLD and each.plan is plan and each.state != DRAINING]
        mold = next((each for each in molds if each.state is READY and not each.is_silent), None)
        if not molds and MOLD not in paused:
            yield Action(Do.START, slot=MOLD, plan=plan)
        if mold is None and not any(each.is_silent for each in molds):
            return  # one is being made
    slots = set(fleet.slots if fleet.has_served and not fleet.is_ending else fleet.slots[:1])
    asked, hung = [] if fleet.is_ending else fleet.asked, {slot for slot in newest if newest[slot].is_hung}
    width = fleet.size if fleet.reload is not None and plan.config.reload_at_once else 1
    for slot in [*sorted(slots.difference(newest)), *asked]:
        before = [each for each in coming.intersection(asked) if (each in hung) == (slot in hung)]
        if (slot not in newest or len(before) < width) and slot not in coming and slot not in paused:
            coming.add(slot)
            yield Action(Do.START, mold, slot=slot, plan=plan)


def _end_all(fleet: Fleet, now: float) -> Iterator[Action]:
    """Those that serve and start, but what is awaited; or all, at once."""
    if fleet.awaited_until <= now:
        yield Action(Do.STOP_WAITING)
        return
    for worker in fleet.workers:
        if fleet.is_at_once:
            if worker.state is not KILLED:
                yield Action(Do.KILL, worker)
        elif worker.state is READY or worker.state is STARTING:
            is_kept = fleet.is_wanted if worker.slot == MOLD else fleet.is_awaited and worker.state is STARTING
            if not is_kept:
                yield Action(Do.DRAIN, worker)
    if fleet.is_wanted and not fleet.is_at_once:
        yield from _start(fleet, now)


SERVING = (_see_to_end, _hurry, _advance, _let_go, _answer, _start)
ENDING = (_see_to_end, _hurry, _answer, _end_all)
