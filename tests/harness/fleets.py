"""A world for a Fleet: workers are facts alone, and each action is done at once, and checked against the promise."""

from __future__ import annotations

import collections
import types
from typing import Any

from aserve.core.page import MOLD, State
from aserve.processes.fleet.decide import decide
from aserve.processes.fleet.facts import NEVER, End, Member, Question
from aserve.processes.fleet.fleet import Action, Do, Fleet

STARTING, READY, DRAINING, KILLED = State.STARTING, State.READY, State.DRAINING, State.KILLED
PAUSE_SECONDS = 1.0
# Of a world with limits: a worker's time to start, to finish, and to write stacks.
START_SECONDS, DRAIN_SECONDS, STACK_SECONDS = 30.0, 20.0, 2.0


def new_plan(**settings: bool) -> Any:
    """Return a plan: new_plan(preload=True). Plans with the same settings are equal and not the same, as in real life."""
    config = types.SimpleNamespace(**{"preload": False, "reload": False, "reload_at_once": False, **settings})
    return types.SimpleNamespace(config=config)


class World:
    """A Fleet, and the fate of a Fleet; `has_limits`: also of processes beyond their time."""

    def __init__(self, size: int = 2, has_limits: bool = False, **settings: bool) -> None:
        self.now = 0.0
        self._has_limits = has_limits
        self._stood: dict[Member, State] = {}  # of workers killed for a fault
        self.workers: list[Member] = []
        self.fleet = Fleet(new_plan(**settings), size, workers=self.workers)
        self._broken: list[Any] = []  # plans without a possible start
        self.answers: collections.Counter[Question] = collections.Counter()
        self.asked: list[Question] = []
        self._settings = settings
        self._generations: collections.Counter[int] = collections.Counter()
        self.settle()

    # Doing due acts

    def settle(self) -> list[Action]:
        """Do due acts until there is none; return the acts."""
        done: list[Action] = []
        while actions := decide(self.fleet, self.now):
            for action in actions:
                self._check(action)
                self.fleet.apply(action)
                self._do(action)
            done += actions
            assert len(done) < 1000, "this goes on for ever"
        return done

    def _check(self, action: Action) -> None:
        """Check an action against the promises to users."""
        do, worker, fleet = action.do, action.worker, self.fleet
        if do is Do.START:
            assert not self.find(STARTING, slot=action.slot, plan=action.plan), "two start in one slot for one plan"
            assert (action.plan is fleet.target and fleet.retry_at.get(action.slot, 0) <= self.now) or fleet.is_ending
            assert worker is None or ((worker.slot, worker.state) == (MOLD, READY) and not worker.is_silent)
        elif do is Do.DRAIN:
            assert worker.state in (STARTING, READY)
            if worker.state is READY and worker.slot in fleet.slots and not fleet.is_ending:
                others = [each for each in self.find(READY, slot=worker.slot) if each is not worker]
                assert others, "a slot is left without a server"
        elif do is Do.PROVE:
            assert worker.state is READY and not self.is_broken(worker.plan)
        elif do is Do.FINISH:
            plan, slots = action.reload.plan, {each.slot for each in self.find(READY)}
            assert slots.issuperset(fleet.slots) and plan is fleet.plan
            assert all(
                each.plan is plan for each in self.find(READY, DRAINING) if not each.has_left and not each.is_silent
            )
        elif do is Do.ABANDON:
            assert not self.is_broken(fleet.plan)
        elif do is Do.GIVE_UP:
            assert not fleet.has_served
        elif do is Do.ANSWER and worker is not None:
            assert worker.state is READY and worker.generation > action.asked[0].generation

    def _do(self, action: Action) -> None:
        do, end = action.do, action.end
        self.answers.update(action.asked)
        if do is Do.START:
            self._generations[action.slot] += 1
            generation = self._generations[action.slot]
            worker = Member(action.slot, generation, action.plan, mold=action.worker)
            self.workers.append(worker)
            if worker.mold is None:
                self._limit(worker, START_SECONDS)
            elif self._has_limits:
                worker.asked_at = self.now
        elif do is Do.DRAIN:
            self.drain(action.worker)
        elif do is Do.KILL:
            self.kill(action.worker, bool(action.why), bool(action.why))
        elif do is Do.OVERDUE:
            worker = action.worker
            self.kill(worker, worker.state is not KILLED, worker.state is STARTING)
        elif do is Do.STOP_WAITING:
            for worker in self.find(STARTING, READY, DRAINING):
                self.kill(worker, True)
        elif do is Do.BEGIN:
            self.fleet.begin(action.why, new_plan(**self._settings), self.now)
        elif do in (Do.RESTART, Do.RETRY, Do.ABANDON) and end is not None:
            self.fleet.retry_at[end.slot] = self.now + PAUSE_SECONDS

    # The present workers

    def find(self, *states: State, slot: int | None = None, plan: Any = None) -> list[Member]:
        """Return the workers in one of these states; of a slot, or of a plan. Without a slot: no molds."""
        return [
            each
            for each in self.workers
            if each.state in states
            and (each.is_worker if slot is None else each.slot == slot)
            and (plan is None or each.plan is plan)
        ]

    def is_broken(self, plan: Any) -> bool:
        """Whether no worker can start with this plan."""
        return any(plan is each for each in self._broken)

    def slots(self, *states: State) -> list[int]:
        """Return the slots of the workers in one of these states."""
        return [each.slot for each in self.find(*states)]

    def is_dying(self, worker: Member) -> bool:
        """Tell whether the kernel ends the worker: killed, or unborn with the mold gone."""
        is_forked = worker.mold is None
        return worker.mold not in self.workers if not is_forked else worker.state is KILLED and worker.due_at == NEVER

    @property
    def is_at_rest(self) -> bool:
        """Tell whether all is in the state meant."""
        fleet = self.fleet
        if fleet.is_ending:
            return not self.workers and not fleet.is_wanted
        is_whole = sorted(self.slots(READY)) == fleet.slots
        is_still = all(each.state is READY for each in self.workers)
        return is_whole and is_still and fleet.reload is None and not fleet.next_why and not fleet.upgrade_why

    # Events of one worker

    def _limit(self, worker: Member, seconds: float) -> None:
        worker.due_at = self.now + seconds if self._has_limits else NEVER

    def drain(self, worker: Member) -> None:
        """Let the worker finish, and end."""
        worker.state = DRAINING
        self._limit(worker, DRAIN_SECONDS)

    def kill(self, worker: Member, is_fault: bool = False, writes: bool = False) -> None:
        """End the worker; `writes`: with time for stacks."""
        if is_fault:
            self._stood.setdefault(worker, worker.state)
        worker.state, worker.due_at = KILLED, NEVER
        if writes:
            self._limit(worker, STACK_SECONDS)

    def begin(self, worker: Member) -> None:
        """Let the mold fork the worker, if due."""
        if worker.mold is not None:
            worker.mold.is_silent, worker.mold.forked_at = False, self.now
            worker.mold = None
            if worker.state is STARTING:
                self._limit(worker, START_SECONDS)

    # Events

    def ready(self, worker: Member) -> list[Action]:
        """Let a worker, or a mold, serve; return the acts."""
        assert worker.state is STARTING and not self.is_broken(worker.plan)
        self.begin(worker)
        worker.state, worker.due_at = READY, NEVER
        if worker.is_worker:
            self.fleet.on_ready(worker)
        return self.settle()

    def start(self) -> World:
        """Let all starters serve, until nothing starts any more."""
        while starting := self.find(STARTING) + self.find(STARTING, slot=MOLD):
            self.ready(starting[0])
        return self

    def end(self, worker: Member, is_fault: bool = False, is_unborn: bool = False) -> list[Action]:
        """Let a worker end, alone, or by order; `is_fault`: killed for a fault while serving; `is_unborn`: before its fork."""
        self.workers.remove(worker)
        stood = READY if is_fault else self._stood.pop(worker, worker.state)
        self.fleet.ends.append(
            End(worker.slot, worker.plan, stood, f"worker {worker.slot}", "it ended", is_unborn=is_unborn)
        )
        return self.settle()

    def leave(self) -> list[Action]:
        """Let draining workers accept no connections any more."""
        for worker in self.find(DRAINING):
            worker.has_left = True
        return self.settle()

    def turn(self, seconds: float) -> list[Action]:
        """Let so much time pass."""
        self.now += seconds
        return self.settle()

    def wake(self) -> list[Action]:
        """Let the time pass until something may be due."""
        self.now = self.fleet.next_at(self.now)
        assert self.now != NEVER, "nothing is due, and nothing will be"
        return self.settle()

    def reload(self, is_broken: bool = False, **settings: bool) -> Any:
        """Ask for a reload, to this plan if one begins now; return the plan."""
        plan = new_plan(**{**self._settings, **settings})
        if is_broken:
            self._broken.append(plan)
        if self.fleet.is_moving or not self.fleet.has_served:
            self.fleet.next_why = "again"
        else:
            self.fleet.begin("reload", plan, self.now)
        self.settle()
        return plan

    def refuse(self) -> list[Action]:
        """Let a reload fail before it begins."""
        self.answers.update(self.fleet.refuse(self.now, "a mistake"))
        return self.settle()

    def drop(self) -> None:
        """Abandon an unproven reload."""
        self.answers.update(self.fleet.drop())

    def ask(self, **about: int) -> Question:
        """Let a caller wait: ask(reload=number), or ask(slot=…, generation=…)."""
        question = Question("caller", **about)
        self.asked.append(question)
        self.fleet.waiting.append(question)
        return question

    def recycle(self, worker: Member) -> Question:
        """Ask for a worker's successor, and wait."""
        self.fleet.wish(worker, "recycle")
        question = self.ask(slot=worker.slot, generation=worker.generation)
        self.settle()
        return question


def dos(actions: list[Action]) -> list[Do]:
    return [action.do for action in actions]


def serving(size: int = 2, **settings: bool) -> World:
    """Return a world whose workers serve."""
    return World(size, **settings).start()


def newest(world: World, slot: int) -> Member:
    """Return the last worker of a slot."""
    return world.find(STARTING, READY, DRAINING, KILLED, slot=slot)[-1]
