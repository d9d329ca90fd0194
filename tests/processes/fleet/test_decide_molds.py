"""Due acts on molds, upgrades, waiting callers, and at the end, by the facts: each rule once. The rest: test_fleet.py."""

import pytest
from harness.fleets import DRAINING, KILLED, PAUSE_SECONDS, READY, STARTING, World, dos, new_plan, newest, serving

from aserve.core.page import MOLD, TRIAL
from aserve.processes.fleet.facts import End, Member, Question
from aserve.processes.fleet.fleet import Do

# Molds


def test_a_mold_first():
    """A mold is ready before any worker starts, and forks all workers."""
    world = World(2, preload=True)
    (mold,) = world.workers
    assert mold.slot == MOLD and world.turn(100) == []
    (start,) = world.ready(mold)
    assert (start.slot, start.worker) == (1, mold)
    assert [action.worker for action in world.ready(newest(world, 1))] == [mold]


def test_a_reload_with_molds():
    """The mold of before goes when the new code serves, and not before."""
    world = serving(1, preload=True)
    (before,) = world.find(READY, slot=MOLD)
    world.reload()
    world.ready(newest(world, MOLD))
    assert before.state is READY
    assert Do.DRAIN in dos(world.ready(newest(world, 1))) and before.state is DRAINING


def test_a_mold_of_code_that_is_not_proven():
    """A mold's end before one of its workers serves is a failed start."""
    world = serving(1, preload=True)
    world.reload()
    mold = newest(world, MOLD)
    world.ready(mold)
    assert dos(world.end(mold))[0] is Do.ABANDON


def test_a_mold_dies():
    """Another mold is made after a pause, and workers wait for it."""
    world = serving(1, preload=True)
    (mold,) = world.find(READY, slot=MOLD)
    assert dos(world.end(mold)) == [Do.RESTART]
    assert dos(world.end(newest(world, 1))) == [Do.RESTART]
    assert [action.slot for action in world.turn(PAUSE_SECONDS)] == [MOLD] and world.turn(100) == []
    assert [action.slot for action in world.ready(newest(world, MOLD))] == [1]


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_mold_that_is_silent(is_killed):
    """Workers import the app by themselves until there is another mold; workers to be forked are let go."""
    world = serving(2, preload=True)
    (mold,) = world.find(READY, slot=MOLD)
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    unborn = newest(world, 1)
    assert unborn.mold is mold
    mold.is_silent = True
    mold.state = KILLED if is_killed else READY
    done = world.settle()
    assert dos(done) == [Do.DRAIN, Do.START] and done[0].worker is unborn and done[1].worker is None
    mold.state = KILLED
    world.end(mold, is_fault=True)
    assert [action.slot for action in world.turn(PAUSE_SECONDS)] == [MOLD]


def test_an_app_that_cannot_be_forked():
    """Workers import the app by themselves; other code's app may be forked."""
    world = World(1, preload=True)
    (mold,) = world.workers
    world.fleet.unfit.append(mold.plan)
    mold.state = DRAINING
    (start,) = world.settle()
    assert (start.slot, start.worker) == (1, None)
    world.start().reload()
    assert newest(world, MOLD).state is STARTING


def test_the_mold_cannot_start_later():
    """The reload is half done until a worker serves."""
    world = serving(2, preload=True)
    world.reload()
    world.ready(newest(world, MOLD))
    world.ready(newest(world, 1))
    world.end(newest(world, MOLD))
    world.turn(PAUSE_SECONDS)
    world.end(newest(world, MOLD))
    assert list(world.fleet.reload.failed) == [MOLD]
    world.turn(PAUSE_SECONDS)
    world.end(newest(world, 2))
    world.ready(newest(world, MOLD))
    world.turn(PAUSE_SECONDS)
    world.ready(newest(world, 2))
    assert world.fleet.reload.failed == {}


# Upgrade in place


