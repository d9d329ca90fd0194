"""The number of workers, replacements, and a slot's next try: on processes of numbers alone."""

import signal

from harness.supervising import LEAVE, slots_of, told

from aserve.core.page import State

TERM = signal.SIGTERM


def test_crashes_in_a_row(supervised):
    """The pauses grow; after a while of service they are short again."""
    one = supervised(1)
    (child,) = one.start()
    for pause in (0.01, 0.1, 0.2):
        assert one.end(child, number=11) == []
        assert one.turn(pause - 0.001) == []
        (child,) = one.turn(0.002)
        one.say(child, say="ready")
    one.system.now += 60
    one.end(child, number=11)
    assert slots_of(one.turn(0.11)) == [1]


def test_a_worker_that_asks_for_a_successor(supervised, caplog):
    """The worker goes on until its successor serves; asked again, there is still one."""
    one = supervised(2)
    first, second = one.start()
    one.say(second, say="failing", why="it was sent SIGTERM")
    one.say(second, say="failing", why="3 threads are stuck")
    one.say(first, say="failing", why="it was sent SIGTERM")
    assert f"worker 2 is to be replaced: {second}: it was sent SIGTERM" in caplog.text
    (new,) = [child for child in one.children if child.state == State.STARTING]
    one.say(new, say="ready")
    assert second.state == State.DRAINING and first.state == State.READY
    one.say(second, say="failing", why="again")
    assert slots_of(child for child in one.children if child.state == State.STARTING) == [1]


def test_more_and_fewer(supervised, caplog):
    """SIGTTIN starts one more; SIGTTOU drains the starting one, then the oldest; one stays."""
    one = supervised(1)
    (first,) = one.start()
    one.signal(signal.SIGTTIN)
    two = one.children[-1]
    one.say(two, say="ready")
    one.signal(signal.SIGTTIN)
    three = one.children[-1]
    one.signal(signal.SIGTTOU)
    assert told(one, three) == [LEAVE]
    one.signal(signal.SIGTTOU)
    assert told(one, first) == [LEAVE]
    one.signal(signal.SIGTTOU)
    assert "SIGTTOU: the number of workers stays 1; it may be 1 to 1024" in caplog.text
    assert one.end(three, number=9) == one.end(first) == []
    one.signal(TERM)
    one.signal(signal.SIGTTIN)
    assert slots_of(one.children) == [2]


def test_one_that_serves_and_has_not_been_heard(supervised, caplog):
    """An unwanted worker whose word of readiness comes late finishes its requests, like any other."""
    one = supervised(1)
    one.start()
    one.signal(signal.SIGTTIN)
    two = one.children[-1]
    one.signal(signal.SIGTTOU)
    one.say(two, say="ready")
    assert two.state == State.DRAINING and told(one, two) == [LEAVE] and one.system.signals == []
    assert one.end(two) == []
    assert f"{two} is ready" not in caplog.text and f"{two} has ended: it exited with status 0" in caplog.text


def test_fewer_while_one_is_missing(supervised, caplog):
    """A removed slot is not missed; nor is a crash there told as a replacement."""
    one = supervised(2)
    first, second = one.start()
    one.signal(signal.SIGTTOU)
    one.end(first, number=9)
    one.signal(signal.SIGTTIN)
    (first,) = one.turn() or one.children[-1:]
    one.end(first, status=1)
    assert "degraded: 1 of 2" in caplog.text
    one.signal(signal.SIGTTOU)
    assert one.turn(100.0) == [] and one.children == [second]


def test_one_that_was_not_needed_any_more(supervised):
    """A successor that is ready after its slot's removal drains at once."""
    one = supervised(2)
    _, second = one.start()
    one.say(second, say="failing", why="old age")
    successor = one.children[-1]
    one.supervisor.fleet.size = 1  # as by a reload of such settings, before the kill
    one.say(successor, say="ready")
    assert second.state == successor.state == State.DRAINING


# Orders for all workers alike


def test_logs_are_reopened_by_each_worker(supervised):
    """SIGUSR1: each worker with a log is told."""
    one = supervised(2)
    first, second = one.start()
    one.signal(signal.SIGHUP)
    one.signal(signal.SIGUSR1)
    assert [told(one, child) for child in one.children] == [[{"do": "reopen logs"}]] * 2 + [[]]


def test_logs_of_one_that_starts(supervised):
    """A starting worker may have opened its log before the signal: it is told as soon as it serves."""
    one = supervised(2)
    (first,) = one.turn()
    one.signal(signal.SIGUSR1)
    assert told(one, first) == []
    one.turn(1)
    one.say(first, say="ready")
    second = one.children[-1]
    one.say(second, say="ready")
    assert told(one, first) == [{"do": "reopen logs"}] and told(one, second) == []


def test_balancers_and_one_that_starts(supervised):
    """A worker that becomes ready meanwhile sends balancers elsewhere, too."""
    one = supervised(2)
    first, second = one.start()
    crew = one.supervisor.parts.crew
    crew.set_unready("drained by aserve balancers")
    order = {"do": "set unready", "why": "drained by aserve balancers"}
    assert told(one, first) == told(one, second) == [order]
    one.end(second, number=9)
    (successor,) = one.turn(0.11)
    assert told(one, successor) == []
    one.say(successor, say="ready")
    assert told(one, successor) == [order]
    crew.set_unready("")
    assert told(one, successor) == [{"do": "set unready", "why": ""}]
