"""Acts on each event: on processes of numbers alone; tests/e2e/test_workers.py has real ones."""

import os
import select
import signal
import types

import pytest
from harness.supervising import COMMAND, slots_of, told
from harness.waiting import wait_until

from aserve.connections.listeners import bind_listeners
from aserve.core.page import MOLD, TRIAL, Field, State
from aserve.features import Config, supervised_of
from aserve.processes import supervisor as supervisor_module
from aserve.processes.acts import StartFailed
from aserve.processes.children.child import Child
from aserve.processes.children.role import Role
from aserve.processes.fleet.fleet import Do
from aserve.processes.fleet.plan import Plan
from aserve.processes.site import Site
from aserve.processes.supervisor import Supervisor

TERM, HUP = signal.SIGTERM, signal.SIGHUP


# The start


def test_the_first_shows_whether_there_is_anything_to_serve(supervised, caplog):
    """One worker starts; when it is ready, the rest do, at once."""
    one = supervised(4)
    (first,) = one.turn()
    assert one.turn(100.0) == []
    one.system.workers_ends[first.pid].send({"say": "ready"})
    assert slots_of(one.turn()) == [2, 3, 4]
    assert "serving on  with 4 workers (--workers 4)" in caplog.text
    assert f"{first} is ready, after 100.0 s" in caplog.text


# The loop


def test_a_stop_leaves_a_starter_its_time(supervised, caplog):
    """A starting worker was stopped, too: it keeps its time, whatever wakes the supervisor first."""
    one = supervised(1, start_seconds=10)
    (child,) = one.turn()
    one.turn(8)
    one.system.now += 3600
    one.signal(signal.SIGCHLD)
    assert "this process was stopped for 3599 s" in caplog.text and one.system.signals == []
    one.turn(1)
    assert one.system.signals == [(child.pid, signal.SIGABRT)]


def test_it_wakes_up_for_a_limit(supervised, monkeypatch):
    """The wait lasts until the first coming limit of any worker."""
    one = supervised(1, start_seconds=10)
    (child,) = one.turn()
    asked = []
    monkeypatch.setattr(one.supervisor.parts.poller.selector, "select", lambda seconds: asked.append(seconds) or [])
    child.due_at = one.system.now + 0.25
    one.turn()
    one.turn(0.25)
    assert asked == [0.25, 0.0] and child.state is State.KILLED


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_what_is_due(supervised, monkeypatch, caplog):
    """The act is tried again with the next event, and not at once without end."""
    one = supervised(2)
    one.start()
    failed = []

    def fail(action):
        failed.append(action.worker)
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setitem(one.supervisor.acts.by_do, Do.DRAIN, fail)
        one.signal(signal.SIGTTOU)
        assert 1 <= len(failed) < 10 and "internal error" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.DRAINING, State.READY]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_a_rule(supervised, monkeypatch, caplog):
    """The supervisor goes on, and due acts are done after the next event."""
    one = supervised(2)
    one.start()

    def fail(fleet, now):
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(supervisor_module, "decide", fail)
        one.signal(signal.SIGTTOU)
        assert "internal error" in caplog.text and "ValueError: a bug" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.DRAINING, State.READY]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_that_changes_nothing(supervised, monkeypatch, caplog):
    """An act due for ever is left to the next event, and logged."""
    one = supervised(2)
    one.start()
    done = []
    with monkeypatch.context() as patch:
        patch.setattr(supervisor_module, "MAX_ROUNDS", 7)
        patch.setitem(one.supervisor.acts.by_do, Do.DRAIN, done.append)
        one.supervisor.parts.crew.resize(1, "asked")
        assert one.supervisor._settle() == [] and len(done) == 7
    assert "RuntimeError: after 7 rounds something is due still: DRAIN" in caplog.text
    one.turn()
    assert [child.state for child in one.children] == [State.DRAINING, State.READY]


def test_its_run_returns_role_and_status(caplog, tmp_path):
    """With real processes: the child returns with its role, and the supervisor with the exit status at the end."""
    caplog.set_level("INFO", "aserve")
    plan = Plan(Config(workers=1, bind="127.0.0.1:0", control=str(tmp_path / "control")), None)
    listeners = bind_listeners(plan.config)
    role = Supervisor(Site(plan, lambda before: plan, listeners, COMMAND, supervised_of(plan.config).supervise)).run()
    if isinstance(role, Role):
        role.channel.send({"say": "ready"})
        wait_until(lambda: role.page[Field.STATE] == State.READY)  # or the signal could be met first
        os.kill(os.getppid(), signal.SIGTERM)
        select.select([role.channel], [], [])
        os._exit(0 if role.channel.receive() == ({"do": "drain", "stopping": True}, []) else 1)
    assert role == 0 and listeners[0].socket.fileno() == -1 and not (tmp_path / "control").exists()
    assert "serving on http://127.0.0.1:" in caplog.text and caplog.text.rstrip().endswith("stopped")


