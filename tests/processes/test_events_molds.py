"""When there is a mold, and workers without one: on processes of numbers alone; e2e/test_preload.py has real ones."""

import os
import signal
import socket

import pytest
from harness.descriptors import none_stays_open
from harness.supervising import LEAVE, slots_of, told

from aserve.connections.listeners import open_listeners
from aserve.core.page import MOLD, Field, State
from aserve.processes.children.children import ENDING_SECONDS, STACK_SECONDS
from aserve.processes.fleet.facts import FORK_SECONDS, SILENCE_SECONDS
from aserve.settings import parse_bind

HUP, TERM, USR2, KILL, ABRT = signal.SIGHUP, signal.SIGTERM, signal.SIGUSR2, signal.SIGKILL, signal.SIGABRT
FAILED = {"say": "failed", "why": "importing a raised ValueError", "traceback": "Traceback: here\n"}


@pytest.fixture
def preloaded(supervised):
    """Make a supervisor with serving workers, forked from a mold: preloaded(size=2, **settings) -> the supervisor, the mold, the workers."""

    def make(size=2, **settings):
        one = supervised(size, preload=True, **settings)
        (mold,) = one.turn()
        one.say(mold, say="ready")
        workers = []
        while len(workers) < size:
            workers += ready(one, mold)
        return one, mold, workers

    return make


def ready(one, mold):
    """Let a mold obey, and the workers become ready; return the workers."""
    workers = one.fork_from(mold)
    assert workers
    for worker in workers:
        one.say(worker, say="ready")
    return workers


def test_at_first_there_is_a_mold(supervised, caplog):
    """A mold comes before any worker, and the first worker before the rest; the mold is told each."""
    one = supervised(3, preload=True)
    (mold,) = one.turn()
    assert mold.slot == MOLD and str(mold) == f"the mold (pid {mold.pid})" and one.turn(60) == []
    one.say(mold, say="ready")
    assert f"the mold (pid {mold.pid}) is ready, after 60.0 s" in caplog.text
    (first,) = [child for child in one.children if child is not mold]
    assert (first.pid, str(first), first.state) == (0, "worker 1", State.STARTING)
    assert one.turn() == []
    assert one.fork_from(mold) == [first] and first.pid > mold.pid
    assert first.page[Field.PID] == first.pid
    assert one.turn() == []
    one.say(first, say="ready")
    others = one.fork_from(mold)
    assert slots_of(others) == [2, 3] and len({child.page_number for child in one.children}) == 4
    for other in others:
        one.say(other, say="ready")
    assert len(one.supervisor.parts.children.having(State.READY)) == 3
    assert one.system.forks == 4 and one.turn(30) == []


def test_it_cannot_start(supervised):
    """At first a mold without a start ends the command, as a worker would."""
    one = supervised(preload=True)
    (mold,) = one.turn()
    one.say(mold, **FAILED)
    assert one.end(mold, 1) == [] and one.supervisor.fleet.is_ending
    failure = one.supervisor.acts.start_failure
    assert str(failure) == "the mold (pid 101) could not start: importing a raised ValueError"
    assert failure.app_traceback == "Traceback: here\n"


def test_no_subreaper_means_no_preload(supervised):
    """Where orphans cannot be had, the flag is refused, and not half obeyed."""
    one = supervised(preload=True)
    one.system.subreaper = -1
    assert one.turn() == []
    assert "cannot become the supervisor's on this system; leave out --preload" in str(
        one.supervisor.acts.start_failure
    )


def test_an_app_that_cannot_be_shared(supervised, caplog):
    """One line tells the open resource; then each worker imports the app alone, and there is no mold any more."""
    one = supervised(2, preload=True)
    (mold,) = one.turn()
    one.say(mold, say="unfit", why="at import: thread ticker")
    assert caplog.text.count("--preload: each worker imports the app by itself, ") == 1
    assert "cannot share, at import: thread ticker; open it in a function with @aserve.post_fork" in caplog.text
    one.end(mold)
    one.start()
    assert one.molds == [] and slots_of(one.children) == [1, 2] and one.system.forks == 3
    one.signal(HUP)  # whose code may be better
    assert slots_of(one.molds) == [MOLD]


# Reloading


