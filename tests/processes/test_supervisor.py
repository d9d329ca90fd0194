"""What is done about each event: on processes that only have numbers; tests/e2e/test_workers.py has real ones."""

from __future__ import annotations

import os
import select
import signal
import types

import pytest
from harness.supervising import COMMAND, slots_of, told
from harness.waiting import wait_until

from aserve.connections.listeners import bind_listeners
from aserve.core.page import MOLD, Field, State
from aserve.features import Config
from aserve.processes import molds
from aserve.processes import supervisor as supervisor_module
from aserve.processes.fleet import Do
from aserve.processes.plan import Plan
from aserve.processes.role import Role
from aserve.processes.shutdown import StartFailed
from aserve.processes.supervisor import Supervisor

TERM, HUP = signal.SIGTERM, signal.SIGHUP


# The start


def test_the_first_shows_whether_there_is_anything_to_serve(supervised, caplog):
    """One worker starts; when it is ready, the others do, at once."""
    one = supervised(4)
    (first,) = one.turn()
    assert one.turn(100.0) == []
    one.system.workers_ends[first.pid].send({"say": "ready"})
    assert slots_of(one.turn()) == [2, 3, 4]
    assert "serving on  with 4 workers (--workers 4)" in caplog.text
    assert f"{first} is ready, after 100.0 s" in caplog.text


def test_logs(supervised):
    """SIGUSR1: each worker that writes is told."""
    one = supervised(2)
    first, second = one.start()
    one.signal(HUP)
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


# Connections


def test_an_idle_connection(supervised):
    """It goes to the worker with the fewest, those counted that it was given meanwhile; to none, it is closed."""
    one = supervised(3)
    first, second, third = one.start()
    for child, count in ((first, 0), (second, 5), (third, 6)):
        one.supervisor._children.page(child)[Field.CONNECTIONS] = count
    given = []
    for _ in range(4):
        reading, writing = os.pipe()
        os.close(reading)
        one.say(first, fd=writing, say="idle", listener=0, peer=["192.0.2.1", "5"])
        for child in (second, third):
            for message, (fd,) in one.heard(child):
                assert message == {"say": "idle", "do": "adopt", "listener": 0, "peer": ["192.0.2.1", "5"]}
                given.append(child.slot)
                os.close(fd)
    assert given == [2, 2, 3, 2]
    for child in one.children:  # each has written its page by now
        one.supervisor._children.page(child)[Field.TICK] += 1
    one.turn(1.1)
    assert [child.given_count for child in one.children] == [0, 0, 0]


def test_an_idle_connection_during_a_reload(supervised):
    """It goes to a worker that stays, though that has more."""
    one = supervised(3)
    first, _, _ = one.start()
    one.signal(HUP)
    new = one.children[-1]
    one.supervisor._children.page(new)[Field.CONNECTIONS] = 100
    one.say(new, say="ready")
    reading, writing = os.pipe()
    os.close(reading)
    one.say(first, fd=writing, say="idle", listener=0, peer=None)
    ((_, (fd,)),) = one.heard(new)
    os.close(fd)


def test_an_idle_connection_that_nobody_takes(supervised):
    """It is closed: its worker drains, and there is no other."""
    one = supervised(1)
    (child,) = one.start()
    one.signal(TERM)
    reading, writing = os.pipe()
    one.say(child, fd=writing, say="idle", listener=0, peer=None)
    assert os.read(reading, 1) == b""
    os.close(reading)


