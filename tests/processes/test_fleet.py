"""What is due, by the facts: each rule once. Whatever comes in whatever order: test_fleet_histories.py."""

from __future__ import annotations

import pytest
from harness.fleets import DRAINING, KILLED, PAUSE_SECONDS, READY, STARTING, World, dos, new_plan

from aserve.core.page import MOLD, TRIAL
from aserve.processes.fleet import Do, End, Fleet, Worker, decide


def serving(size=2, **settings):
    """Return a world whose workers serve."""
    return World(size, **settings).start()


def newest(world, slot):
    """Return the last worker of a slot."""
    return world.find(STARTING, READY, DRAINING, KILLED, slot=slot)[-1]


# The first start


def test_the_first_shows_whether_there_is_anything_to_serve():
    """One worker starts; once it serves, the others do, at once."""
    world = World(3)
    assert world.slots(STARTING) == [1] and world.turn(100) == []
    world.ready(newest(world, 1))
    assert world.slots(STARTING) == [2, 3]
    assert world.fleet.plan is world.workers[0].plan


def test_the_first_cannot_start():
    """There is nothing to serve: no other try is made."""
    world = World()
    assert dos(world.end(newest(world, 1))) == [Do.GIVE_UP] and world.fleet.is_ending
    assert world.turn(100) == [] and world.fleet.fault is None


def test_the_first_cannot_start_with_reload():
    """Another starts at once, to show why; if that cannot, either, it is given up."""
    world = World(reload=True)
    assert dos(world.end(newest(world, 1))) == [Do.SHOW, Do.START] and world.fleet.fault.why == "it ended"
    assert dos(world.end(newest(world, 1))) == [Do.GIVE_UP]


# Reloads


def test_one_after_another():
    """Each successor serves before the worker of before drains, and that before the next begins; the end comes when none of before accepts."""
    world = serving()
    first, second = world.workers
    plan = world.reload()
    assert world.slots(STARTING) == [1] and world.fleet.is_moving and world.fleet.is_unproven(plan)
    done = world.ready(newest(world, 1))
    assert dos(done) == [Do.PROVE, Do.DRAIN, Do.START] and done[1].worker is first and done[1].why == "reload"
    assert world.fleet.plan is plan and not world.fleet.is_unproven(plan)
    assert dos(world.ready(newest(world, 2))) == [Do.DRAIN] and second.state is DRAINING
    world.fleet.waiting = [question := world.ask(reload=1), world.ask(reload=2)]
    (finish,) = world.leave()
    assert finish.do is Do.FINISH and finish.reload.plan is plan and finish.asked == (question,)
    assert world.fleet.reload is None and not world.fleet.is_moving and not world.fleet.is_unproven(plan)


def test_one_that_drains_may_end_in_place_of_leaving():
    """It accepts nobody any more, either."""
    world = serving(1)
    (first,) = world.workers
    world.reload()
    world.ready(newest(world, 1))
    assert dos(world.end(first)) == [Do.NOTE, Do.FINISH]


def test_all_at_once():
    """--reload-at-once: all successors begin; one after another it is else, though slots were many at once before."""
    world = serving(3, reload_at_once=True)
    world.reload()
    assert world.slots(STARTING) == [1, 2, 3]
    world.start().leave()
    for worker in world.find(READY):
        world.fleet.wish(worker, "old age")
    world.settle()
    assert world.slots(STARTING) == [1]


def test_code_that_does_not_start():
    """Nothing has changed; the questions about this reload are answered; the others of it end."""
    world = serving(2, reload_at_once=True)
    before, question, later = world.fleet.plan, world.ask(reload=1), world.ask(reload=2)
    world.reload(is_broken=True)
    done = world.end(newest(world, 1))
    assert dos(done) == [Do.ABANDON, Do.DRAIN] and done[0].asked == (question,) and done[0].reload.number == 1
    assert world.fleet.plan is world.fleet.target is before and world.fleet.waiting == [later]
    assert world.turn(100) == [] and world.slots(READY) == [1, 2] and world.fleet.fault is None


