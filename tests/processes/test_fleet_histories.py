"""Whatever comes, and in whatever order: no slot loses its server, broken code is never proven, each question has one answer, and all comes to rest."""

from __future__ import annotations

import hypothesis.strategies as st
from harness.examples import EXAMPLES
from harness.fleets import DRAINING, KILLED, PAUSE_SECONDS, READY, STARTING, World
from harness.interpreter import IS_PYPY
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from aserve.core.page import MOLD
from aserve.processes.facts import End

SIZES = st.integers(1, 4)
NUMBERS = st.integers(0, 99)
CHANCES = st.booleans()


class Histories(RuleBasedStateMachine):
    """Events, each with any worker that it may befall."""

    @initialize(size=SIZES, preload=CHANCES, looks=CHANCES, at_once=CHANCES)
    def begin(self, size, preload, looks, at_once):
        """Start with any settings."""
        self.world = World(size, preload=preload, reload=looks, reload_at_once=at_once)
        self.fleet = self.world.fleet

    def pick(self, number, *states, molds=False):
        """Return any of the workers in one of these states, or of the molds; None: there is none."""
        world = self.world
        found = world.find(*states, slot=MOLD) if molds else world.find(*states)
        return found[number % len(found)] if found else None

    # What workers do

    @rule(number=NUMBERS)
    def goes_on(self, number):
        """One that starts serves, if its code is not broken."""
        worker = self.pick(number, STARTING)
        if worker is None:
            return
        if worker.mold is not None and worker.mold not in self.world.workers:
            self.world.end(worker)  # it was never forked
        elif worker.mold is None or not worker.mold.is_silent:
            if self.world.is_broken(worker.plan):
                self.world.end(worker)
            else:
                self.world.ready(worker)

    @rule(number=NUMBERS, is_fit=CHANCES)
    def mold_goes_on(self, number, is_fit):
        """A mold is ready, or its app cannot be forked."""
        mold = self.pick(number, STARTING, molds=True)
        if mold is not None and self.world.is_broken(mold.plan):
            self.world.end(mold)
        elif mold is not None and is_fit:
            self.world.ready(mold)
        elif mold is not None:
            self.fleet.unfit.append(mold.plan)
            mold.state = DRAINING
            self.world.settle()

    @rule(number=NUMBERS, molds=CHANCES)
    def fails(self, number, molds):
        """One that starts ends."""
        worker = self.pick(number, STARTING, molds=molds)
        if worker is not None:
            self.world.end(worker)

    @rule(number=NUMBERS, molds=CHANCES)
    def crashes(self, number, molds):
        """One that serves ends."""
        worker = self.pick(number, READY, molds=molds)
        if worker is not None:
            self.world.end(worker)

    @rule(number=NUMBERS, has_ended=CHANCES, molds=CHANCES)
    def ends(self, number, has_ended, molds):
        """One that was told to end does; or it accepts no connections any more."""
        worker = self.pick(number, DRAINING, KILLED, molds=molds)
        if worker is not None and has_ended:
            self.world.end(worker)
        elif worker is not None:
            worker.has_left = worker.state is DRAINING
            self.world.settle()

    @rule(number=NUMBERS)
    def hangs(self, number):
        """An event loop stands still: it is to have a successor."""
        worker = self.pick(number, READY)
        if worker is not None:
            worker.is_hung = True
            self.fleet.wish(worker, "it hangs")
            self.world.settle()

    @rule(number=NUMBERS, molds=CHANCES)
    def is_too_late(self, number, molds):
        """One has not gone on in its time."""
        worker = self.pick(number, STARTING, DRAINING, molds=molds)
        if worker is not None:
            worker.state = KILLED
            self.world.settle()

    @rule(number=NUMBERS)
    def mold_is_silent(self, number):
        """A mold does not do what it was told."""
        mold = self.pick(number, READY, molds=True)
        if mold is not None:
            mold.is_silent = True
            self.world.settle()
            assert all(each.mold is not mold for each in self.world.find(STARTING))

    @rule()
    def cannot_fork(self):
        """There is no room for one more process."""
        self.fleet.ends.append(End(1, self.fleet.target, STARTING, "worker 1", "it could not be forked"))
        self.world.settle()

    # What people ask

    @rule(is_broken=CHANCES, preload=CHANCES, at_once=CHANCES)
    def reload(self, is_broken, preload, at_once):
        """All workers are to be replaced, and a caller waits."""
        if not self.fleet.is_ending:
            waits = self.fleet.next_number
            self.world.ask(reload=waits)
            self.world.reload(is_broken, preload=preload, reload_at_once=at_once)

    @rule()
    def refuse(self):
        """The settings cannot be read."""
        if self.fleet.has_served and not self.fleet.is_moving and not self.fleet.is_ending:
            self.world.refuse()

    @rule()
    def change(self):
        """With --reload, a file is saved: what is not proven is of no use any more."""
        if self.fleet.has_served and not self.fleet.is_ending and self.fleet.target.config.reload:
            self.world.drop()
            self.world.reload(reload=True)

    @rule(number=NUMBERS)
    def recycle(self, number):
        """A worker is to be replaced, and a caller waits."""
        worker = self.pick(number, READY)
        if worker is not None and not self.fleet.is_ending:
            self.world.recycle(worker)

    @rule(size=SIZES, after=SIZES)
    def resize(self, size, after):
        """There are to be more workers, or fewer; and again before anything was done about it."""
        self.fleet.resize(size)
        self.fleet.resize(after)
        self.world.settle()

    @rule()
    def upgrade(self):
        """New code of our own is to be tried."""
        self.fleet.is_upgrade_due = True
        self.world.settle()

    @rule(seconds=st.sampled_from([0.1, PAUSE_SECONDS]))
    def turn(self, seconds):
        """Time passes."""
        self.world.turn(seconds)

    @rule(is_meant=st.integers(0, 30), is_at_once=CHANCES, waits=CHANCES)
    def stop(self, is_meant, is_at_once, waits):
        """All is to end, now and then."""
        if is_meant or not self.world.workers:
            return
        if not self.world.find(READY) and self.fleet.has_served and not self.fleet.is_ending:
            self.fleet.is_awaited, self.fleet.is_wanted = waits, waits and not self.world.find(STARTING)
        self.fleet.is_ending, self.fleet.is_at_once = True, is_at_once
        self.world.settle()

    # What holds at any time

    @invariant()
    def holds(self):
        """Code that is broken is not proven; at most as many start beside those that serve as may; each caller has one answer."""
        if not hasattr(self, "world"):
            return
        world, fleet = self.world, self.fleet
        assert not world.is_broken(fleet.plan)
        assert not fleet.ends and set(world.answers.values()) <= {1}
        assert set(world.answers).isdisjoint(fleet.waiting)
        serving = set(world.slots(READY))
        assert len(serving) == len(world.slots(READY)), "two serve in one slot"
        beside = serving.intersection(world.slots(STARTING))
        assert len(beside) <= 1 or fleet.target.config.reload_at_once or fleet.is_ending
        assert fleet.is_ending or all(slot <= fleet.size for slot in world.slots(STARTING, READY))

    def teardown(self):
        """From now on all goes well, but for what is broken: all comes to rest where it is meant to be."""
        if not hasattr(self, "world"):
            return
        world, fleet = self.world, self.fleet
        for _ in range(60):
            world.turn(PAUSE_SECONDS)
            for worker in list(world.workers):
                if worker in world.workers:
                    self._go_on(worker)
        if fleet.is_ending:
            assert not world.workers and not fleet.is_wanted
        else:
            assert sorted(world.slots(READY)) == list(range(1, fleet.size + 1)) and fleet.reload is None
            assert not world.find(STARTING, DRAINING, KILLED) and not fleet.next_why
            assert all(each.plan is fleet.plan for each in world.workers)
            assert not fleet.is_upgrade_due
        assert not fleet.waiting and world.answers == dict.fromkeys(world.asked, 1)

    def _go_on(self, worker):
        if worker.state is not STARTING:
            if worker.state is not READY or worker.is_silent:
                worker.state = KILLED if worker.is_silent else worker.state
                self.world.end(worker)
        elif (worker.mold is not None and worker.mold not in self.world.workers) or self.world.is_broken(worker.plan):
            self.world.end(worker)
        else:
            self.world.ready(worker)


def test_histories():
    """They are the same ones each time."""
    run_state_machine_as_test(
        Histories, settings=settings(EXAMPLES, max_examples=20 if IS_PYPY else 100, stateful_step_count=30)
    )
