"""Due acts while a worker hangs, is stopped, or imports for ever: no decision costs a sound worker, and none waits without an end."""

import pytest
from harness.fleets import DRAINING, KILLED, READY, STARTING, World, dos, newest, serving

from aserve.processes.fleet.fleet import Do

WAYS = ["hangs", "is stopped", "imports for ever"]


@pytest.fixture(params=WAYS)
def one(request):
    """A world of three workers: the first does nothing any more, two are sound."""
    world = serving(3)
    bad, *sound = world.workers
    if request.param == "imports for ever":
        world.end(bad)
        world.turn(100)
        assert world.slots(STARTING) == [1]
    bad.is_silent, bad.is_hung = True, request.param == "hangs"
    if bad.is_hung:  # as watch.py does
        world.fleet.wish(bad, "it hangs")
        world.settle()
    return world, sound


def finish(world: World) -> None:
    """Let all moving processes go on until nothing happens."""
    while world.find(STARTING):
        world.start()
        world.leave()


def test_fewer_workers_are_the_sound_ones(one):
    """The two sound workers stay; the silent worker does not."""
    world, sound = one
    world.fleet.resize(2)
    world.settle()
    assert world.find(READY) == sound and not world.find(STARTING)


def test_a_reload_waits_for_no_silent_worker(one):
    """The reload is done without the silent worker."""
    world, _ = one
    plan = world.reload()
    if plan is not world.fleet.target:  # the old import keeps its slot, and no other
        assert world.fleet.next_why
        return
    finish(world)
    assert world.fleet.plan is plan and world.fleet.reload is None


def test_a_recycling_waits_for_no_hung_successor(one):
    """A sound worker drains when its successor serves; a successor that never serves keeps no other worker waiting."""
    world, (second, third) = one
    if newest(world, 1).state is STARTING:
        world.ready(newest(world, 1))
    world.recycle(second)
    assert newest(world, 2).state is STARTING and second.state is READY
    third.is_hung = third.is_silent = True
    world.fleet.wish(third, "it hangs")
    world.settle()
    assert world.slots(STARTING) == [2, 3]
    world.ready(newest(world, 3))
    assert third.state is KILLED and second in world.find(READY)


def test_a_hung_one_is_the_first_of_those_that_wait():
    """A hung worker is replaced before sound ones of full age."""
    world = serving(4)
    for worker in world.workers:
        world.fleet.wish(worker, "old age")
    world.workers[2].is_hung = True
    assert world.fleet.asked == [3, 1, 2, 4]
    world.settle()
    assert world.slots(STARTING) == [3, 1]


def test_an_upgrade_begins_at_once(one):
    """An upgrade begins at once, whatever the worker does."""
    world, _ = one
    world.fleet.on_upgrade("SIGUSR2")
    assert dos(world.settle()) == [Do.TRY]


def test_a_reload_does_not_wait_for_an_old_one_that_has_become_silent():
    """A silent worker accepts no client, and its drain has a limit."""
    world = serving(1)
    (first,) = world.workers
    world.reload()
    assert dos(world.ready(newest(world, 1))) == [Do.PROVE, Do.DRAIN]
    first.is_silent = True
    assert first.state is DRAINING and dos(world.settle()) == [Do.FINISH]


def test_the_end_keeps_no_worker(one):
    """Each is told to end, and none is kept."""
    world, _ = one
    world.fleet.is_ending = True
    world.settle()
    assert not world.find(STARTING, READY)