def test_its_run_when_nothing_starts():
    """The run raises the first worker's reason."""
    plan = Plan(Config(workers=1), None)
    try:
        role = Supervisor(Site(plan, lambda before: plan, (), COMMAND)).run()
    except StartFailed as fault:
        assert "could not start: no module" in str(fault) and fault.app_traceback == "Traceback: here"
        return
    assert isinstance(role, Role)
    role.channel.send({"say": "failed", "why": "no module", "traceback": "Traceback: here"})
    os._exit(1)


def test_the_loop_when_a_fork_fails(supervised, monkeypatch):
    """Due acts are asked for anew: with the fork a reload may have ended."""
    supervisor, forked, due = supervised(2).supervisor, [], [[1, 2], [3]]

    def wait():
        raise EOFError

    monkeypatch.setattr(supervisor, "open", lambda inherited: None)
    monkeypatch.setattr(supervisor, "_settle", lambda: due.pop(0))
    monkeypatch.setattr(supervisor, "fork", lambda start: forked.append(start) or False)
    monkeypatch.setattr(supervisor, "_wait", wait)
    with pytest.raises(EOFError):
        supervisor.run()
    assert forked == [1, 3]


# The messages of children


@pytest.mark.parametrize("slot", [TRIAL, 1, MOLD])
def test_the_kind_of_process(supervised, slot):
    """The same word of a worker, a mold or a trial goes to its own noun."""
    one, heard = supervised(1).supervisor, []
    tables = {1: one.events.by_word, **one.events.by_word_of}
    for number, table in tables.items():
        table["ready"] = lambda child, message, fds, number=number: heard.append((number, child.slot, fds))
    one.parts.children.hear(Child(7, slot, 1, None, None, 0, 0), {"say": "ready"}, [3])
    assert heard == [(slot, slot, [3])]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours(supervised, caplog):
    """A bug is logged, and the loop goes on."""
    one = supervised(1)
    (child,) = one.start()
    one.supervisor.events.by_word["left"] = None
    one.say(child, say="left")
    assert "internal error; please report this as a bug in aserve" in caplog.text
    one.signal(signal.SIGTERM)
    assert told(one, child) == [{"do": "drain", "stopping": True}]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_last_words(supervised):
    """The worker with the last words is replaced, like any other."""
    one = supervised(1)
    (child,) = one.start()
    one.supervisor.events.by_word["left"] = None
    one.system.workers_ends[child.pid].send({"say": "left"})
    one.system.ends.append((child.pid, 9))
    one.reap()
    assert one.children == []
    (successor,) = one.turn(0.11)
    assert successor.slot == child.slot


# The start of a child


@pytest.mark.parametrize("preload", [False, True])
def test_in_a_child(monkeypatch, tmp_path, preload):
    """The run returns the child's role, with its needs, and nothing of the supervisor's is left; this process is that child."""
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(supervisor_module, "lib", types.SimpleNamespace(subreaper_begin=lambda: 0))
    before = signal.getsignal(signal.SIGTERM)
    plan = Plan(Config(workers=2, preload=preload, control=str(tmp_path / "control")), None)
    role = Supervisor(Site(plan, lambda before: plan, (), COMMAND, supervised_of(plan.config).supervise)).run()
    assert (role.slot, role.name) == ((MOLD, "the mold") if preload else (1, "worker 1"))
    assert role.plan is plan and role.supervisor_pid == os.getppid() and role.pages is not None
    assert (role.load_board is None) == preload and signal.getsignal(signal.SIGTERM) == before
    role.channel.close()
    assert (tmp_path / "control").exists()  # the parent answers there


@pytest.mark.parametrize(
    "message",
    [
        {}, {"say": None}, {"say": []}, {"say": "nonsense"}, {"say": "begun"}, {"say": "idle"}, {"say": "idle", "listener": "0", "peer": None},
        {"say": "request", "listener": 0, "peer": None, "giver": 1, "until": 0.0}, {"say": "taken", "number": []}, {"say": "failed", "why": 1},
    ],
)  # fmt: skip
def test_nonsense_of_a_worker(supervised, caplog, message):
    """An app that writes to the channel: one line says so, its descriptors are closed, and the worker goes on."""
    one = supervised(1)
    (child,) = one.start()
    for _ in range(3):
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        one.say(child, fd=writes, **message)
        assert os.read(reads, 1) == b"", "no process has the other end any more"
        os.close(reads)
    assert caplog.text.count(f"{child}: a message to the supervisor has no meaning") == 1
    assert "internal error" not in caplog.text and child.state is State.READY


@pytest.mark.parametrize("octets", [b"x", b"[1]", b"\xff", b"[" * 60_000, b'"say"'])
def test_octets_that_are_no_message(supervised, caplog, octets):
    """An app that writes octets to the channel: a line says so, and the worker goes on."""
    one = supervised(1)
    (child,) = one.start()
    os.write(one.system.workers_ends[child.pid].fileno(), octets)
    one.turn()
    assert "has no meaning" in caplog.text and "internal error" not in caplog.text and child.state is State.READY
