"""The decisions of the supervisor: the actions due now, by the facts and the time alone.

Owns:     decide, and its rules.
Thread:   the supervisor's only one; pure: no fork, clock, socket or log.
Not here: the facts, and the changes by an action (fleet.py), acting (acts.py).

`decide` is to be called after every event, and at `next_at`; and again after the actions, until no action is due. `decide` looks at facts alone: so the kind
of event does not matter, nor a missed event. The first rule with actions counts: see SERVING and ENDING at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.page import MOLD, TRIAL, State
from .facts import End
from .fleet import Action, Do, Fleet

STARTING, READY, DRAINING, KILLED = State.STARTING, State.READY, State.DRAINING, State.KILLED


def decide(fleet: Fleet, now: float) -> list[Action]:
    """Return the actions due now; an empty list: no action is due until the next event, or `next_at`."""
    for rule in ENDING if fleet.is_ending else SERVING:
        if actions := list(rule(fleet, now)):
            return actions
    return []


def _see_to_end(fleet: Fleet, now: float) -> Iterator[Action]:
    """Ends in turn: the consequence of the next end may depend on the consequence of the first."""
    for end in fleet.ends[:1]:
        do = _judge(fleet, end)
        reload = fleet.reload if do in (Do.ABANDON, Do.RETRY) else None
        asked = [each for each in fleet.waiting if do is Do.RETRY and each.slot == end.slot]
        if reload is not None:
            asked += fleet.waiting_for(reload.number)
        yield Action(do, end=end, reload=reload, asked=tuple(asked))


def _judge(fleet: Fleet, end: End) -> Do:
    if end.slot == TRIAL and end.stood is not KILLED and not fleet.is_ending:
        return Do.REJECT if end.stood is STARTING else Do.ACCEPT
    if end.stood in (DRAINING, KILLED) or end.slot == TRIAL:
        return Do.NOTE
    if end.stood is READY and not fleet.is_unproven(end.plan):
        return Do.RESTART
    if fleet.is_ending or (end.slot != MOLD and end.slot not in fleet.slots):
        return Do.MISS if fleet.is_awaited and not end.is_unborn else Do.NOTE
    if end.plan is not fleet.target:
        return Do.IGNORE
    # A fault that is shown already: the worker for showing has failed, without a fault of the app.
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
            return  # the next forks of the mold are late, too


def _advance(fleet: Fleet, now: float) -> Iterator[Action]:
    if not (fleet.reload or fleet.next_why or fleet.upgrade_why or fleet.has_shown):
        return
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
    elif (fleet.upgrade_why or fleet.has_shown) and fleet.has_served and reload is None and not is_busy:
        yield Action(Do.TRY, why=fleet.upgrade_why, plan=fleet.plan) if fleet.upgrade_why else Action(Do.BECOME)


def _let_go(fleet: Fleet, now: float) -> Iterator[Action]:
    """Let go of starting and serving workers for different code, without a slot, or with a serving successor."""
    newest = fleet.newest
    for worker in fleet.workers:
        is_extra = worker.is_worker and worker.slot not in fleet.slots
        if worker.state is STARTING and worker.slot != TRIAL:
            if is_extra or worker.has_silent_mold or worker.plan is not fleet.target:
                yield Action(Do.DRAIN, worker)
        elif worker.state is READY and worker.slot == TRIAL:
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
    if not fleet.waiting:
        return
    newest, asked = fleet.newest, fleet.asked
    for question in [each for each in fleet.waiting if each.slot or fleet.is_ending]:
        new = None if fleet.is_ending else newest.get(question.slot)
        if new is not None and new.generation > question.generation:
            yield Action(Do.ANSWER, new, asked=(question,))
        elif fleet.is_ending or question.slot not in fleet.slots or (new is not None and question.slot not in asked):
            yield Action(Do.ANSWER, asked=(question,))


def _start(fleet: Fleet, now: float) -> Iterator[Action]:
    """A mold before workers, the first worker before the rest; then slots without a serving worker; then successors, as many as may be."""
    plan, newest, mold = fleet.target, fleet.newest, None
    coming = {each.slot for each in fleet.workers if each.state in (STARTING, KILLED)}  # the end decides
    paused = {slot for slot, at in fleet.retry_at.items() if now < at and not fleet.is_ending}
    if plan.config.preload and all(plan is not each for each in fleet.unfit):
        molds = [each for each in fleet.workers if each.slot == MOLD and each.plan is plan and each.state != DRAINING]
        mold = next((each for each in molds if each.state is READY and not each.is_silent), None)
        if not molds and MOLD not in paused:
            yield Action(Do.START, slot=MOLD, plan=plan)
        if mold is None and not any(each.is_silent for each in molds):
            return  # a mold is being made
    slots = set(fleet.slots if fleet.has_served and not fleet.is_ending else fleet.slots[:1])
    asked, hung = [] if fleet.is_ending else fleet.asked, {slot for slot in newest if newest[slot].is_hung}
    width = fleet.size if fleet.reload is not None and plan.config.reload_at_once else 1
    for slot in [*sorted(slots.difference(newest)), *asked]:
        before = [each for each in coming.intersection(asked) if (each in hung) == (slot in hung)]
        if (slot not in newest or len(before) < width) and slot not in coming and slot not in paused:
            coming.add(slot)
            yield Action(Do.START, mold, slot=slot, plan=plan)


def _stop(fleet: Fleet, now: float) -> Iterator[Action]:
    if fleet.is_stop_due:
        yield Action(Do.STOP_AT_ONCE if fleet.is_at_once else Do.STOP, why=fleet.stop_why)


def _end_all(fleet: Fleet, now: float) -> Iterator[Action]:
    """Drain serving and starting workers, but awaited workers; or kill all, at once."""
    if fleet.awaited_until <= now:
        yield Action(Do.STOP_WAITING, why="the worker that was to begin" if fleet.is_wanted else "")
        return
    for worker in fleet.workers:
        if fleet.is_at_once:
            if worker.state is not KILLED:
                yield Action(Do.KILL, worker)
        elif worker.state is READY or worker.state is STARTING:
            is_kept = fleet.is_wanted if worker.slot == MOLD else fleet.is_awaited and worker.state is STARTING
            is_kept = is_kept and worker.slot != TRIAL
            if not is_kept:
                yield Action(Do.DRAIN, worker)
    if fleet.is_wanted and not fleet.is_at_once:
        yield from _start(fleet, now)


SERVING = (_see_to_end, _hurry, _advance, _let_go, _answer, _start)
ENDING = (_stop, _see_to_end, _hurry, _answer, _end_all)
