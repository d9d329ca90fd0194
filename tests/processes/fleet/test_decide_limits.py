"""Due acts on a process that does not go on, and their times, by the facts: each rule once. Any order of events: test_decide_histories.py."""

from harness.fleets import (
    DRAIN_SECONDS,
    DRAINING,
    KILLED,
    PAUSE_SECONDS,
    READY,
    STACK_SECONDS,
    START_SECONDS,
    STARTING,
    dos,
    newest,
    serving,
)

from aserve.core.page import MOLD
from aserve.processes.fleet.facts import FORK_SECONDS, NEVER, SILENCE_SECONDS
from aserve.processes.fleet.fleet import Do, Fleet


def unborn():
    """Return a world whose two workers have crashed, and are to be forked by their mold: (it, the mold, the workers)."""
    world = serving(2, has_limits=True, preload=True)
    (mold,) = world.find(READY, slot=MOLD)
    for slot in (1, 2):
        world.end(newest(world, slot))
    world.turn(PAUSE_SECONDS)
    return world, mold, world.find(STARTING)


def test_one_that_does_not_start():
    """A stuck starter is ended, with time for its stacks, and then without; its end counts as a failed start."""
    world = serving(2, has_limits=True)
    world.reload()
    late, began_at = newest(world, 1), world.now
    assert dos(world.wake()) == [Do.OVERDUE] and world.now == began_at + START_SECONDS and late.state is KILLED
    (action,) = world.wake()
    assert (action.do, action.worker) == (Do.OVERDUE, late) and world.now == began_at + START_SECONDS + STACK_SECONDS
    assert world.is_dying(late) and world.fleet.next_at(world.now) == NEVER
    assert dos(world.end(late)) == [Do.ABANDON]


def test_one_that_does_not_drain():
    """A stuck drainer is ended at once; nothing follows from its end."""
    world = serving(1, has_limits=True)
    (first,) = world.workers
    world.reload()
    world.ready(newest(world, 1))
    assert dos(world.wake()) == [Do.OVERDUE, Do.FINISH] and world.now == DRAIN_SECONDS and world.is_dying(first)
    assert dos(world.end(first)) == [Do.NOTE]


def test_at_the_end():
    """There, too, for a mold as well."""
    world = serving(1, has_limits=True, preload=True)
    world.fleet.is_ending = True
    world.settle()
    assert dos(world.wake()) == [Do.OVERDUE] * 2 and world.slots(KILLED) == [1]


def test_a_mold_that_does_not_fork():
    """First workers import the app by themselves; then the mold is ended."""
    world, mold, (first, second) = unborn()
    asked_at = world.now
    done = world.wake()
    assert world.now == asked_at + SILENCE_SECONDS
    assert dos(done) == [Do.AVOID, Do.DRAIN, Do.DRAIN, Do.START, Do.START] and done[0].worker is mold
    assert "within 2 s" in done[0].why and [each.mold for each in world.find(STARTING)] == [None, None]
    world.start()
    (action,) = world.wake()
    assert world.now == asked_at + FORK_SECONDS and (action.do, action.worker) == (Do.KILL, mold)
    assert "within 10 s" in action.why and first.state is second.state is DRAINING
    assert dos(world.wake()) == [Do.OVERDUE] and world.is_dying(mold)


def test_a_mold_forks_one_after_another():
    """The next worker's time begins with the last one's begin; a mold no longer silent is waited for again."""
    world, mold, (first, second) = unborn()
    world.turn(SILENCE_SECONDS - 0.5)
    world.begin(first)
    assert world.turn(SILENCE_SECONDS - 0.1) == [] and not mold.is_silent
    assert dos(world.turn(0.1))[0] is Do.AVOID and mold.is_silent
    world.begin(second)
    assert not mold.is_silent and world.turn(FORK_SECONDS) == []


def test_a_mold_that_ends():
    """A mold under its end is not hurried, but by its own limit."""
    world, mold, _ = unborn()
    world.drain(mold)
    assert dos(world.turn(FORK_SECONDS)) == [Do.START] and not mold.is_silent


def test_clients_wait_for_too_long():
    """The limit is for the starting worker, or its mold; once."""
    world = serving(1, has_limits=True)
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    world.fleet.is_ending = world.fleet.is_awaited = True
    world.fleet.awaited_until = world.now + 5.0
    assert world.settle() == [] and world.turn(4.9) == []
    assert dos(world.wake()) == [Do.STOP_WAITING] and world.fleet.awaited_until == NEVER
    assert dos(world.end(newest(world, 1))) == [Do.MISS]


def test_one_is_ready_when_clients_have_waited_for_too_long():
    """The worker is ended, and is not told to drain as well."""
    world = serving(1, has_limits=True)
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    world.fleet.is_ending = world.fleet.is_awaited = True
    world.now = world.fleet.awaited_until = 5.0
    newest(world, 1).state = READY
    assert dos(world.settle()) == [Do.STOP_WAITING]


def test_the_next_time():
    """The next time is the first of all coming ones; none, if there is none."""
    world = serving(2)
    assert world.fleet.next_at(world.now) == NEVER
    newest(world, 1).due_at, world.fleet.awaited_until = 8.0, 7.0
    world.fleet.retry_at.update({1: 5.0, 2: 6.0})
    assert [world.fleet.next_at(now) for now in (4.9, 5.0, 6.0, 7.0, 8.0)] == [5.0, 6.0, 7.0, 8.0, NEVER]
    assert Fleet(None, 1).next_at(0.0) == NEVER
