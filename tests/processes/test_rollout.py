"""Whose turn it is to be replaced."""

from __future__ import annotations

import pytest

from aserve.features import Config
from aserve.processes.plan import Plan
from aserve.processes.rollout import Reload, Rollout

OLD, NEW = Plan(Config(workers=3), "old:app"), Plan(Config(workers=3), "new:app")


def begin_all(rollout):
    """Begin whatever is due; return the slots."""
    begun = []
    for slot in rollout.due():
        rollout.begin(slot)
        begun.append(slot)
    return begun


@pytest.fixture
def reload():
    return Reload("SIGHUP", NEW, 0.0)


def test_one_after_another():
    """No two leave at the same time: the next begins when one serves."""
    rollout = Rollout(OLD)
    assert rollout.add(2, "old age") and rollout.add(1, "its own wish")
    assert not rollout.add(2, "memory")
    assert rollout.has_asked(2) and not rollout.has_asked(3)
    assert begin_all(rollout) == [2] and begin_all(rollout) == []
    assert not rollout.add(2, "memory") and rollout.has_asked(2)
    assert rollout.succeed(2) == "old age" and not rollout.has_asked(2)
    assert begin_all(rollout) == [1]
    assert rollout.succeed(1) == "its own wish" and rollout.succeed(1) == ""
    assert rollout.add(2, "memory")


def test_one_that_fails():
    """It waits again, behind the others."""
    rollout = Rollout(OLD)
    rollout.add(1, "a")
    rollout.add(2, "b")
    begin_all(rollout)
    rollout.fail(1)
    assert begin_all(rollout) == [2]
    rollout.succeed(2)
    assert begin_all(rollout) == [1]
    rollout.fail(7)  # nobody has asked for one there


def test_a_worker_that_starts_anyway():
    """A slot that has lost its worker is given another; if a successor was asked for, that is it."""
    rollout = Rollout(OLD)
    rollout.add(1, "a")
    assert rollout.begin(3) is OLD and rollout.begin(1) is OLD
    assert rollout.succeed(3) == "" and rollout.succeed(1) == "a"


def test_forgotten():
    """A slot that is to have no worker has no successor."""
    rollout = Rollout(OLD)
    rollout.add(1, "a")
    rollout.add(2, "b")
    begin_all(rollout)
    rollout.forget(1)
    rollout.forget(2)
    assert begin_all(rollout) == []


@pytest.mark.parametrize("is_starting", [True, False])
def test_a_reload_of_a_slot_that_waits_already(is_starting, reload):
    """It is not done before that has its successor, too; undone, the wish of before stays."""
    rollout = Rollout(OLD)
    rollout.add(2, "its own wish")
    if is_starting:
        begin_all(rollout)
    rollout.begin_reload(reload, [1, 2], 2)
    assert sorted(begin_all(rollout)) == [1, 2]
    rollout.commit()
    rollout.succeed(1)
    assert rollout.take_done() is None
    rollout.fail(2)
    assert rollout.take_done() is None and begin_all(rollout) == [2]
    assert rollout.succeed(2) == "its own wish" and rollout.take_done() is reload
    rollout.add(2, "its own wish")
    rollout.begin_reload(reload, [1, 2], 2)
    rollout.abandon()
    assert rollout.has_asked(2) and not rollout.has_asked(1)


def test_a_wish_during_a_reload(reload):
    """It stays when that is abandoned."""
    rollout = Rollout(OLD)
    rollout.begin_reload(reload, [1, 2], 1)
    assert not rollout.add(2, "its own wish")
    assert begin_all(rollout) == [2], "nobody knows whether a reload comes to its end"
    rollout.abandon()
    assert rollout.has_asked(2) and not rollout.has_asked(1) and begin_all(rollout) == [2]


def test_a_reload_that_is_half_done(reload):
    """It is until all that have failed serve: the mold does if one that it has forked does; another may take its place."""
    rollout = Rollout(OLD)
    rollout.note_half_done(3, "there is none")
    rollout.begin_reload(reload, [1, 2, 3], 1)
    rollout.commit()
    rollout.succeed(1)
    for slot in (2, 3, 99):
        rollout.fail(slot)
        rollout.note_half_done(slot, f"{slot} could not")
    assert rollout.failed == ["2 could not", "3 could not", "99 could not"] and not rollout.is_moving
    assert rollout.describe() == "; a reload is half done"
    rollout.succeed(2)
    assert rollout.failed == ["3 could not"]
    other = Reload("SIGHUP", OLD._replace(), 0.0)
    rollout.begin_reload(other, [1, 2, 3], 1)
    assert rollout.is_moving and rollout.failed == [] and begin_all(rollout) == [1]
    assert rollout.abandon() is other
    assert rollout.failed == ["3 could not"] and begin_all(rollout) == [3], "the first goes on"
    rollout.begin_reload(other, [1, 2, 3], 1)
    rollout.forget(3)
    rollout.abandon()
    assert rollout.take_done() is reload and rollout.describe() == ""


@pytest.mark.parametrize("width", [1, 3])
def test_reload(width, reload):
    """Every slot gets its successor, so many at a time; the first that serves decides for all that follow."""
    rollout = Rollout(OLD)
    rollout.begin_reload(reload, [1, 2, 3], width)
    assert begin_all(rollout) == [1, 2, 3][:width]
    assert rollout.is_unproven(NEW) and not rollout.is_unproven(OLD) and rollout.take_done() is None
    rollout.succeed(1)
    assert rollout.commit() is OLD and rollout.plan is NEW and not rollout.is_unproven(NEW)
    for slot in (2, 3):
        assert rollout.take_done() is None
        begin_all(rollout)
        rollout.succeed(slot)
    assert rollout.take_done() is reload and rollout.take_done() is None and rollout.reload is None
    rollout.add(1, "old age")
    rollout.add(2, "old age")
    assert begin_all(rollout) == [1], "from now on one after another"


def test_what_starts_during_a_reload(reload):
    """It is started for what is new."""
    rollout = Rollout(OLD)
    rollout.begin_reload(reload, [1, 2], 1)
    assert rollout.begin(2) is NEW


def test_a_reload_that_is_abandoned(reload):
    """Everything is as before; what was asked for with another reason still is, also where it was starting."""
    rollout = Rollout(OLD)
    rollout.add(3, "old age")
    rollout.begin_reload(reload, [1, 2, 3], 3)
    assert begin_all(rollout) == [3, 1, 2]
    assert rollout.abandon() is reload
    assert rollout.plan is OLD and rollout.reload is None and rollout.take_done() is None
    assert begin_all(rollout) == [3] and rollout.begin(3) is OLD


def test_a_reload_while_a_successor_starts(reload):
    """That one is started again, for what is new."""
    rollout = Rollout(OLD)
    rollout.add(1, "old age")
    begin_all(rollout)
    rollout.begin_reload(reload, [1], 1)
    assert begin_all(rollout) == [1]
    rollout.commit()
    assert rollout.succeed(1) == "old age"
    assert rollout.take_done() is reload