def test_a_later_successor_that_does_not_start():
    """The code has shown that it can: the reload is half done, whoever waits hears so, and it is tried again, behind the others."""
    world = serving(3)
    question, later = world.ask(reload=1), world.ask(reload=2)
    world.reload()
    world.ready(newest(world, 1))
    done = world.end(newest(world, 2))
    assert dos(done) == [Do.RETRY, Do.START] and done[0].asked == (question,) and done[1].slot == 3
    assert world.fleet.reload.failed == {2: "worker 2 could not start: it ended"} and not world.fleet.is_moving
    world.turn(PAUSE_SECONDS)
    world.ready(newest(world, 3))
    assert world.slots(STARTING) == [2] and world.fleet.waiting == [later]
    world.ready(newest(world, 2))
    assert world.fleet.is_moving and dos(world.leave()) == [Do.FINISH]


def test_one_more_meanwhile():
    """It begins after the one that is under way; in the place of one that is half done, and goes back to that if it fails."""
    world = serving(2)
    world.reload()
    half_done = world.fleet.reload
    world.ready(newest(world, 1))
    world.reload()
    assert world.fleet.next_why == "again" and world.fleet.reload is half_done
    done = world.end(newest(world, 2))
    assert dos(done) == [Do.RETRY, Do.BEGIN, Do.START] and done[1].why == "again" and world.fleet.next_why == ""
    assert world.fleet.reload.before is half_done and done[2].slot == 1
    done = world.end(newest(world, 1))
    assert dos(done) == [Do.ABANDON, Do.START] and world.fleet.reload is half_done and done[1].slot == 2
    world.reload()
    world.ready(newest(world, 1))
    assert world.fleet.reload.before is None, "one that serves does not go back"


def test_one_more_after_one_that_is_abandoned():
    """It begins at once."""
    world = serving(1)
    world.reload(is_broken=True)
    world.reload()
    assert dos(world.end(newest(world, 1))) == [Do.ABANDON, Do.BEGIN, Do.START]
    number = world.fleet.reload.number
    assert (number, world.fleet.next_number) == (2, 3)


def test_asked_for_at_the_start():
    """It follows the first start."""
    world = World(1)
    world.reload()
    assert dos(world.ready(newest(world, 1))) == [Do.BEGIN, Do.START]


def test_a_reload_that_is_refused():
    """Its settings cannot be read: whoever waits for it hears so, and nothing has changed."""
    world = serving(1)
    question = world.ask(reload=1)
    world.fleet.next_why = "again"
    assert world.refuse() == [] and world.answers[question] == 1 and world.fleet.waiting == []
    assert (world.fleet.next_number, world.fleet.next_why, world.fleet.reload) == (2, "", None)


def test_started_before_the_reload():
    """It is let go, as what it imports may have been repaired; if it ends by itself, the reload does not care."""
    world = serving(2)
    world.end(newest(world, 2))
    world.turn(PAUSE_SECONDS)
    late = newest(world, 2)
    world.fleet.begin("reload", new_plan(), world.now)
    world.workers.remove(late)
    world.fleet.ends.append(End(2, late.plan, STARTING, "worker 2", "it ended"))
    assert dos(world.settle())[0] is Do.IGNORE and world.fleet.is_moving and world.fleet.reload.failed == {}
    late = newest(world, 2)
    world.drop()
    assert late.state is STARTING and dos(world.settle())[0] is Do.DRAIN and late.state is DRAINING


def test_everything_is_down():
    """When no worker is left, a reload of repaired code starts all of them at once."""
    world = serving(3)
    for slot in (1, 2, 3):
        world.end(newest(world, slot))
    world.reload()
    assert world.slots(STARTING) == [1, 2, 3]


def test_a_reload_forgets_pauses():
    """Whatever was wrong may have been repaired."""
    world = serving(2)
    world.end(newest(world, 1))
    world.fleet.fault = "shown"
    assert world.slots(STARTING) == []
    world.reload()
    assert world.slots(STARTING) == [1] and world.fleet.fault is None


def test_a_fault_is_forgotten_at_the_end():
    """The app is mended."""
    world = serving(1, reload=True)
    world.reload(is_broken=True)
    world.end(newest(world, 1))
    assert world.fleet.fault is not None
    world.reload()
    world.fleet.fault = "another's"
    world.start().leave()
    assert world.fleet.fault is None


# Replacing one


