"""The supervisor's acts on its children: on processes of numbers alone, and on real ones."""

import os
import selectors
import signal
import types

import pytest
from harness.descriptors import none_stays_open

from aserve.connections.in_flight import TABLE_BYTES
from aserve.core.page import Field, State
from aserve.features import Config
from aserve.processes.children import children as children_module
from aserve.processes.children.children import ENDING_SECONDS, STACK_SECONDS, Children
from aserve.processes.children.pages import Pages
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.plan import Plan


def _ignore(pid, how):
    """Do nothing about any other process."""


def test_who_is_there(new):
    """Children are found by slot and state, and their pages tell them."""
    one, two, other = new(1), new(2), new(1)
    new.children.admit(two)
    children = new.children
    assert list(children) == [one, two, other] and len(children) == 3
    assert children.find(1, State.STARTING) == [one, other] and children.find(1, State.READY) == []
    assert children.having(State.READY, State.DRAINING) == [two]
    page = other.page
    assert [page[field] for field in (Field.PID, Field.SLOT, Field.GENERATION)] == [other.pid, 1, 2]
    assert [child.page[Field.STATE] for child in children] == [State.STARTING, State.READY, State.STARTING]


def test_seconds_without_a_turn_are_counted(new):
    """The supervisor's own seconds count, and not the clock's: after a stop of the machine no loop counts as still. A starting worker has no loop."""
    child, starting = new(1), new(2)
    new.children.admit(child)
    child.page[Field.TICK] = 7
    for seconds in (0, 1, 2):
        new.children.on_second()
        assert (child.still_seconds, starting.still_seconds) == (seconds, 0)
    child.page[Field.TICK] = 8
    new.children.on_second()
    assert child.still_seconds == 0


def test_gifts_count_until_the_page_has_them(new):
    """Given connections are added to a worker's own number until the worker writes the page again."""
    child = new()
    new.children.admit(child)
    child.given_count, child.page[Field.TICK] = 3, 1
    new.children.on_second()
    assert child.given_count == 0
    child.given_count = 3
    new.children.on_second()
    assert child.given_count == 3


def test_a_fork_that_fails(new, system):
    """Nothing is left of a failed fork."""
    system.fork_error = BlockingIOError("no more processes")
    with none_stays_open(), pytest.raises(BlockingIOError):
        new()
    assert len(new.children) == 0
    system.fork_error = None
    assert new().page_number == 1


def _fail():
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("output", [types.SimpleNamespace(flush=_fail), None], ids=["full", "closed"])
def test_output_that_nobody_takes(new, monkeypatch, output):
    """Printed text may be lost; workers are forked."""
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        child = new()
    assert child.pid and len(new.children) == 1


def test_what_a_worker_writes(new):
    """In the worker the table is memory, and its descriptor is closed; the supervisor reads the worker's writes."""
    child = new()
    theirs, child.in_flight = child.in_flight, os.dup(child.in_flight)
    page, _, _, table = new.children.memory_of(child)
    child.in_flight = theirs
    table[:4] = b"here"
    assert os.pread(theirs, 4, 0) == b"here" and len(table) == TABLE_BYTES
    assert page[Field.PID] == child.pid


def test_words_go_both_ways(new, system):
    """A worker's word is heard, with descriptors; orders arrive."""
    child = new()
    worker = system.workers_ends[child.pid]
    reading, writing = os.pipe()
    worker.send({"say": "idle"}, [writing])
    ((who, message, (fd,)),) = new.hear()
    assert who is child and message == {"say": "idle"}
    os.close(fd)
    os.close(reading)
    new.children.tell(child, {"do": "reopen logs"})
    assert worker.receive() == ({"do": "reopen logs"}, [])


def test_a_worker_that_does_not_read(new, system):
    """Nobody waits for such a worker: its order goes out when it reads again."""
    child = new()
    worker = system.workers_ends[child.pid]
    sent = 0
    while not child.channel.has_unsent:
        new.children.tell(child, {"number": sent, "text": "x" * 10_000})
        sent += 1
    assert new.hear() == []  # it cannot be written to, and so there is no event
    for number in range(sent):
        assert worker.receive()[0]["number"] == number
        new.hear()
    assert not child.channel.has_unsent


