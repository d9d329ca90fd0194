"""Orders for all workers alike: on processes that only have numbers."""

from __future__ import annotations

import signal

from harness.supervising import told


def test_logs(supervised):
    """SIGUSR1: each worker that writes is told."""
    one = supervised(2)
    first, second = one.start()
    one.signal(signal.SIGHUP)
    one.signal(signal.SIGUSR1)
    assert [told(one, child) for child in one.children] == [[{"do": "reopen logs"}]] * 2 + [[]]


def test_logs_of_one_that_starts(supervised):
    """It may have opened its log before the signal: it is told as soon as it serves."""
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
    notices = one.supervisor.reactions.crew._notices
    notices.set_unready("drained by aserve balancers")
    order = {"do": "set unready", "why": "drained by aserve balancers"}
    assert told(one, first) == told(one, second) == [order]
    one.end(second, number=9)
    (successor,) = one.turn(0.11)
    assert told(one, successor) == []
    one.say(successor, say="ready")
    assert told(one, successor) == [order]
    notices.set_unready("")
    assert told(one, successor) == [{"do": "set unready", "why": ""}]