def test_a_wish():
    """The successor serves before the worker drains; one at a time, the first first."""
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
    """It waits again, behind the others; nothing else is half done."""
    world = serving(3)
    for slot in (1, 2):
        world.fleet.wish(newest(world, slot), "old age")
    world.settle()
    done = world.end(newest(world, 1))
    assert dos(done) == [Do.RETRY, Do.START] and done[1].slot == 2 and done[0].reload is None
    world.turn(PAUSE_SECONDS)
    assert world.slots(STARTING) == [2]


def test_a_wish_during_a_reload():
    """It is on its way already; it stays if that is abandoned."""
    world = serving(2)
    world.reload(is_broken=True)
    assert not world.fleet.wish(newest(world, 2), "old age") and world.fleet.asked == [2, 1]
    world.end(newest(world, 1))
    assert world.fleet.asked == [2]


def test_a_wish_for_a_slot_that_is_none():
    """There is to be no worker."""
    world = serving(2)
    extra = Worker(3, 1, world.fleet.plan, READY)
    assert not world.fleet.wish(extra, "old age") and world.fleet.wishes == {}


def test_who_hangs():
    """It is killed when its successor serves, and not before."""
    world = serving(1)
    (hung,) = world.workers
    hung.is_hung = True
    world.fleet.wish(hung, "it hangs")
    assert dos(world.settle()) == [Do.START]
    done = world.ready(newest(world, 1))
    assert dos(done) == [Do.DRAIN, Do.KILL] and done[1].worker is hung and "hangs" in done[1].why


# Ends


def test_a_crash():
    """Another starts after a pause."""
    world = serving(2)
    assert dos(world.end(newest(world, 2))) == [Do.RESTART]
    assert world.turn(PAUSE_SECONDS - 0.01) == [] and [action.slot for action in world.turn(0.01)] == [2]


def test_one_that_was_told_to_end():
    """Nothing follows."""
    world = serving(1)
    world.reload()
    (first, _) = world.workers
    world.ready(newest(world, 1))
    assert dos(world.end(first))[0] is Do.NOTE


def test_killed_for_a_fault():
    """Its slot waits until it has ended: then it counts where it stood."""
    world = serving(2)
    killed = newest(world, 2)
    killed.state = KILLED
    assert world.turn(100) == []
    assert dos(world.end(killed, is_fault=True)) == [Do.RESTART]


def test_too_late():
    """What has not gone on in its time is killed, for that reason."""
    world = serving(1)
    (worker,) = world.workers
    worker.limit = world.now + 1, "it is too late"
    assert world.turn(0.9) == []
    ((do, killed, why, *_),) = world.turn(0.1)
    assert (do, killed, why) == (Do.KILL, worker, "it is too late")


# More and fewer


def test_more_and_fewer():
    """More start at once; those that are too many drain, also while they start; nothing is remembered of their slots."""
    world = serving(1)
    world.fleet.resize(3)
    world.settle()
    assert world.slots(STARTING) == [2, 3]
    world.ready(newest(world, 2))
    world.fleet.wish(newest(world, 2), "old age")
    world.fleet.retry_at.update({1: 5.0, 3: 5.0, MOLD: 5.0})
    world.fleet.resize(1, "SIGTTOU")
    assert (world.fleet.wishes, world.fleet.retry_at) == ({}, {1: 5.0, MOLD: 5.0})
    done = [(action.worker.slot, action.why) for action in world.settle()]
    assert done == [(2, "SIGTTOU"), (3, "")] and world.slots(DRAINING) == [2, 3]


def test_fewer_while_one_fails():
    """That it cannot start is nothing to wait for; a reload is done without it."""
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


# Molds


def test_a_mold_first():
    """It is ready before any worker starts, and forks all of them."""
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
    """If it ends before one of its workers serves, that is as if it could not start."""
    world = serving(1, preload=True)
    world.reload()
    mold = newest(world, MOLD)
    world.ready(mold)
    assert dos(world.end(mold))[0] is Do.ABANDON