# The loop


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours(supervised, caplog):
    """It is logged, and the loop goes on."""
    one = supervised(1)
    (child,) = one.start()
    one.say(child, say="nonsense")
    assert "internal error; please report this as a bug in aserve" in caplog.text
    one.signal(TERM)
    assert told(one, child) == [{"do": "drain", "stopping": True}]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_last_words(supervised):
    """Who has said them is replaced, like any other."""
    one = supervised(1)
    (child,) = one.start()
    one.system.workers_ends[child.pid].send({"say": "nonsense"})
    one.system.ends.append((child.pid, 9))
    one.reap()
    assert one.children == []
    (successor,) = one.turn(0.11)
    assert successor.slot == child.slot


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_what_is_due(supervised, monkeypatch, caplog):
    """It is tried again with the next event, and not at once and for ever."""
    one = supervised(2)
    one.start()
    failed = []

    def fail(action):
        failed.append(action.worker)
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setitem(one.supervisor._by_do, Do.DRAIN, fail)
        one.signal(signal.SIGTTOU)
        assert 1 <= len(failed) < 10 and "internal error" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.READY, State.DRAINING]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_a_rule(supervised, monkeypatch, caplog):
    """The supervisor goes on, and what is due is done after the next event."""
    one = supervised(2)
    one.start()

    def fail(fleet, now):
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(supervisor_module, "decide", fail)
        one.signal(signal.SIGTTOU)
        assert "internal error" in caplog.text and "ValueError: a bug" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.READY, State.DRAINING]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_that_changes_nothing(supervised, monkeypatch, caplog):
    """What is due for ever is left to the next event, and logged."""
    one = supervised(2)
    one.start()
    done = []
    with monkeypatch.context() as patch:
        patch.setattr(supervisor_module, "MAX_ROUNDS", 7)
        patch.setitem(one.supervisor._by_do, Do.DRAIN, done.append)
        one.supervisor.resize(1, "asked")
        assert one.supervisor._settle() == [] and len(done) == 7
    assert "RuntimeError: after 7 rounds something is due still: DRAIN" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.READY, State.DRAINING]


def test_a_signal_that_is_not_the_supervisors(supervised):
    """One that the wake-up descriptor tells, and no handler of ours is for, is left alone."""
    one = supervised(1)
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    one.signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert not one.supervisor.is_ending


def test_its_run(caplog):
    """With real processes: the child returns with its role, and the supervisor with the exit status when it has ended."""
    caplog.set_level("INFO", "aserve")
    plan = Plan(Config(workers=1, bind="127.0.0.1:0"), None)
    listeners = bind_listeners(plan.config)
    role = Supervisor(plan, lambda: plan, listeners, COMMAND).run()
    if isinstance(role, Role):
        role.channel.send({"say": "ready"})
        wait_until(lambda: role.page[Field.STATE] == State.READY)  # or the signal could be met first
        os.kill(os.getppid(), signal.SIGTERM)
        select.select([role.channel], [], [])
        os._exit(0 if role.channel.receive() == ({"do": "drain", "stopping": True}, []) else 1)
    assert role == 0 and listeners[0].socket.fileno() == -1
    assert "serving on http://127.0.0.1:" in caplog.text and caplog.text.rstrip().endswith("stopped")


@pytest.mark.parametrize("preload", [False, True])
def test_in_a_child(monkeypatch, preload):
    """What run returns there: who it is, with what it needs, and nothing of the supervisor's is left; this process is that child."""
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(molds, "lib", types.SimpleNamespace(subreaper_begin=lambda: 0))
    before = signal.getsignal(signal.SIGTERM)
    plan = Plan(Config(workers=2, preload=preload), None)
    role = Supervisor(plan, lambda: plan, (), COMMAND).run()
    assert (role.slot, role.name) == ((MOLD, "the mold") if preload else (1, "worker 1"))
    assert role.plan is plan and role.supervisor_pid == os.getppid() and role.slots is not None
    assert (role.load_board is None) == preload and signal.getsignal(signal.SIGTERM) == before
    role.channel.close()


def test_its_run_when_nothing_starts():
    """It raises what the first worker has said."""
    plan = Plan(Config(workers=1), None)
    try:
        role = Supervisor(plan, lambda: plan, (), COMMAND).run()
    except StartFailed as fault:
        assert "could not start: no module" in str(fault) and fault.app_traceback == "Traceback: here"
        return
    assert isinstance(role, Role)
    role.channel.send({"say": "failed", "why": "no module", "traceback": "Traceback: here"})
    os._exit(1)


def test_the_loop_when_a_fork_fails(supervised, monkeypatch):
    """What is due is asked anew: with the fork a reload may have ended."""
    supervisor, forked, due = supervised(2).supervisor, [], [[1, 2], [3]]

    def wait():
        raise EOFError

    monkeypatch.setattr(supervisor, "_open", lambda inherited: None)
    monkeypatch.setattr(supervisor, "_settle", lambda: due.pop(0))
    monkeypatch.setattr(supervisor, "_fork", lambda start: forked.append(start) or False)
    monkeypatch.setattr(supervisor, "_wait", wait)
    with pytest.raises(EOFError):
        supervisor.run()
    assert forked == [1, 3]