def test_an_upgrade_waits_for_all_else():
    """An upgrade begins when nothing else is under way: no first start, no reload, no fork by a mold, no other trial; a trial is no worker."""
    world = World(1, preload=True)
    world.fleet.on_upgrade("SIGUSR2")
    world.ready(newest(world, MOLD))
    first = newest(world, 1)
    world.workers.append(trial := Member(TRIAL, 1, new_plan()))
    first.mold = None
    assert world.settle() == []
    assert world.ready(first) == [] and world.fleet.upgrade_why
    world.workers.remove(trial)
    assert dos(world.settle()) == [Do.TRY] and not world.fleet.upgrade_why
    trial.state = READY
    world.workers.append(trial)
    world.fleet.waiting.append(Question("caller", reload=1))
    assert dos(world.settle()) == [Do.DRAIN], "a trial has shown all, and is no successor"
    world.reload()
    world.fleet.on_upgrade("SIGUSR2")
    assert world.settle() == [] and trial.state is DRAINING
    world.workers.remove(trial)
    world.ready(newest(world, MOLD))
    assert Do.TRY not in dos(world.ready(newest(world, 1)))
    assert dos(world.leave()) == [Do.FINISH, Do.TRY]
    world.fleet.wish(newest(world, 1), "old age")
    world.settle()
    world.fleet.on_upgrade("SIGUSR2")
    assert world.settle() == []


@pytest.mark.parametrize(
    ("stood", "do"), [(STARTING, Do.REJECT), (READY, Do.ACCEPT), (DRAINING, Do.ACCEPT), (KILLED, Do.NOTE)]
)
def test_the_end_of_a_trial(stood, do):
    """A trial that was ready is followed by the new code; any other changes nothing."""
    world = serving(1)
    world.fleet.on_upgrade("SIGUSR2")
    world.settle()
    world.fleet.on_end(End(TRIAL, new_plan(), stood, "the trial", "it ended"))
    assert dos(world.settle()) == ([do, Do.BECOME] if do is Do.ACCEPT else [do])
    assert world.fleet.trial_why == "SIGUSR2" and not world.fleet.is_upgrading


def test_the_end_of_a_trial_at_the_end():
    """No new code takes over while all ends."""
    world = serving(1)
    world.fleet.on_stop("SIGTERM", world.now)
    world.fleet.on_end(End(TRIAL, new_plan(), DRAINING, "the trial", "it ended"))
    assert Do.NOTE in dos(world.settle()) and not world.fleet.has_shown


# Questions


def test_a_successor_serves():
    """A waiting caller hears so when the old worker drains."""
    world = serving(2)
    first = newest(world, 1)
    questions = [world.recycle(first), world.recycle(first)]
    successor = newest(world, 1)
    done = world.ready(successor)
    assert dos(done) == [Do.DRAIN, Do.ANSWER, Do.ANSWER]
    assert [(action.worker, *action.asked) for action in done[1:]] == [(successor, each) for each in questions]


def test_a_successor_cannot_start():
    """Callers for the slot hear so; the rest wait on."""
    world = serving(2)
    first, second = world.recycle(newest(world, 1)), world.recycle(newest(world, 2))
    done = world.end(newest(world, 1))
    assert done[0].do is Do.RETRY and done[0].asked == (first,) and world.fleet.waiting == [second]
    world.ask(reload=1)
    world.turn(PAUSE_SECONDS)
    assert dos(world.end(world.find(READY, slot=2)[0])) == [Do.RESTART] and len(world.fleet.waiting) == 2
    assert world.end(world.find(STARTING, slot=2)[0])[0].asked == (second,), "the next reload has not failed"


def test_no_successor_any_more():
    """The slot is gone; or no successor is asked for there. Where none serves, one will."""
    world = serving(2)
    question = world.recycle(newest(world, 2))
    world.end(newest(world, 2))
    world.end(newest(world, 2))
    world.fleet.waiting.append(question)
    world.fleet.wishes.clear()
    assert world.settle() == []
    world.fleet.resize(1)
    assert [(action.do, action.worker) for action in world.settle()] == [(Do.ANSWER, None)]
    one = newest(world, 1)
    world.ask(slot=1, generation=one.generation)
    assert [(action.do, action.worker) for action in world.settle()] == [(Do.ANSWER, None)]


# The end


def test_the_end_drains_all_and_tells_callers():
    """All drain, molds too; nothing starts any more, and waiting callers hear so."""
    world = serving(2, preload=True)
    world.end(newest(world, 2))
    world.recycle(newest(world, 1))
    question = world.ask(reload=1)
    world.fleet.is_ending = True
    done = world.settle()
    assert dos(done) == [Do.ANSWER] * 2 + [Do.DRAIN] * 3 and done[1].asked == (question,)
    assert {action.worker for action in done[:2]} == {None} and world.fleet.waiting == []
    for worker in list(world.workers):
        world.end(worker)
    assert world.turn(100) == []