def test_a_mold_dies():
    """Another is made after a pause, and workers wait for it."""
    world = serving(1, preload=True)
    (mold,) = world.find(READY, slot=MOLD)
    assert dos(world.end(mold)) == [Do.RESTART]
    assert dos(world.end(newest(world, 1))) == [Do.RESTART]
    assert [action.slot for action in world.turn(PAUSE_SECONDS)] == [MOLD] and world.turn(100) == []
    assert [action.slot for action in world.ready(newest(world, MOLD))] == [1]


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_mold_that_is_silent(is_killed):
    """Workers import the app by themselves until there is another; whom it was to fork is let go."""
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
    """Its workers import it by themselves; that of other code may be."""
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


def test_upgrade():
    """It begins when nothing else is under way: no first start, no reload, no fork by a mold; a trial is no worker."""
    world = World(1, preload=True)
    world.fleet.is_upgrade_due = True
    world.ready(newest(world, MOLD))
    first = newest(world, 1)
    world.workers.append(trial := Worker(TRIAL, 1, new_plan()))
    first.mold = None
    assert world.settle() == []
    assert dos(world.ready(first)) == [Do.ADVANCE] and not world.fleet.is_upgrade_due
    trial.state = READY
    world.reload()
    world.fleet.is_upgrade_due = True
    assert world.settle() == [] and trial.state is READY
    world.ready(newest(world, MOLD))
    assert Do.ADVANCE not in dos(world.ready(newest(world, 1)))
    assert dos(world.leave()) == [Do.FINISH, Do.ADVANCE]
    world.fleet.wish(newest(world, 1), "old age")
    world.settle()
    world.fleet.is_upgrade_due = True
    assert world.settle() == []


# Questions


def test_a_successor_serves():
    """Whoever waits for it hears so when the worker of before drains."""
    world = serving(2)
    first = newest(world, 1)
    questions = [world.recycle(first), world.recycle(first)]
    successor = newest(world, 1)
    done = world.ready(successor)
    assert dos(done) == [Do.DRAIN, Do.ANSWER, Do.ANSWER]
    assert [(action.worker, *action.asked) for action in done[1:]] == [(successor, each) for each in questions]


def test_a_successor_cannot_start():
    """Whoever waits for that slot hears so; the others wait on."""
    world = serving(2)
    first, second = world.recycle(newest(world, 1)), world.recycle(newest(world, 2))
    done = world.end(newest(world, 1))
    assert done[0].do is Do.RETRY and done[0].asked == (first,) and world.fleet.waiting == [second]
    world.ask(reload=1)
    world.turn(PAUSE_SECONDS)
    assert dos(world.end(world.find(READY, slot=2)[0])) == [Do.RESTART] and len(world.fleet.waiting) == 2
    assert world.end(world.find(STARTING, slot=2)[0])[0].asked == (second,), "the next reload has not failed"


def test_no_successor_any_more():
    """Its slot is none; or nothing is asked for there. Where none serves, one will."""
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


def test_the_end():
    """All drain, molds too; nothing starts any more, and whoever waits hears so."""
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


def test_the_end_at_once():
    """All are killed, once."""
    world = serving(2, preload=True)
    world.fleet.is_ending = world.fleet.is_at_once = True
    assert dos(world.settle()) == [Do.KILL] * 3 and world.turn(1) == []


def test_a_crash_at_the_end():
    """No other starts; one that could not is missed by no client."""
    world = serving(1)
    (worker,) = world.workers
    world.fleet.is_ending = True
    world.workers.remove(worker)
    world.fleet.ends += [End(1, worker.plan, stood, "worker 1", "it ended") for stood in (READY, STARTING)]
    assert dos(world.settle()) == [Do.RESTART, Do.NOTE] and world.turn(100) == []


def test_clients_wait_for_one_that_starts():
    """It may serve them, and then drains."""
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
    world.fleet.is_ending = world.fleet.is_awaited = world.fleet.is_wanted = True
    assert [action.slot for action in world.settle()] == [MOLD]
    mold = newest(world, MOLD)
    done = world.ready(mold)
    assert [(action.do, action.slot) for action in done] == [(Do.START, 1), (Do.DRAIN, 0)] and done[1].worker is mold
    assert dos(world.end(newest(world, 1))) == [Do.MISS] and world.turn(100) == []


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


def test_nothing_is_due():
    """Facts alone decide: asked twice, it says the same, and changes none."""
    fleet = Fleet(new_plan(), 1)
    assert decide(fleet, 0.0) == decide(fleet, 0.0) and fleet.workers == ()
