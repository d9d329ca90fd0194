"""When new code is tried, and when it takes over: on processes of numbers alone; tests/e2e/test_upgrade.py has real ones."""

import json
import os
import selectors
import signal

import pytest

from aserve.compat.uwsgi_api.spooler import pages as spoolers
from aserve.connections.in_flight import TABLE_BYTES
from aserve.core.memory_file import open_memory_file
from aserve.core.page import TRIAL, State
from aserve.features import Config
from aserve.processes.children.channel import Channel
from aserve.processes.children.child import STACKS_SIGNAL, Child
from aserve.processes.children.children import Children
from aserve.processes.children.command import INHERITANCE_VARIABLE, Command
from aserve.processes.children.pages import Pages
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.plan import Plan
from aserve.processes.upgrade import upgrade
from aserve.processes.upgrade.inheritance import Inheritance, OldWorkers
from aserve.settings import VERSION

pytestmark = pytest.mark.long_on_pypy

USR2 = signal.SIGUSR2


@pytest.fixture
def execed(monkeypatch):
    """The executed programs: the variable and its file; an OSError to raise in place of an exec."""
    programs, errors = [], []

    def execute(self, variable, fd):
        if errors:
            raise errors[0]
        text = os.pread(fd, 1 << 20, 0) if variable == INHERITANCE_VARIABLE else b"{}"
        programs.append((variable, json.loads(text), signal.pthread_sigmask(signal.SIG_BLOCK, ())))

    monkeypatch.setattr(Command, "execute", execute)
    return programs, errors


def trial_of(one):
    (trial,) = [child for child in one.children if child.slot == TRIAL]
    return trial


def tried(one, **settings):
    """Let new code show its fitness, and end."""
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    one.say(trial, say="ready")
    one.end(trial)
    return trial


def test_new_code_is_tried_then_runs(supervised, execed, caplog):
    """New code is tried first, and then runs in this process, with all needed state."""
    one = supervised(2)
    workers = one.start()
    programs, _ = execed
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    assert "SIGUSR2: the trial (pid 103) has begun: /no/such/python -m aserve" in caplog.text
    assert programs == [] and [child.state for child in workers] == [State.READY] * 2
    one.system.now += 2.5
    one.say(trial, say="failing", why="it was sent SIGTERM")
    one.leave(trial)
    one.say(trial, say="ready")
    assert [message for message, _ in one.heard(trial)] == [{"do": "drain", "stopping": False}]
    assert programs == []
    one.end(trial)
    assert "SIGUSR2: the new code can serve, after 2.5 s" in caplog.text
    ((variable, state, _),) = programs
    assert variable == INHERITANCE_VARIABLE and state["size"] == 2
    assert [child["pid"] for child in state["children"]] == [worker.pid for worker in workers]
    one.turn()
    assert len(programs) == 1


def test_signals_wait_for_the_new_code(supervised, execed):
    """During the exec no signal is heard; an unseen one comes again afterwards."""
    one = supervised(1)
    one.start()
    heard = []
    one.supervisor.parts.poller.by_signal[signal.SIGTTIN] = heard.append
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    one.say(trial, say="ready")
    one.system.workers_ends[trial.pid].close()
    one.system.ends.append((trial.pid, 0))
    one.supervisor.events.reap()
    signal.raise_signal(signal.SIGTTIN)
    kills = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "kill", lambda pid, number: kills.append((pid, number)))
        one.supervisor.parts.upgrade.become()
    programs, _ = execed
    ((_, state, blocked),) = programs
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGTTIN} <= blocked and state["blocked"] == []
    assert heard == [] and (os.getpid(), signal.SIGTTIN) in kills


def test_after_a_reload(supervised, execed, caplog):
    """A reload under way comes first, from its first starting worker to its last leaving one; the log says so."""
    one = supervised(1)
    (before,) = one.start()
    waits = "SIGUSR2: new code is tried after the reload that is under way"
    one.signal(signal.SIGHUP)
    one.signal(USR2)
    new = one.children[-1]
    one.say(new, say="ready")
    one.signal(USR2)
    assert caplog.text.count(waits) == 2 and TRIAL not in [child.slot for child in one.children]
    one.leave(before)
    one.turn()
    assert trial_of(one).state == State.STARTING
    one.end(trial_of(one), status=1)
    one.signal(USR2)
    assert caplog.text.count(waits) == 2 and trial_of(one).state == State.STARTING


BROKEN = [
    ({"why": "no module 'a'", "traceback": "Traceback: here\n"}, {"status": 1}, "no module 'a'"),
    (None, {"status": 3}, "it exited with status 3 before it was ready, without a word"),
    (None, {"number": 11}, "it was killed by SIGSEGV before it was ready, without a word"),
]


