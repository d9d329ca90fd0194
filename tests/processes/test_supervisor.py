"""What is done about each event: on processes that only have numbers; tests/e2e/test_workers.py has real ones."""

from __future__ import annotations

import mmap
import os
import re
import select
import signal
import types

import pytest
from harness.supervising import COMMAND, LEAVE, slots_of, told
from harness.waiting import wait_until

from aserve.connections.in_flight import TABLE_BYTES, InFlight
from aserve.connections.listeners import bind_listeners
from aserve.exchange import Exchange
from aserve.processes import molds
from aserve.processes.child import MOLD, State
from aserve.processes.plan import Plan
from aserve.processes.shutdown import StartFailed
from aserve.processes.slots import Field
from aserve.processes.supervisor import Supervisor
from aserve.processes.worker import Role
from aserve.settings import Config

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


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"why": "no module 'a'", "traceback": "Traceback: here\n"}, "no module 'a'"),
        (None, "it exited with status 3 before it was ready, without a word"),
    ],
)
def test_a_start_that_fails_ends_the_command(supervised, words, why):
    """It says why, with the app's traceback; nothing else is tried."""
    one = supervised()
    (first,) = one.turn()
    if words:
        one.say(first, say="failed", **words)
    assert one.end(first, status=3) == [] and one.supervisor._shutdown.has_begun
    failure = one.supervisor._shutdown.start_failure
    assert str(failure) == f"{first} could not start: {why}"
    assert failure.app_traceback == (words or {}).get("traceback", "")


def test_a_fork_that_fails_at_the_start(supervised):
    """The same, with the system's reason."""
    one = supervised()
    one.system.fork_error = OSError(11, "Resource temporarily unavailable")
    assert one.turn() == []
    assert str(one.supervisor._shutdown.start_failure) == (
        "worker 1 could not start: it could not be forked: Resource temporarily unavailable"
    )


# Crashes


def test_a_crash(supervised, caplog):
    """Another is started in the slot, a moment later; the page and the channel of the dead one are free."""
    one = supervised(2)
    first, second = one.start()
    one.system.now += 3600
    assert one.end(second, number=11) == []
    assert f"{second} has crashed after 3600 s: it was killed by SIGSEGV; another is started in 0.1 s" in caplog.text
    assert one.turn(0.05) == []
    (successor,) = one.turn(0.06)
    assert (successor.slot, successor.generation, successor.page) == (2, 2, second.page)
    one.say(successor, say="ready")
    assert "no worker is missing any more: 2 workers" in caplog.text


@pytest.mark.parametrize("is_logged", [True, False])
def test_what_a_crash_has_cut(supervised, tmp_path, caplog, is_logged):
    """Each request has a line in the access log, if there is one; and all of them are in the line of the crash."""
    log = tmp_path / "log"
    one = supervised(2, access_log=str(log) if is_logged else None)
    first, second = one.start()
    for child in (first, second):
        in_flight = InFlight(None, memory := mmap.mmap(child.in_flight, TABLE_BYTES))
        for target in ("/a", "/b"):
            in_flight.begin(Exchange(f"REQUEST_METHOD\0GET\0REQUEST_URI\0{target}\0", 2))
        memory.close()
    one.end(second, number=9)
    one.signal(TERM)
    one.end(first)  # which has finished them, or said why not
    assert caplog.text.count("GET /a (") == 1
    lines = log.read_text().splitlines() if is_logged else []
    assert sorted(re.findall('"(GET .*?)" 0 -', " ".join(lines))) == ["GET /a -", "GET /b -"] * is_logged


def test_crashes_in_a_row(supervised):
    """The pauses grow; who has served for a while has a short one again."""
    one = supervised(1)
    (child,) = one.start()
    for pause in (0.1, 0.2, 0.4):
        assert one.end(child, number=11) == []
        assert one.turn(pause - 0.01) == []
        (child,) = one.turn(0.02)
        one.say(child, say="ready")
    one.system.now += 60
    one.end(child, number=11)
    assert slots_of(one.turn(0.11)) == [1]


def test_one_that_cannot_be_replaced(supervised, caplog):
    """The log says who is missing, since when, why, and what to do; the app's traceback once."""
    one = supervised(2)
    first, second = one.start()
    one.end(second, number=9)
    for pause in (0.1, 0.2, 0.4, 0.8):
        (child,) = one.turn(pause + 0.01)
        one.say(child, say="failed", why="no module 'a'", traceback="Traceback: here\n")
        one.end(child, status=1)
    assert first.state == State.READY
    assert f"{child} could not start: no module 'a'; the next try is in 1.6 s" in caplog.text
    assert "degraded: 1 of 2 workers is missing since 2" in caplog.text
    assert "because no module 'a'; correct it; SIGHUP tries again at once" in caplog.text
    assert caplog.text.count("Traceback: here") == 1