def test_signals_that_end_all():
    """Each signal is told once: the first drains all, the next one ends all at once, with its exit status."""
    world = serving(1)
    world.fleet.on_stop("SIGTERM", world.now)
    assert dos(world.settle()) == [Do.STOP, Do.DRAIN] and not world.fleet.is_again
    world.fleet.on_stop("SIGTERM", world.now, 143)
    assert dos(world.settle()) == [Do.STOP_AT_ONCE, Do.KILL] and world.fleet.is_again
    world.fleet.on_unfinished()
    assert world.fleet.exit_status == 143 and world.settle() == []


def test_a_trial_while_clients_wait():
    """The worker for waiting clients goes on; the trial does not."""
    world = serving(1)
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    world.workers.append(trial := Member(TRIAL, 1, new_plan()))
    world.fleet.on_stop("SIGTERM", world.now)
    world.fleet.on_clients(True, world.now + 5.0)
    assert [(action.do, action.worker) for action in world.settle()] == [(Do.STOP, None), (Do.DRAIN, trial)]


def test_the_end_at_once():
    """All are killed, once."""
    world = serving(2, preload=True)
    world.fleet.is_ending = world.fleet.is_at_once = True
    assert dos(world.settle()) == [Do.KILL] * 3 and world.turn(1) == []


def test_a_crash_at_the_end():
    """No other starts; no client misses a worker that could not serve."""
    world = serving(1)
    (worker,) = world.workers
    world.fleet.is_ending = True
    world.workers.remove(worker)
    world.fleet.ends += [End(1, worker.plan, stood, "worker 1", "it ended") for stood in (READY, STARTING)]
    assert dos(world.settle()) == [Do.RESTART, Do.NOTE] and world.turn(100) == []


def test_clients_wait_for_one_that_starts():
    """The starting worker may serve the clients, and then drains."""
    world = serving(1)
    world.end(newest(world, 1))
    world.turn(PAUSE_SECONDS)
    world.fleet.is_ending = world.fleet.is_awaited = True
    assert world.settle() == []
    assert dos(world.ready(newest(world, 1))) == [Do.DRAIN]


def test_clients_wait_and_none_starts():
    """One begins at once, whatever its pause, and only one; its mold is made before, and is let go then."""
    world = serving(2, preload=True)
    for slot in (MOLD, 1, 2):
        world.end(newest(world, slot))
    world.ask(reload=1)
    world.fleet.is_ending = world.fleet.is_awaited = world.fleet.is_wanted = True
    assert [(action.do, action.slot) for action in world.settle()] == [(Do.ANSWER, 0), (Do.START, MOLD)]
    mold = newest(world, MOLD)
    done = world.ready(mold)
    assert [(action.do, action.slot) for action in done] == [(Do.START, 1), (Do.DRAIN, 0)] and done[1].worker is mold
    assert dos(world.end(newest(world, 1))) == [Do.MISS] and world.turn(100) == []


def test_clients_wait_for_a_worker_whose_mold_has_ended():
    """Another mold is made, and forks the worker."""
    world = serving(1, preload=True)
    for slot in (MOLD, 1):
        world.end(newest(world, slot))
    world.turn(PAUSE_SECONDS)
    world.ready(newest(world, MOLD))
    worker = newest(world, 1)
    world.end(newest(world, MOLD))
    world.fleet.is_ending = world.fleet.is_awaited = True
    world.settle()
    assert dos(world.end(worker, is_unborn=True)) == [Do.NOTE, Do.START]
    assert [(action.do, action.slot) for action in world.ready(newest(world, MOLD))] == [(Do.START, 1), (Do.DRAIN, 0)]


def test_clients_wait_in_vain():
    """Nothing else is tried."""
    world = serving(1, preload=True)
    for slot in (MOLD, 1):
        world.end(newest(world, slot))
    world.fleet.is_ending = world.fleet.is_awaited = world.fleet.is_wanted = True
    world.settle()
    assert dos(world.end(newest(world, MOLD))) == [Do.MISS] and world.turn(100) == []
    world.fleet.is_wanted = world.fleet.is_at_once = True
    assert world.settle() == []
