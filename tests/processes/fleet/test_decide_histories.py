"""Whatever comes, and in whatever order: no slot loses its server, broken code is never proven, each question has one answer, and all comes to rest.

Processes may stand still for ever. Time passes only until `Fleet.next_at`, as in the supervisor's loop: a missing limit, or a missed wake-up, would
leave them there.
"""

import hypothesis.strategies as st
from harness.examples import EXAMPLES
from harness.fleets import DRAINING, KILLED, PAUSE_SECONDS, READY, STARTING, World
from harness.interpreter import IS_PYPY
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from aserve.core.page import MOLD
from aserve.processes.fleet.facts import NEVER, End

SIZES = st.integers(1, 4)
NUMBERS = st.integers(0, 99)
CHANCES = st.booleans()


class Histories(RuleBasedStateMachine):
    """Events, each on any fitting worker."""

    @initialize(size=SIZES, preload=CHANCES, looks=CHANCES, at_once=CHANCES)
    def begin(self, size, preload, looks, at_once):
        """Start with any settings."""
        self.world = World(size, has_limits=True, preload=preload, reload=looks, reload_at_once=at_once)
        self.fleet, self.still = self.world.fleet, []

    def pick(self, number, *states, molds=False):
        """Return any worker, or mold, in one of these states; None: there is none."""
        world = self.world
        found = world.find(*states, slot=MOLD) if molds else world.find(*states)
        return found[number % len(found)] if found else None

    def pick_moving(self, number, *states, molds=False):
        """The same, but for one that stands still: it does nothing."""
        worker = self.pick(number, *states, molds=molds)
        return None if worker in self.still or (worker is not None and worker.mold in self.still) else worker

    # Acts of workers

    @rule(number=NUMBERS)
    def goes_on(self, number):
        """A starter serves, if its code is not broken."""
        worker = self.pick_moving(number, STARTING)
        if worker is not None:
            self._go_on(worker)

    @rule(number=NUMBERS, is_fit=CHANCES)
    def mold_goes_on(self, number, is_fit):
        """A mold is ready, or its app cannot be forked."""
        mold = self.pick_moving(number, STARTING, molds=True)
        if mold is not None and self.world.is_broken(mold.plan):
            self.world.end(mold)
        elif mold is not None and is_fit:
            self.world.ready(mold)
        elif mold is not None:
            self.fleet.unfit.append(mold.plan)
            self.world.drain(mold)
            self.world.settle()

    @rule(number=NUMBERS, molds=CHANCES)
    def fails(self, number, molds):
        """A starter ends."""
        worker = self.pick(number, STARTING, molds=molds)
        if worker is not None:
            self.world.end(worker)

    @rule(number=NUMBERS, molds=CHANCES)
    def crashes(self, number, molds):
        """A server ends."""
        worker = self.pick(number, READY, molds=molds)
        if worker is not None:
            self.world.end(worker)

    @rule(number=NUMBERS, has_ended=CHANCES, molds=CHANCES)
    def ends(self, number, has_ended, molds):
        """A worker told to end does; or it accepts no connections any more."""
        worker = self.pick_moving(number, DRAINING, KILLED, molds=molds)
        if worker is not None and has_ended:
            self.world.end(worker)
        elif worker is not None:
            worker.has_left = worker.state is DRAINING
            self.world.settle()

    @rule(number=NUMBERS)
    def is_killed(self, number):
        """The kernel ends a killed process, whatever it did."""
        dying = [each for each in self.world.workers if self.world.is_dying(each)]
        if dying:
            self.world.end(dying[number % len(dying)])

    @rule(number=NUMBERS)
    def hangs(self, number):
        """An event loop stands still, and is to have a successor."""
        worker = self.pick(number, READY)
        if worker is not None:
            worker.is_hung = worker.is_silent = True
            self.still.append(worker)
            self.fleet.wish(worker, "it hangs")
            self.world.settle()

    @rule(number=NUMBERS, molds=CHANCES)
    def stands_still(self, number, molds):
        """A process does nothing any more, whatever its orders, perhaps as a mold that does not fork."""
        worker = self.pick(number, STARTING, READY, DRAINING, molds=molds)
        if worker is not None:
            self.still.append(worker)

    @rule(number=NUMBERS)
    def wakes_up(self, number):
        """A process that stood still goes on."""
        if self.still:
            self.still.pop(number % len(self.still))

    @rule(number=NUMBERS)
    def is_mute(self, number):
        """A worker closes its channel to the supervisor, and has some time to end."""
        worker = self.pick(number, STARTING, READY)
        if worker is not None and worker.mold is None:
            worker.due_at = self.world.now + PAUSE_SECONDS

    @rule()
    def cannot_fork(self):
        """There is no room for one more process."""
        self.fleet.ends.append(End(1, self.fleet.target, STARTING, "worker 1", "it could not be forked"))
        self.world.settle()

    # Orders of people

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
        """With --reload, a file is saved: unproven code is of no use any more."""
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
        """There are to be more workers, or fewer; and again before any act."""
        before = self.fleet.newest
        self.fleet.resize(size)
        self.fleet.resize(after)
        silent = [slot for slot, each in before.items() if each.is_silent and slot in self.fleet.slots]
        sound = [
            slot
            for slot, each in before.items()
            if not each.is_silent and each.is_worker and slot not in self.fleet.slots
        ]
        assert not silent or not sound or after > size, "a silent worker stays in the place of a sound one"
        self.world.settle()

    @rule()
    def upgrade(self):
        """New code of our own is to be tried."""
        self.fleet.on_upgrade("SIGUSR2")
        self.world.settle()

    @rule(seconds=st.sampled_from([0.1, PAUSE_SECONDS]))
    def turn(self, seconds):
        """Time passes."""
        self.world.turn(seconds)

    @rule()
    def wake(self):
        """Time passes until something may be due."""
        if self.fleet.next_at(self.world.now) != NEVER:
            self.world.wake()

    @rule(is_meant=st.integers(0, 30), is_at_once=CHANCES, waits=CHANCES)
    def stop(self, is_meant, is_at_once, waits):
        """All is to end, now and then."""
        if is_meant or not self.world.workers:
            return
        if not self.world.find(READY) and self.fleet.has_served and not self.fleet.is_ending:
            self.fleet.is_awaited, self.fleet.is_wanted = waits, waits and not self.world.find(STARTING)
            self.fleet.awaited_until = self.world.now + PAUSE_SECONDS if waits else NEVER
        self.fleet.is_ending, self.fleet.is_at_once = True, is_at_once
        self.world.settle()

    # Invariants

    @invariant()
    def holds(self):
        """Broken code is not proven; starters beside servers are bounded; each caller has one answer."""
        if not hasattr(self, "world"):
            return
        world, fleet = self.world, self.fleet
        assert not world.is_broken(fleet.plan)
        assert not fleet.ends and set(world.answers.values()) <= {1}
        assert set(world.answers).isdisjoint(fleet.waiting)
        serving = set(world.slots(READY))
        assert len(serving) == len(world.slots(READY)), "two serve in one slot"
        beside = {slot for slot in serving.intersection(world.slots(STARTING)) if not fleet.newest[slot].is_hung}
        assert len(beside) <= 1 or fleet.target.config.reload_at_once or fleet.is_ending
        assert fleet.is_ending or set(fleet.slots).issuperset(world.slots(STARTING, READY))

    @invariant()
    def something_is_due(self):
        """Nothing is late; and nobody waits in vain: without rest, a time will come, or the kernel ends a process."""
        if not hasattr(self, "world"):
            return
        world, fleet = self.world, self.fleet
        assert all(min(each.due_at, each.fork_due_at) > world.now for each in world.workers)
        assert world.is_at_rest or fleet.next_at(world.now) != NEVER or any(map(world.is_dying, world.workers))

    def teardown(self):
        """From now on all goes well, but for broken code and processes at a standstill: all comes to rest in the meant state."""
        if not hasattr(self, "world"):
            return
        world, fleet = self.world, self.fleet
        for _ in range(200):
            moving = [each for each in world.workers if self._moves(each)]
            for worker in moving:
                if worker in world.workers:
                    self._go_on(worker)
            if not moving and world.is_at_rest and not fleet.waiting:
                break
            if not moving:
                world.wake()
        assert world.is_at_rest
        if not fleet.is_ending:
            assert all(each.plan is fleet.plan for each in world.workers)
        assert not fleet.waiting and world.answers == dict.fromkeys(world.asked, 1)

    def _moves(self, worker):
        """Tell whether the next act is the worker's, or the kernel's."""
        if self.world.is_dying(worker):
            return True
        is_free = worker not in self.still and worker.mold not in self.still
        return is_free and worker.state is not READY

    def _go_on(self, worker):
        world = self.world
        if world.is_dying(worker) or worker.state is not STARTING:
            if world.is_dying(worker) or worker.mold is None:
                world.end(worker)
            else:
                world.begin(worker)
        elif world.is_broken(worker.plan):
            world.end(worker)
        else:
            world.ready(worker)


def test_histories_keep_all_invariants():
    """The histories are the same each time."""
    run_state_machine_as_test(
        Histories, settings=settings(EXAMPLES, max_examples=20 if IS_PYPY else 100, stateful_step_count=30)
    )
