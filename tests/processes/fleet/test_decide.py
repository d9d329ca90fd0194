"""Due acts, by the facts: each rule once. Any order of events: test_decide_histories.py. Molds and the end: test_decide_molds.py."""

import pytest
from harness.fleets import DRAINING, KILLED, PAUSE_SECONDS, READY, STARTING, World, dos, new_plan, newest, serving

from aserve.processes.fleet.decide import decide
from aserve.processes.fleet.facts import End
from aserve.processes.fleet.fleet import Do, Fleet

# The first start


def test_the_first_shows_whether_there_is_anything_to_serve():
    """One worker starts; once it serves, the rest do, at once."""
    world = World(3)
    assert world.slots(STARTING) == [1] and world.turn(100) == []
    world.ready(newest(world, 1))
    assert world.slots(STARTING) == [2, 3]
    assert world.fleet.plan is world.workers[0].plan


def test_the_first_cannot_start():
    """Without a first server there is nothing to serve: no other try is made."""
    world = World()
    assert dos(world.end(newest(world, 1))) == [Do.GIVE_UP] and world.fleet.is_ending
    assert world.turn(100) == [] and world.fleet.fault is None


def test_the_first_cannot_start_with_reload():
    """Another starts at once, to show why; if that fails too, the start is given up."""
    world = World(reload=True)
    assert dos(world.end(newest(world, 1))) == [Do.SHOW, Do.START] and world.fleet.fault.why == "it ended"
    assert dos(world.end(newest(world, 1))) == [Do.GIVE_UP]


# Reloads


def test_one_after_another():
    """Each successor serves before the old worker drains, and that before the next begins; the end comes when no old worker accepts."""
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
    """A draining worker accepts no client any more, either."""
    world = serving(1)
    (first,) = world.workers
    world.reload()
    world.ready(newest(world, 1))
    assert dos(world.end(first)) == [Do.NOTE, Do.FINISH]


def test_all_at_once():
    """--reload-at-once: all successors begin; otherwise one after another, though slots were many at once before."""
    world = serving(3, reload_at_once=True)
    world.reload()
    assert world.slots(STARTING) == [1, 2, 3]
    world.start().leave()
    for worker in world.find(READY):
        world.fleet.wish(worker, "old age")
    world.settle()
    assert world.slots(STARTING) == [1]


def test_code_that_does_not_start():
    """Nothing has changed; the questions about this reload are answered; its other successors end."""
    world = serving(2, reload_at_once=True)
    before, question, later = world.fleet.plan, world.ask(reload=1), world.ask(reload=2)
    world.reload(is_broken=True)
    done = world.end(newest(world, 1))
    assert dos(done) == [Do.ABANDON, Do.DRAIN] and done[0].asked == (question,) and done[0].reload.number == 1
    assert world.fleet.plan is world.fleet.target is before and world.fleet.waiting == [later]
    assert world.turn(100) == [] and world.slots(READY) == [1, 2] and world.fleet.fault is None


def test_a_later_successor_that_does_not_start():
    """The code has shown its fitness: the reload is half done, callers hear so, and the slot is tried again, behind the rest."""
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


def test_it_comes_behind_the_others():
    """A failed slot begins again when the rest have begun."""
    world = serving(4)
    world.reload()
    world.ready(newest(world, 1))
    world.end(newest(world, 2))
    world.turn(PAUSE_SECONDS)
    world.ready(newest(world, 3))
    assert world.slots(STARTING) == [4]


def test_a_crash_during_a_reload():
    """The reload is not done while a slot has no worker, old or new."""
    world = serving(2)
    world.reload()
    world.ready(newest(world, 1))
    first, second = world.find(READY, slot=1)[-1], world.find(READY, slot=2)[0]
    assert dos(world.end(second)) == [Do.RESTART], "that its plan is none any more is no fault of the new one"
    world.ready(newest(world, 2))
    world.end(first)
    assert world.leave() == [] and world.fleet.is_moving
    world.turn(PAUSE_SECONDS)
    assert dos(world.ready(newest(world, 1))) == [Do.FINISH]


def test_one_of_before_that_was_killed():
    """A killed worker accepts no client, whenever it ends."""
    world = serving(1)
    world.workers[0].is_hung = True
    world.reload()
    assert dos(world.ready(newest(world, 1))) == [Do.PROVE, Do.DRAIN, Do.KILL, Do.FINISH]