def test_what_was_not_sent_is_sent_a_second_later(new, system):
    """A worker that reads again gets the rest by the look of each second, too."""
    child = new()
    worker, sent = system.workers_ends[child.pid], 0
    while not child.channel.has_unsent:
        new.children.tell(child, {"number": sent, "text": "x" * 10_000})
        sent += 1
    assert worker.receive()[0]["number"] == 0
    new.children.on_second()
    assert [worker.receive()[0]["number"] for _ in range(1, sent)] == list(range(1, sent))


def test_draining_has_its_time(new, system):
    """A draining worker is told whether others go on, and has its time; then it is killed."""
    child, other = new(1, drain_seconds=10, drain_delay_seconds=5), new(2, drain_seconds=10, drain_delay_seconds=5)
    for one in (child, other):
        new.children.admit(one)
    new.children.drain(child, is_replaced=True)
    new.children.drain(other, is_replaced=False)
    assert system.workers_ends[child.pid].receive()[0] == {"do": "drain", "stopping": False}
    assert system.workers_ends[other.pid].receive()[0] == {"do": "drain", "stopping": True}
    new.pass_time(10 + ENDING_SECONDS)
    assert system.signals == [(child.pid, signal.SIGKILL)] and child.state == State.KILLED
    assert child.failure == "it had not ended 5 s after --drain-timeout"
    new.pass_time(5)
    assert system.signals[1:] == [(other.pid, signal.SIGKILL)]


def test_a_start_that_takes_too_long(new, system):
    """A slow starter shows its stack; if it does not even do that, it is killed."""
    child, ready, unlimited = new(1, start_seconds=3), new(2, start_seconds=3), new(3)
    assert new.children.admit(ready)
    new.pass_time(3)
    assert system.signals == [(child.pid, signal.SIGABRT)] and not new.children.admit(child)
    assert child.failure == "it was not ready within 3 s (--start-timeout)"
    new.pass_time(STACK_SECONDS)
    assert system.signals[1:] == [(child.pid, signal.SIGKILL)]
    new.pass_time(1e3)
    assert len(system.signals) == 2 and unlimited.state == State.STARTING


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_worker_that_closes_its_channel(new, system, is_ready):
    """A worker without its channel cannot be led any more: unless about to end, it is killed."""
    child, draining = new(1), new(2)
    for one in [child, draining] if is_ready else [draining]:
        new.children.admit(one)
    new.children.drain(draining, is_replaced=True)
    for one in (child, draining):
        system.workers_ends[one.pid].close()
    assert new.hear() == []
    new.children.tell(child, {"do": "reopen logs"})  # to nobody
    new.pass_time(ENDING_SECONDS)
    assert system.signals == [(child.pid, signal.SIGKILL)]
    assert child.failure.startswith("it has closed its channel") and child.killed_in is not None


def test_a_worker_that_closes_its_channel_and_is_to_drain(new, system):
    """Such a worker does not hear the order, and gets no more time."""
    child = new(1, drain_seconds=30)
    new.children.admit(child)
    system.workers_ends[child.pid].close()
    assert new.hear() == []
    new.children.drain(child, is_replaced=True)
    new.pass_time(ENDING_SECONDS)
    assert system.signals == [(child.pid, signal.SIGKILL)] and child.failure.startswith("it has closed its channel")


def test_a_limit_over_an_upgrade(new, system):
    """The rest of a limit is handed down, whatever the worker does, by a clock that has stood still."""
    child = new(1, start_seconds=30)
    system.now += 3600  # the supervisor was stopped
    _, (state,) = new.children.describe()
    assert state["deadline_at"] == system.now + 29
    system.now += 1
    copies = {name: os.dup(state[name]) for name in ("channel", "in_flight")}
    with selectors.DefaultSelector() as selector:
        clock = Clock(lambda: system.now)
        others = Children(Pages(8), selector, clock)
        others.adopt({**state, **copies}, child.plan)
        (adopted,) = others
        assert adopted.state is State.STARTING and adopted.due_at - clock() == 28
        adopted.close()