def test_a_reload_makes_a_mold_first(preloaded, caplog):
    """The new code's mold is made first; the old mold goes when the first worker of the new code serves."""
    one, before, workers = preloaded()
    one.signal(HUP)
    (_, mold) = one.molds
    assert mold.plan is not before.plan and [child.state for child in workers] == [State.READY] * 2
    one.say(mold, say="ready")
    assert before.state == State.READY and told(one, before) == []
    ready(one, mold)
    assert told(one, before) == [LEAVE] and before.state == State.DRAINING
    ready(one, mold)
    one.leave(*workers)
    assert "SIGHUP: done in" in caplog.text
    one.end(before)
    assert one.molds == [mold] and "the mold (pid 101) has ended" not in caplog.text


@pytest.mark.parametrize("word", [FAILED, None])
def test_reload_of_broken_code(preloaded, caplog, word):
    """Nothing changes: old workers and mold go on, and replace crashed ones."""
    one, before, workers = preloaded()
    one.signal(HUP)
    mold = one.molds[1]
    if word:
        one.say(mold, **word)
    one.end(mold, 1)
    why = "importing a raised ValueError" if word else "it exited with status 1 before it was ready, without a word"
    assert f"SIGHUP: nothing was reloaded: the mold (pid {mold.pid}) could not start: {why}; correct it" in caplog.text
    assert "still serving as before: 2 of 2 workers" in caplog.text
    assert one.molds == [before] and one.turn(60) == []
    one.end(workers[1], number=KILL)
    one.turn(1)
    assert slots_of(ready(one, before)) == [2]


def test_reload_whose_mold_dies_after_all(preloaded, caplog):
    """A mold without a serving worker is no better than a failed start."""
    one, before, _ = preloaded()
    one.signal(HUP)
    mold = one.molds[1]
    one.say(mold, say="ready")
    one.end(mold, number=KILL)
    assert "SIGHUP: nothing was reloaded: the mold" in caplog.text
    assert "it was killed by SIGKILL before a worker served, without a word" in caplog.text
    one.turn(1)
    assert one.molds == [before] and one.turn(60) == []


def test_reload_while_a_mold_is_made(preloaded):
    """The mold's import may be of the repaired code: another mold takes over."""
    one, before, _ = preloaded()
    one.end(before, number=KILL)
    (mold,) = one.turn(1)
    one.signal(HUP)
    assert told(one, mold) == [LEAVE] and len(one.molds) == 2
    one.signal(HUP)
    assert "the mold (pid" in one.supervisor.parts.children.describe_slow_start()


# Ends


def test_the_mold_dies(preloaded, caplog):
    """Another mold is made while workers go on, and forks later workers."""
    one, mold, (first, _) = preloaded()
    one.end(mold, number=KILL)
    assert (
        f"the mold (pid {mold.pid}) has ended after 0 s: it was killed by SIGKILL; another is made in 0.01 s"
        in caplog.text
    )
    one.end(first, number=KILL)
    (other,) = one.turn(1)
    assert other.slot == MOLD and one.turn(5) == []
    one.say(other, say="ready")
    assert slots_of(ready(one, other)) == [1]


def test_the_mold_cannot_be_made_anew(preloaded, caplog):
    """Workers go on; the mold is tried again and again, with a back-off."""
    one, mold, _ = preloaded()
    one.end(mold, number=KILL)
    (other,) = one.turn(0.2)
    one.say(other, **FAILED)
    assert one.end(other, 1) == [] and "the mold (pid 104) could not start: importing a" in caplog.text
    assert one.turn(0.09) == [] and len(one.turn(0.02)) == 1


def test_the_mold_dies_before_it_has_forked(preloaded, caplog):
    """No process has the worker's end of the channel: the worker counts as ended, and the supervisor is told."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    (unborn,) = one.turn(0.2)
    assert unborn.pid == 0
    one.end(mold, number=KILL)
    one.turn(0.1)
    assert "worker 1 could not start: its mold has ended before it could fork; the next try is in 0.1 s" in caplog.text
    assert unborn.is_reaped and one.supervisor.parts.children.find(1, *State) == []


def test_a_stranger_ends_beside_who_will_never_be_forked(preloaded, caplog):
    """A channel's end is read again when some unknown child ends: the unborn worker is told to have ended once."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    (unborn,) = one.turn(0.2)
    one.system.workers_ends[mold.pid].close()
    one.turn()
    one.system.ends += [(999, 0), (mold.pid, int(KILL))]
    one.reap()
    assert unborn.is_reaped and caplog.text.count("could not start: its mold has ended before it could fork") == 1