def test_two_at_the_same_time():
    """The first server proves the code; the first failure ends the reload, and then the other is not counted."""
    world = serving(2, reload_at_once=True)
    world.reload()
    for worker in world.find(STARTING):
        worker.state = READY
    assert dos(world.settle()) == [Do.PROVE, Do.DRAIN, Do.DRAIN]
    world.leave()
    world.reload()
    for worker in world.find(STARTING):
        world.workers.remove(worker)
        world.fleet.ends.append(End(worker.slot, worker.plan, STARTING, f"worker {worker.slot}", "it ended"))
    assert dos(world.settle()) == [Do.ABANDON, Do.IGNORE]


def test_one_more_meanwhile():
    """A reload begins after the present one; in the place of a half-done one, and goes back to it after a failure."""
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
    world = serving(1)
    world.reload(is_broken=True)
    world.reload()
    assert dos(world.end(newest(world, 1))) == [Do.ABANDON, Do.BEGIN, Do.START]
    number = world.fleet.reload.number
    assert (number, world.fleet.next_number) == (2, 3)


def test_asked_for_at_the_start():
    world = World(1)
    world.reload()
    world.fleet.on_upgrade("SIGUSR2")
    assert dos(world.ready(newest(world, 1))) == [Do.BEGIN, Do.START]


def test_a_reload_that_is_refused():
    """The settings cannot be read: callers hear so, and nothing has changed."""
    world = serving(1)
    question = world.ask(reload=1)
    assert world.refuse() == [] and world.answers[question] == 1 and world.fleet.waiting == []
    assert (world.fleet.next_number, world.fleet.reload) == (2, None)


def test_a_reload_that_is_dropped():
    """An unproven reload is off, and only its callers hear so; a proven one goes on."""
    world = serving(1)
    question, later = world.ask(reload=1), world.ask(reload=2)
    world.reload()
    other = world.ask(slot=1, generation=1)
    world.drop()
    assert world.answers[question] == 1 and world.fleet.waiting == [later, other] and world.fleet.reload is None
    world.reload()
    world.ready(newest(world, 1))
    world.drop()
    assert world.fleet.is_moving and world.fleet.waiting == [later]


@pytest.mark.parametrize("looks", [False, True])
def test_started_before_the_reload(looks):
    """The worker is let go, as its import may have been repaired; if it ends by itself, the reload does not care, and no fault is shown."""
    world = serving(2, reload=looks)
    world.end(newest(world, 2))
    world.turn(PAUSE_SECONDS)
    late = newest(world, 2)
    world.fleet.begin("reload", new_plan(reload=looks), world.now)
    world.workers.remove(late)
    world.fleet.ends.append(End(2, late.plan, STARTING, "worker 2", "it ended"))
    assert dos(world.settle())[0] is Do.IGNORE and world.fleet.is_moving and world.fleet.reload.failed == {}
    assert world.fleet.fault is None
    late = newest(world, 2)
    world.drop()
    assert late.state is STARTING and dos(world.settle())[0] is Do.DRAIN and late.state is DRAINING


def test_everything_is_down():
    """When no worker is left, a reload of repaired code starts all at once."""
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


# Ends


def test_a_crash_is_replaced_after_a_pause():
    world = serving(2, reload=True)
    assert dos(world.end(newest(world, 2))) == [Do.RESTART] and world.fleet.fault is None
    assert world.turn(PAUSE_SECONDS - 0.01) == [] and [action.slot for action in world.turn(0.01)] == [2]


def test_one_that_was_told_to_end():
    """Nothing follows."""
    world = serving(1)
    world.reload()
    (first, _) = world.workers
    world.ready(newest(world, 1))
    assert dos(world.end(first))[0] is Do.NOTE


def test_killed_for_a_fault():
    """The slot waits for the end of the killed worker: then the crash counts by its state."""
    world = serving(2)
    killed = newest(world, 2)
    killed.state = KILLED
    assert world.turn(100) == []
    assert dos(world.end(killed, is_fault=True)) == [Do.RESTART]


# More and fewer


def test_nothing_is_due():
    """Facts alone decide: asked twice, the answer is the same, and no fact changes."""
    fleet = Fleet(new_plan(), 1)
    assert decide(fleet, 0.0) == decide(fleet, 0.0) and fleet.workers == ()
