"""The supervisor with --reload: saved files ask for a reload, and a fault is shown until one succeeds."""

import signal

from harness.supervising import LEAVE, told

from aserve.core.errors import Fault
from aserve.core.page import State
from aserve.processes.supervisor import Supervisor

CHANGED = {"say": "changed", "why": "a.py has changed"}
FAILED = {"say": "failed", "why": "no module 'a'", "traceback": "Traceback: here\n"}
FAULT = {"do": "show fault", "why": "no module 'a'", "traceback": "Traceback: here\n"}


def faults_of(monkeypatch):
    """Return the faults of forked workers, in order."""
    found = []
    whole = Supervisor.fork

    def fork(self, start):
        found.append(self.fault_for(start.slot))
        return whole(self, start)

    monkeypatch.setattr(Supervisor, "fork", fork)
    return found


def test_a_saved_file(supervised, caplog):
    """All workers are replaced; the word of a draining one is old."""
    one = supervised(1, reload=True)
    (first,) = one.start()
    one.say(first, **CHANGED)
    new = one.children[-1]
    one.say(new, say="ready")
    assert told(one, first) == [LEAVE] and "a.py has changed: done" not in caplog.text
    one.say(first, **CHANGED)
    one.leave(first)
    assert "a.py has changed: done" in caplog.text and one.supervisor.fleet.reload is None


def test_new_code_does_not_start(supervised, caplog):
    """The server of the page shows why; the next save is tried."""
    one = supervised(1, reload=True)
    (first,) = one.start()
    for _ in range(2):
        one.say(first, **CHANGED)
        new = one.children[-1]
        one.say(new, **FAILED)
        assert one.end(new, status=1) == []
        assert told(one, first) == [FAULT] and one.children == [first]
    assert "could not start: no module 'a'; correct it, and save it; still serving as before" in caplog.text
    assert caplog.text.count("Traceback: here") == 1


def test_saved_again_while_it_is_imported(supervised):
    """The import is old, and may hang: it is ended, and begins anew."""
    one = supervised(1, reload=True)
    (first,) = one.start()
    one.say(first, **CHANGED)
    hangs = one.children[-1]
    one.say(first, **CHANGED)
    assert told(one, hangs) == [LEAVE] and one.children[-1].state == State.STARTING and len(one.children) == 3
    one.say(one.children[-1], say="ready")
    assert told(one, first) == [LEAVE]


def test_saved_while_another_reload_waits(supervised, caplog):
    """A reload asked for meanwhile is part of the one for the save: workers are replaced once."""
    one = supervised(1, reload=True)
    (first,) = one.start()
    one.say(first, **CHANGED)
    hangs = one.children[-1]
    one.signal(signal.SIGHUP)
    one.say(first, **CHANGED)
    one.end(hangs)
    new = one.children[-1]
    one.say(new, say="ready")
    one.leave(first)
    one.end(first)
    assert one.children == [new] and one.supervisor.fleet.reload is None and not one.supervisor.fleet.next_why
    assert caplog.text.count(": done in") == 1


def test_the_first_does_not_start(supervised, monkeypatch, caplog):
    """Another takes its place at once, and shows why; after a mending save, that one goes."""
    faults = faults_of(monkeypatch)
    one = supervised(2, reload=True)
    one.turn()
    (first,) = one.children
    one.say(first, **FAILED)
    one.end(first, status=1)
    (second,) = one.children
    assert faults == [None, Fault("no module 'a'", "Traceback: here\n")]
    assert "could not start: no module 'a'; correct it, and save it" in caplog.text
    one.say(second, say="ready")
    one.say(one.children[-1], say="ready")
    assert "serving on" in caplog.text and faults[2] == faults[1]
    assert f"{second} shows the error, after" in caplog.text and "is ready" not in caplog.text
    one.say(second, **CHANGED)
    assert faults[3:] == [None]
    one.say(one.children[-1], say="ready")
    assert " is ready, after" in caplog.text
    assert told(one, second) == [LEAVE]


def test_who_shows_it_does_not_start(supervised):
    """The command ends, as without --reload: this is not the app's fault."""
    one = supervised(1, reload=True)
    one.turn()
    (first,) = one.children
    one.end(first, status=1)
    (second,) = one.children
    one.say(second, say="failed", why="the port is taken", traceback="")
    assert one.end(second, status=1) == []
    assert "the port is taken" in str(one.supervisor.acts.start_failure)


def test_a_crash_while_code_is_broken(supervised, monkeypatch):
    """Then no old worker is left, and the fault is shown in its place."""
    faults = faults_of(monkeypatch)
    one = supervised(1, reload=True)
    (first,) = one.start()
    one.say(first, **CHANGED)
    one.say(one.children[-1], **FAILED)
    one.end(one.children[-1], status=1)
    one.end(first, number=9)
    one.turn(2)
    assert [fault and fault.why for fault in faults] == [None, None, "no module 'a'"]
    assert one.children[-1].state == State.STARTING


def test_a_successor_does_not_start(supervised, monkeypatch):
    """Where the old app serves, its successor is tried again, and does not take its place with a fault."""
    faults = faults_of(monkeypatch)
    one = supervised(1, reload=True)
    (first,) = one.start()
    one.say(first, say="failing", why="it is old")
    for _ in range(2):
        new = one.children[-1]
        one.say(new, **FAILED)
        one.end(new, status=1)
        one.turn(5)
    assert faults == [None] * 4 and first.state == State.READY