def test_the_mold_cannot_fork(preloaded, caplog):
    """The mold tells why, and the worker counts as ended."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    one.turn(0.2)
    ((message, (fd, memory)),) = one.heard(mold)
    assert message == {"do": "fork", "slot": 1, "generation": 2, "page": 1}
    os.close(memory)
    one.system.fork_from_mold([fd, os.dup(0)])
    pid = max(one.system.workers_ends)
    one.system.workers_ends[pid].send({"say": "failed", "why": "it could not be forked: no memory", "traceback": ""})
    one.system.workers_ends[pid].close()
    one.turn()
    one.turn(1)
    assert "worker 1 could not start: it could not be forked: no memory; the next try is in 0.1 s" in caplog.text
    one.turn(0.2)
    (begun,) = one.fork_from(mold)  # the mold goes on, and does not count as hanging
    one.say(begun, say="ready")
    one.turn(FORK_SECONDS)
    assert mold.state is State.READY and one.system.signals == [] and "has not forked" not in caplog.text


@pytest.fixture
def waited_for(preloaded):
    """A supervisor with the only worker and the mold killed, while a client waits: (supervisor, the new, starting mold)."""
    (listener,) = open_listeners([parse_bind("127.0.0.1:0")])
    with listener.socket, socket.create_connection(listener.address):
        one, mold, (worker,) = preloaded(1, listeners=[listener], drain_seconds=10)
        for child in (worker, mold):
            one.end(child, number=KILL)
        (mold,) = one.turn(0.2)
        one.signal(TERM)
        assert told(one, mold) == [] and mold.state is State.STARTING
        yield one, mold


def test_clients_wait_while_a_mold_is_made(waited_for):
    """The mold is made, forks one worker, and ends; the worker serves waiting clients, and drains."""
    one, mold = waited_for
    one.say(mold, say="ready")
    orders = one.heard(mold)
    assert [message["do"] for message, _ in orders] == ["fork", "drain"]
    pid = one.system.fork_from_mold(orders[0][1])
    one.system.workers_ends[pid].send({"say": "begun", "pid": pid})
    one.end(mold)
    (worker,) = one.children
    one.say(worker, say="ready")
    assert told(one, worker) == [{"do": "drain", "stopping": True}]
    one.end(worker)
    assert one.children == [] and one.supervisor.fleet.exit_status == 0 and one.system.signals == []


def test_clients_wait_and_the_app_cannot_be_shared(waited_for):
    """A worker with an import of the app takes the mold's place."""
    one, mold = waited_for
    one.say(mold, say="unfit", why="threads: a")
    (worker,) = [child for child in one.children if child.slot == 1]
    assert told(one, mold) == [LEAVE] and told(one, worker) == []
    one.say(worker, say="ready")
    assert told(one, worker) == [{"do": "drain", "stopping": True}]


def test_clients_wait_for_too_long_for_a_mold(waited_for, caplog):
    one, mold = waited_for
    one.turn(10 + ENDING_SECONDS - 0.1)
    assert told(one, mold) == []
    one.turn(0.2)
    assert told(one, mold) == [LEAVE] and one.supervisor.fleet.exit_status == 1
    assert "the worker that was to begin had not served those who waited for it" in caplog.text
    assert one.end(mold, number=KILL) == one.children == []


def test_the_mold_hangs(preloaded, caplog):
    """A mold without forks is ended, with a stack, and made anew."""
    one, mold, (first, second) = preloaded()
    for worker in (first, second):
        one.end(worker, number=KILL)
    one.turn(1)
    one.turn(FORK_SECONDS)
    assert one.system.signals == [(mold.pid, ABRT)] and caplog.text.count("it has not forked worker 1 within 10 s") == 1
    one.turn(STACK_SECONDS)
    assert one.system.signals[1:] == [(mold.pid, KILL)]
    for _, fds in one.heard(mold):
        for fd in fds:
            os.close(fd)
    one.end(mold, number=KILL)
    one.turn(1)
    assert "the mold (pid 101) has ended after" in caplog.text and "another is made" in caplog.text
    assert len(one.molds) == 1 and one.molds != [mold]


