"""The number of workers, the ones that stay, and replacements by a wish."""

from harness.fleets import DRAINING, PAUSE_SECONDS, READY, STARTING, World, dos, newest, serving

from aserve.core.page import MOLD
from aserve.processes.fleet.facts import End, Member
from aserve.processes.fleet.fleet import Do

# The first start


def test_a_wish_is_fulfilled_by_a_successor():
    """The successor serves before the worker drains; one at a time, in order."""
    world = serving(3)
    assert world.fleet.wish(newest(world, 2), "old age") and world.fleet.wish(newest(world, 1), "memory")
    assert not world.fleet.wish(newest(world, 2), "more of it") and world.fleet.asked == [2, 1]
    world.settle()
    assert world.slots(STARTING) == [2]
    done = world.ready(newest(world, 2))
    assert [(action.do, action.why) for action in done] == [(Do.DRAIN, "old age"), (Do.START, "")]
    assert done[1].slot == 1 and world.fleet.asked == [1]
    assert world.fleet.wish(newest(world, 2), "old age"), "of the next one, too"
    assert world.fleet.asked == [1, 2], "which comes last"


def test_a_wish_that_fails():
    """A failed wish waits again, behind the rest; nothing else is half done."""
    world = serving(3)
    for slot in (1, 2):
        world.fleet.wish(newest(world, slot), "old age")
    world.settle()
    done = world.end(newest(world, 1))
    assert dos(done) == [Do.RETRY, Do.START] and done[1].slot == 2 and done[0].reload is None
    world.turn(PAUSE_SECONDS)
    assert world.slots(STARTING) == [2]


def test_a_wish_that_fails_comes_last():
    """Another begins when the next one serves."""
    world = serving(3)
    for slot in (1, 2, 3):
        world.fleet.wish(newest(world, slot), "old age")
    world.settle()
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    world.ready(newest(world, 2))
    assert world.slots(STARTING) == [3]


def test_a_wish_during_a_reload():
    """The wished worker is on its way already; it stays if the reload is abandoned."""
    world = serving(2)
    world.reload(is_broken=True)
    assert not world.fleet.wish(newest(world, 2), "old age") and world.fleet.asked == [2, 1]
    world.end(newest(world, 1))
    assert world.fleet.asked == [2]


def test_a_wish_for_a_slot_that_is_none():
    """There is to be no worker."""
    world = serving(2)
    extra = Member(3, 1, world.fleet.plan, READY)
    assert not world.fleet.wish(extra, "old age") and world.fleet.wishes == {}
    assert world.fleet.wish(newest(world, 2), "old age") and world.fleet.asked == [2]
    world.fleet.size = 1
    assert world.fleet.asked == []


def test_a_hanging_worker_is_killed_after_its_successor_serves():
    world = serving(1)
    (hung,) = world.workers
    hung.is_hung = True
    world.fleet.wish(hung, "it hangs")
    assert dos(world.settle()) == [Do.START]
    done = world.ready(newest(world, 1))
    assert dos(done) == [Do.DRAIN, Do.KILL] and done[1].worker is hung and "hangs" in done[1].why


def test_more_and_fewer():
    """More start at once; surplus ones drain, also while they start; nothing is remembered of their slots."""
    world = serving(1)
    world.fleet.resize(3)
    world.settle()
    assert world.slots(STARTING) == [2, 3]
    world.ready(newest(world, 2))
    world.fleet.wish(newest(world, 1), "old age")
    world.fleet.retry_at.update({1: 5.0, 3: 5.0, MOLD: 5.0})
    world.fleet.resize(1, "SIGTTOU")
    assert (world.fleet.wishes, world.fleet.retry_at) == ({}, {MOLD: 5.0})
    done = [(action.worker.slot, action.why) for action in world.settle()]
    assert done == [(1, "SIGTTOU"), (3, "")] and world.slots(DRAINING) == [1, 3]


def test_the_silent_then_the_starting_then_the_oldest_end():
    """The least useful worker ends; left-out numbers are the next to be given."""
    world = serving(4)
    first, second, third, fourth = world.workers
    third.is_silent = True
    world.end(second)
    for size, slots in [(3, [1, 2, 4]), (2, [1, 4]), (1, [4])]:
        world.fleet.resize(size)
        assert world.fleet.slots == slots
    assert [action.worker for action in world.settle()] == [first, third] and world.find(READY) == [fourth]
    world.fleet.resize(3)
    assert world.fleet.slots == [1, 2, 4] and world.settle() and world.slots(STARTING) == [1, 2]


def test_a_hung_worker_that_is_too_many():
    """A hung worker would not hear the order: it is killed, and the serving one stays."""
    world = serving(2)
    first, second = world.workers
    first.is_hung = first.is_silent = True
    world.fleet.wish(first, "it hangs")
    world.settle()
    world.fleet.resize(1)
    done = world.settle()
    assert dos(done) == [Do.DRAIN, Do.KILL, Do.DRAIN] and done[1].why == "its event loop hangs"
    assert world.find(READY) == [second] and world.fleet.asked == []


def test_fewer_before_the_first_serves():
    """The starting worker stays."""
    world = World(3)
    world.fleet.resize(1)
    assert world.fleet.slots == [1] and world.settle() == [] and world.slots(STARTING) == [1]


def test_fewer_while_one_fails():
    """A failing slot is not waited for any more; a reload is done without it."""
    world = serving(3)
    world.reload()
    world.ready(newest(world, 1))
    world.end(newest(world, 2))
    failing = newest(world, 3)
    world.fleet.resize(1)
    world.workers.remove(failing)
    world.fleet.ends.append(End(3, failing.plan, STARTING, "worker 3", "it ended"))
    assert dos(world.settle())[0] is Do.NOTE and world.fleet.reload.failed == {}
    assert dos(world.leave()) == [Do.FINISH]


def test_fewer_while_another_reload_has_begun():
    """The half-done reload, in whose place another began, does not wait for it either, and goes on afterwards."""
    world = serving(3)
    world.reload()
    half_done = world.fleet.reload
    world.ready(newest(world, 1))
    world.end(newest(world, 2))
    world.ready(newest(world, 3))
    half_done.failed[MOLD] = "the mold could not start"
    world.reload(is_broken=True)
    assert half_done.failed.keys() == {2, MOLD} and world.fleet.reload.before is half_done
    world.fleet.resize(1)
    assert half_done.failed.keys() == {MOLD} and world.settle()
    assert Do.ABANDON in dos(world.end(newest(world, 3))) and world.fleet.reload is half_done