@pytest.mark.parametrize(("words", "end", "why"), BROKEN)
def test_code_that_does_not_start(supervised, execed, caplog, words, end, why):
    """Such code changes nothing, and the log says why; a new try is possible."""
    one = supervised(2)
    workers = one.start()
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    if words:
        one.say(trial, say="failed", **words)
    one.end(trial, **end)
    assert one.children == workers and execed[0] == []
    assert (
        f"SIGUSR2: nothing was upgraded: {trial} could not start: {why}; correct it, and send SIGUSR2; "
        "workers that go on as before: 2"
    ) in caplog.text
    assert one.supervisor.fleet.refusal[1] == f"SIGUSR2: {trial} could not start: {why}"  # until a reload begins
    assert caplog.text.count("Traceback: here") == bool(words)
    tried(one)
    assert len(execed[0]) == 1


def test_code_that_hangs(supervised, execed, caplog):
    """Hanging code is told, has its time, and is ended."""
    one = supervised(1)
    one.start()
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    one.turn(upgrade.TRIAL_SECONDS - 1)
    assert set(one.system.signals) == {(trial.pid, STACKS_SIGNAL)} and "the trial imports a:app, for " in caplog.text
    one.turn(2)
    assert (trial.pid, signal.SIGABRT) in one.system.signals
    one.end(trial, number=6)
    assert "the trial (pid 102) could not start: it was not ready within 300 s (--start-timeout)" in caplog.text