def test_the_end_forgets_the_child(new, system):
    """The last words are heard, the child is forgotten, its page is clear, and its pid is nobody's any more."""
    child, stranger, others = new(1), 4242, []
    system.workers_ends[child.pid].send({"say": "failed"})
    page = child.page
    system.ends += [(stranger, 0), (child.pid, 1 << 8)]
    assert list(new.children.reap(lambda *other: others.append(other))) == [
        (child, State.STARTING, "exited with status 1")
    ]
    assert others == [(stranger, "exited with status 0")]
    assert [message for _, message, _ in new.hear()] == [{"say": "failed"}]
    assert len(new.children) == 0 and new.children.find(1, *State) == [] and not any(page[: Field.LOAD])
    with pytest.raises(KeyError):
        new.children.kill(child)
    assert system.signals == [] and child.channel.fileno() == -1


@pytest.mark.parametrize(
    ("is_told", "status", "was_at"),
    [(False, 0, ["GET /x"]), (False, 3, ["GET /x"]), (True, 0, []), (True, 3, ["GET /x"])],
)
def test_what_one_that_has_ended_was_at(new, system, monkeypatch, is_told, status, was_at):
    """Its requests are lost, with status 0 as well, unless the end was an order: then 0 says that they are finished."""
    monkeypatch.setattr(children_module, "read_in_flight", lambda table: [(1.0, "GET /x")])
    child = new()
    new.children.admit(child)
    if is_told:
        new.children.drain(child, is_replaced=True)
    system.ends.append((child.pid, status << 8))
    list(new.children.reap(_ignore))
    assert [text for _, text in child.was_at] == was_at


def test_last_words_find_it_among_the_children(new, system):
    """A counter of all children misses none meanwhile: the page is still the child's own."""
    child, found = new(), []
    new.children.hear = lambda child, message, fds: found.append((list(new.children), child.page[Field.PID]))
    system.workers_ends[child.pid].send({"say": "app metrics"})
    system.ends.append((child.pid, 0))
    list(new.children.reap(_ignore))
    assert found == [([child], child.pid)] and list(new.children) == []


def test_last_words_are_no_beginning(new, system):
    """A child that told its readiness and died does not serve."""
    child = new()
    heard = []
    new.children.hear = lambda child, message, fds: heard.append(new.children.admit(child))
    system.workers_ends[child.pid].send({"say": "ready"})
    system.ends.append((child.pid, 9))
    assert list(new.children.reap(_ignore)) == [(child, State.STARTING, "was killed by SIGKILL")]
    assert heard == [False]


def test_an_event_of_one_that_was_reaped(new, system):
    """Within one turn of the loop the end may come first: then there is nothing to read."""
    child = new()
    (key,) = new.children._selector.get_map().values()
    system.ends.append((child.pid, 0))
    list(new.children.reap(_ignore))
    key.data()
    assert new.hear() == []


def test_nobody_has_ended(new, monkeypatch):
    new()
    monkeypatch.setattr(os, "waitpid", lambda pid, flags: (0, 0))
    assert list(new.children.reap(_ignore)) == []


def test_in_the_child(selector):
    """A real child gets its end of the channel, and none of the supervisor's, nor its brothers'."""
    heard = []
    children = Children(Pages(2), selector, Clock())
    children.hear = lambda child, message, fds: heard.append(message)
    for slot in (1, 2):
        child, channel = children.fork(slot, Plan(Config(workers=2), None))
        if channel is not None:
            ours = [one.channel.fileno() for one in (child, *children)]
            channel.send({"say": "failed", "ours": ours, "pid": [child.pid, os.getpid()]})
            os._exit(7)
    ended = []
    while len(ended) < 2:
        ended += children.reap(_ignore)
    assert [(child.slot, how) for child, _, how in sorted(ended, key=lambda end: end[0].slot)] == [
        (1, "exited with status 7"),
        (2, "exited with status 7"),
    ]
    assert sorted(message["ours"] for message in heard) in ([[-1], [-1]], [[-1], [-1, -1]])
    assert all(len(set(message["pid"])) == 1 for message in heard)