def test_the_mold_is_stopped(preloaded, caplog):
    """Workers to be started import the app alone, and the mold's order is void; after an answer, the mold forks again."""
    one, mold, workers = preloaded()
    for worker in workers:
        one.end(worker, number=KILL)
    unborn = one.turn(0.2)
    assert [child.pid for child in unborn] == [0, 0] and one.turn(SILENCE_SECONDS - 0.3) == []
    first, second = one.turn(0.4)
    assert caplog.text.count("within 2 s: workers import the app by themselves, until it forks") == 1
    assert slots_of([first, second]) == [1, 2] and first.pid and second.pid
    for worker in (first, second):
        one.say(worker, say="ready")
    assert "no worker is missing any more: 2 workers" in caplog.text
    begun = one.fork_from(mold)
    assert begun == unborn and [told(one, child) for child in begun] == [[LEAVE]] * 2
    for child in (*begun, first):
        one.end(child, number=0 if child in begun else KILL)
    one.turn(0.2)
    assert slots_of(ready(one, mold)) == [1]


def test_a_worker_ends_at_once(preloaded, caplog):
    """The worker's end may be known before the first word has been heard."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    (unborn,) = one.turn(0.2)
    ((_, fds),) = one.heard(mold)
    pid = one.system.fork_from_mold(fds)
    one.system.workers_ends[pid].send({"say": "begun", "pid": pid})
    one.system.workers_ends[pid].close()
    one.system.ends.append((pid, int(KILL)))
    one.reap()
    assert f"worker 1 (pid {pid}) could not start: it was killed by SIGKILL before it was ready" in caplog.text
    assert unborn.is_reaped


def test_one_that_was_ended_before_it_began(preloaded):
    """The worker is killed at the beginning; until then there is no process to kill."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    (unborn,) = one.turn(0.2)
    one.signal(signal.SIGQUIT)
    assert 0 not in [pid for pid, _ in one.system.signals] and (mold.pid, KILL) in one.system.signals
    one.fork_from(mold)
    assert (unborn.pid, KILL) in one.system.signals


def test_one_that_was_drained_before_it_began(preloaded):
    """The worker reads the order at the beginning."""
    one, mold, (first, _) = preloaded()
    one.end(first, number=KILL)
    (unborn,) = one.turn(0.2)
    one.signal(TERM)
    assert told(one, mold)[-1] == LEAVE
    assert unborn.state == State.DRAINING and len(one.supervisor.parts.children) == 3


def test_start_timeout_of_a_worker(preloaded):
    """The time counts from the worker's beginning."""
    one, mold, (first, _) = preloaded(start_seconds=3)
    one.end(first, number=KILL)
    one.turn(0.2)
    one.turn(1.5)
    (worker,) = one.fork_from(mold)
    one.turn(2)
    assert one.system.signals == []
    one.turn(1.5)
    assert one.system.signals == [(worker.pid, ABRT)]


def test_no_descriptor_is_left(preloaded, caplog, monkeypatch):
    """Nothing is asked of the mold, and the start is tried again."""
    one, mold, (first, _) = preloaded()

    def fail(*_):
        raise OSError(24, "Too many open files")

    with none_stays_open(), monkeypatch.context() as patch:
        patch.setattr("aserve.processes.children.children.open_memory_file", fail)
        one.end(first, number=KILL)
        one.turn(0.2)
    assert "worker 1 could not start: it could not be forked: too many open files: `ulimit -n` is" in caplog.text
    assert told(one, mold) == []


# Beside more events


def test_an_upgrade_waits_for_forks_of_the_mold(preloaded):
    """A mold is not handed down, and nothing is while a mold is about to fork."""
    one, mold, (first, _) = preloaded()
    _, children = one.supervisor.parts.children.describe()
    assert [child["slot"] for child in children] == [1, 2]
    one.end(first, number=KILL)
    one.turn(0.2)
    one.signal(USR2)
    assert one.turn() == []
    ready(one, mold)
    assert slots_of(one.turn()) == [0] or 0 in slots_of(one.children)


def test_words_that_come_too_late(preloaded, caplog):
    """Words of an ending mold mean nothing any more."""
    one, before, _ = preloaded()
    one.end(before, number=KILL)
    (mold,) = one.turn(1)
    one.signal(HUP)
    assert told(one, mold) == [LEAVE]
    one.say(mold, say="ready")
    one.say(mold, say="unfit", why="at import: thread ticker")
    assert f"the mold (pid {mold.pid}) is ready" not in caplog.text and "--preload" not in caplog.text
    one.end(mold)
    assert len(one.molds) == 1