@pytest.mark.parametrize("fails", ["the fork", "the trial", "exec"])
def test_what_systemd_is_told(supervised, execed, monkeypatch, manager, fails):
    """RELOADING when the trial begins; READY not before its failure, and with a status that says so."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    one = supervised(1)
    one.start()
    manager.wait_for("READY=1")
    if fails == "the fork":
        one.system.fork_error = OSError(11, "Resource temporarily unavailable")
    elif fails == "exec":
        execed[1].append(OSError(2, "No such file or directory"))
    one.signal(USR2)
    reloading = manager.wait_for("RELOADING=1")
    assert reloading[1].startswith("MONOTONIC_USEC=") and reloading[2] == "STATUS=reloading: SIGUSR2"
    if fails != "the fork":
        assert sum("READY=1" in message for message in manager.hear()) == 1
        trial = trial_of(one)
        if fails == "exec":
            one.say(trial, say="ready")
        one.end(trial, status=fails == "the trial")
    one.turn()
    assert manager.wait_for("READY=1", count=2)[-1].endswith("; SIGUSR2 has changed nothing, see the log")


def test_what_cannot_be_run(supervised, execed, caplog):
    """If exec fails, this code goes on, with its signals and without inheritable descriptors."""
    one = supervised(1)
    workers = one.start()
    execed[1].append(FileNotFoundError(2, "No such file or directory"))
    tried(one)
    assert "nothing was upgraded: /no/such/python could not be run: No such file or directory; correct" in caplog.text
    assert one.children == workers and not os.get_inheritable(workers[0].channel.fileno())
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    execed[1].clear()
    tried(one)
    assert len(execed[0]) == 1


def test_no_process_is_left(supervised, execed, caplog):
    """If the trial cannot be forked, nothing has changed either."""
    one = supervised(1)
    workers = one.start()
    one.system.fork_error = OSError(11, "Resource temporarily unavailable")
    one.signal(USR2)
    one.turn()
    assert "nothing was upgraded: the trial could not be forked: Resource temporarily unavailable" in caplog.text
    assert one.children == workers


def test_asked_for_early(supervised, execed):
    """The upgrade waits for the first worker, and for a reload under way."""
    one = supervised(1)
    (first,) = one.turn()
    one.signal(USR2)
    assert one.turn() == []
    one.say(first, say="ready")
    trial = trial_of(one)
    one.say(trial, say="ready")
    one.signal(signal.SIGHUP)
    one.end(trial)
    (successor,) = [child for child in one.children if child.state == State.STARTING]
    assert execed[0] == []
    one.say(successor, say="ready")
    one.turn()
    assert execed[0] == []
    one.leave(first)  # under replacement
    one.turn()
    assert len(execed[0]) == 1


def test_asked_for_once_more(supervised, execed, caplog):
    """A failed trial is followed by another, if asked for meanwhile."""
    one = supervised(1)
    one.start()
    one.signal(USR2)
    one.turn()
    first = trial_of(one)
    one.signal(USR2)
    assert f"SIGUSR2: once more, after {first}; kill it if it hangs" in caplog.text
    one.end(first, status=1)
    assert trial_of(one) is not first


def test_asked_for_once_more_after_it_has_shown_that_it_can(supervised, execed):
    """The present code may be another: it is tried, too, before it takes over."""
    one = supervised(1)
    one.start()
    one.signal(USR2)
    one.turn()
    first = trial_of(one)
    one.say(first, say="ready")
    one.signal(USR2)
    one.end(first)
    second = trial_of(one)
    assert execed[0] == [] and second is not first
    one.say(second, say="ready")
    one.end(second)
    assert len(execed[0]) == 1


@pytest.mark.parametrize("is_ready", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_the_end_ends_the_trial_too(supervised, execed, caplog, number, is_ready):
    """When all are to end, so is the trial; no new code takes over, and that is no failure."""
    one = supervised(1)
    (worker,) = one.start()
    one.signal(USR2)
    one.turn()
    trial = trial_of(one)
    if is_ready:
        one.say(trial, say="ready")
    one.signal(number)
    killed = {pid for pid, _ in one.system.signals}
    assert (trial.pid in killed) == (not is_ready or number == signal.SIGQUIT)
    assert ((trial.pid, signal.SIGKILL) in one.system.signals) == (number == signal.SIGQUIT)
    one.end(trial, number=0 if is_ready else 15)
    one.end(worker)
    assert one.children == [] and one.supervisor.fleet.is_ending
    assert execed[0] == [] and "nothing was upgraded" not in caplog.text


# The process that becomes the trial


class Left(BaseException):
    """os._exit() was called."""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FileNotFoundError(2, "No such file or directory"), "No such file or directory"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_the_child_has_channel_and_signals(supervised, execed, error, why):
    """The child has the channel, and the old signals; if nothing can be run, it says so, and never comes back."""
    ours, theirs = Channel.pair()
    one = supervised(1)
    one.start()
    closed = []
    execed[1].append(error)
    one.supervisor.fleet.on_upgrade("SIGUSR2")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Left, match="1"):
        patch.setattr(one.supervisor.parts.children, "fork", lambda slot, plan: (None, theirs))
        patch.setattr(os, "_exit", lambda status: (_ for _ in ()).throw(Left(status)))
        patch.setattr(one.supervisor.parts.upgrade._signals, "close", lambda: closed.append(True))
        one.turn()
    assert closed and os.get_inheritable(theirs.fileno())
    message, _ = ours.receive()
    assert message == {"say": "failed", "why": f"/no/such/python could not be run in /: {why}", "traceback": ""}
    ours.close()
    theirs.close()


# The new code


def test_it_goes_on(supervised, caplog):
    """Workers of before are adopted, and replaced as by a reload; signals are heard again."""
    pages, selector = Pages(8), selectors.DefaultSelector()
    before = Children(pages, selector, Clock())
    plan = Plan(Config(workers=2, drain_seconds=4.0), "a:app")
    pairs = [Channel.pair() for _ in range(2)]
    for number, (ours, _) in enumerate(pairs, 1):
        worker = Child(7000 + number, number, 5, plan, ours, pages.take(), open_memory_file("table"))
        worker.page = pages.page(worker.page_number)
        os.truncate(worker.in_flight, TABLE_BYTES)
        before._add(worker)
        before.admit(worker)
    pages_fd, children = before.describe()
    selector.close()
    for child in children:
        child["channel"] = os.dup(child["channel"])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    left = Inheritance("0.0.1", [], [], OldWorkers(), plan, 2, os.dup(pages_fd), children)
    one = supervised(3, inherited=left)
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    one.system.workers_ends.update({7000 + number: theirs for number, (_, theirs) in enumerate(pairs, 1)})
    assert f"upgraded from 0.0.1 to {VERSION}, with 2 old workers" in caplog.text
    (new,) = one.turn()
    first, second, _ = one.children
    assert (first.pid, second.pid, new.slot, new.generation) == (7001, 7002, 1, 6)
    one.say(new, say="ready")  # tells that there are to be three workers now
    assert (first.state, second.state) == (State.DRAINING, State.READY)
    one.start()
    one.leave(first, second)
    assert second.state == State.DRAINING and "SIGUSR2: done in" in caplog.text
    assert sorted(child.slot for child in one.children if child.state == State.READY) == [1, 2, 3]
    for ours, _ in pairs:
        ours.close()


def test_what_was_counted_of_jobs(supervised, monkeypatch):
    """The memory of job processes stays theirs."""
    monkeypatch.setattr(spoolers, "KEPT", {})
    before = spoolers.JobPages()
    before.follow(["spooler"])
    before._pages["spooler"].end("done")
    plan = Plan(Config(workers=1, spooler=["/nowhere"]), "a:app")
    left = Inheritance("0.0.1", [], [], OldWorkers(), plan, 1, kept=dict(spoolers.KEPT))
    one = supervised(1, inherited=left, spooler=["/nowhere"])
    assert one.supervisor.parts.overview.facts()["jobs"] == {
        "ended": {"done": 1, "failed": 0, "retried": 0},
        "waiting": {"/nowhere": 0},
    }
    os.close(before.fd)


def test_workers_of_another_form(supervised, caplog):
    """Such workers go when the new code's own serve."""
    dismissed = []
    strangers = OldWorkers()
    strangers.dismiss = lambda: dismissed.append(True)
    one = supervised(2, inherited=Inheritance("99.0", [], [], strangers))
    first, second = one.turn()
    one.say(first, say="ready")
    assert dismissed == []
    one.say(second, say="ready")
    assert dismissed == [True] and "SIGUSR2: done in" in caplog.text
    assert "what it has bound, and the rights of that, stay until a restart" in caplog.text