def test_a_fork_that_fails_later(supervised, caplog):
    """It is tried again, like a start that fails."""
    one = supervised(1)
    (child,) = one.start()
    one.end(child, number=9)
    one.system.fork_error = OSError(12, "Cannot allocate memory")
    assert one.turn(0.11) == []
    one.system.fork_error = None
    assert one.turn(0.1) == [] and slots_of(one.turn(0.11)) == [1]
    assert "worker 1 could not start: it could not be forked: Cannot allocate memory; the next" in caplog.text


def test_a_worker_that_is_mute(supervised):
    """One that serves, but has closed its channel, is killed; then it has crashed."""
    one = supervised(1)
    (child,) = one.start()
    one.system.workers_ends[child.pid].close()
    one.turn()
    one.turn(5.0)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    assert one.end(child, number=9) == []
    assert slots_of(one.turn(0.11)) == [1]


# One worker


def test_a_worker_that_asks_for_a_successor(supervised, caplog):
    """It goes on until its successor serves; asked again, there is still one."""
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
    """SIGTTIN starts one more; SIGTTOU drains the last, also while it starts; one stays."""
    one = supervised(1)
    one.start()
    one.signal(signal.SIGTTIN)
    two = one.children[-1]
    one.say(two, say="ready")
    one.signal(signal.SIGTTIN)
    three = one.children[-1]
    one.signal(signal.SIGTTOU)
    assert told(one, three) == [LEAVE]
    one.signal(signal.SIGTTOU)
    assert told(one, two) == [LEAVE]
    one.signal(signal.SIGTTOU)
    assert "SIGTTOU: the number of workers stays 1; it may be 1 to 1024" in caplog.text
    assert one.end(three, number=9) == one.end(two) == []
    one.signal(TERM)
    one.signal(signal.SIGTTIN)
    assert slots_of(one.children) == [1]


def test_one_that_serves_and_has_not_been_heard(supervised, caplog):
    """A worker that is no longer wanted when it says that it serves finishes what it has, like any other."""
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
    """A slot that is no more is not missed; nor is a crash there told as one that is to be replaced."""
    one = supervised(2)
    first, second = one.start()
    one.signal(signal.SIGTTOU)
    one.end(second, number=9)
    one.signal(signal.SIGTTIN)
    (second,) = one.turn() or one.children[-1:]
    one.end(second, status=1)
    assert "degraded: 1 of 2" in caplog.text
    one.signal(signal.SIGTTOU)
    assert one.turn(100.0) == [] and one.children == [first]


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
    """It is closed."""
    one = supervised(1)
    (child,) = one.start()
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
    one.supervisor._reap()
    assert one.children == []
    (successor,) = one.turn(0.11)
    assert successor.slot == child.slot


def test_a_signal_that_is_not_the_supervisors(supervised):
    """One that the wake-up descriptor tells, and no handler of ours is for, is left alone."""
    one = supervised(1)
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    one.signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert not one.supervisor._shutdown.has_begun


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


def test_what_is_too_late(supervised):
    """A worker that was killed is not ready any more; one that cannot start at the end is nobody's worry."""
    one = supervised(2, start_seconds=1)
    (first,) = one.turn()
    one.say(first, say="ready")
    second = one.children[1]
    one.turn(1.1)
    one.say(second, say="ready")
    assert second.state == State.KILLED and told(one, second) == []
    one.signal(TERM)
    assert one.end(second, number=6) == [] and one.supervisor._shutdown.status == 0
    assert one.end(first) == []


def test_one_that_fails_when_it_is_not_wanted_any_more(supervised, caplog):
    """It is nobody's worry, either."""
    one = supervised(1)
    (first,) = one.start()
    one.signal(signal.SIGTTIN)
    second = one.children[-1]
    one.signal(signal.SIGTTOU)
    one.say(second, say="failed", why="no module 'a'", traceback="Traceback: here\n")
    assert one.end(second, status=1) == [] and one.children == [first]
    assert "could not start" not in caplog.text and "Traceback" not in caplog.text


def test_one_that_was_not_needed_any_more(supervised):
    """A successor that is ready when its slot is none any more drains at once."""
    one = supervised(2)
    _, second = one.start()
    one.say(second, say="failing", why="old age")
    successor = one.children[-1]
    one.supervisor._size = 1  # as by a reload whose settings say so, before it is killed
    one.say(successor, say="ready")
    assert second.state == successor.state == State.DRAINING
