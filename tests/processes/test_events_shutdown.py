"""The end of all: on processes of numbers alone; tests/e2e/test_workers.py has real ones."""

import signal
import socket

import pytest
from harness.supervising import told

from aserve.connections.listeners import open_listeners
from aserve.core.page import State
from aserve.processes.children.children import ENDING_SECONDS
from aserve.settings import parse_bind

TERM = signal.SIGTERM
STOP = {"do": "drain", "stopping": True}


def test_the_end_drains_all_workers(supervised, caplog):
    """All drain, starting ones too, whatever becomes of them; the last one's end is the end."""
    one = supervised(2)
    (first,) = one.turn()
    one.say(first, say="ready")
    second = one.children[1]
    one.signal(TERM)
    assert told(one, first) == told(one, second) == [{"do": "drain", "stopping": True}]
    assert one.end(second, number=9) == [] and one.end(first) == []
    assert one.children == [] and one.supervisor.fleet.is_ending and one.supervisor.fleet.exit_status == 0
    assert "SIGTERM: draining, at most 30 s; once more to leave at once" in caplog.text


@pytest.mark.parametrize(("end", "status"), [({"status": 0}, 0), ({"status": 1}, 1), ({"number": 9}, 1)])
def test_what_was_cut_off_is_told(supervised, end, status):
    """The exit status is 1 when a worker could not finish."""
    one = supervised(1)
    (child,) = one.start()
    one.signal(TERM)
    one.end(child, **end)
    assert one.supervisor.fleet.exit_status == status


def test_a_later_signal_ends_all(supervised, caplog):
    """A second signal counts as the same if it comes at once; later, it ends all."""
    one = supervised(1)
    (child,) = one.start()
    one.signal(TERM)
    one.signal(signal.SIGINT)
    assert one.system.signals == []
    one.system.now += 1.0
    one.signal(signal.SIGINT)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    one.end(child, number=9)
    assert one.supervisor.fleet.exit_status == 128 + signal.SIGINT and "SIGINT again: leaving at once" in caplog.text


def test_sigquit_waits_for_nobody(supervised):
    one = supervised(2)
    children = one.start()
    one.signal(signal.SIGQUIT)
    assert one.system.signals == [(child.pid, signal.SIGKILL) for child in children]
    assert one.supervisor.fleet.is_ending and one.supervisor.fleet.exit_status == 128 + signal.SIGQUIT


def test_at_once_with_one_that_writes_its_stacks(supervised):
    """A worker with time for its stacks is not waited for either."""
    one = supervised(1, start_seconds=5)
    (child,) = one.turn()
    one.turn(5.1)
    assert one.system.signals == [(child.pid, signal.SIGABRT)]
    one.signal(signal.SIGQUIT)
    assert one.system.signals[1:] == [(child.pid, signal.SIGKILL)]


def test_a_worker_that_does_not_end(supervised):
    """A worker past its time is killed, and the exit status says so."""
    one = supervised(1, drain_seconds=10, drain_delay_seconds=2)
    (child,) = one.start()
    one.signal(TERM)
    one.turn(16.9)
    assert one.system.signals == []
    one.turn(0.2)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    one.end(child, number=9)
    assert one.supervisor.fleet.exit_status == 1


# Clients that wait while nobody serves


@pytest.fixture
def waited_for(supervised):
    """A supervisor whose only worker has crashed, and whose next one starts while a client waits: (it, the new worker)."""
    (listener,) = open_listeners([parse_bind("127.0.0.1:0")])
    clients = []

    def start(waits=True, **settings):
        one = supervised(1, listeners=settings.pop("given", [listener]), drain_seconds=10, **settings)
        (first,) = one.start()
        one.end(first, number=9)
        (second,) = one.turn(0.11)
        if waits:
            clients.append(socket.create_connection(listener.address))
        return one, second

    start.listener = listener
    yield start
    for sock in (*clients, listener.socket):
        sock.close()


def test_a_client_waits(waited_for, caplog):
    """The starting worker may finish its start, and then drains; the exit status is its own."""
    one, child = waited_for()
    one.signal(TERM)
    assert told(one, child) == [] and child.state == State.STARTING
    assert "clients wait, and no worker serves" in caplog.text
    one.turn(5)
    one.say(child, say="ready")
    assert told(one, child) == [STOP] and one.system.signals == []
    assert one.end(child) == [] and one.children == [] and one.supervisor.fleet.exit_status == 0


@pytest.mark.parametrize("comes", [True, False])
def test_a_client_waits_for_too_long(waited_for, comes):
    """After the time of a drain the end comes, whatever the worker's state."""
    one, child = waited_for(drain_delay_seconds=3)
    one.signal(TERM)
    one.turn(12)
    if comes:
        one.say(child, say="ready")
    one.turn(3 + 10 + ENDING_SECONDS - 12 - 0.1)
    assert one.system.signals == []
    one.turn(0.2)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    one.end(child, number=9)
    assert one.children == [] and one.supervisor.fleet.exit_status == 1


def test_a_client_waits_in_vain(waited_for, caplog):
    """If the successor cannot start, log and exit status tell the cost; nothing else is tried."""
    one, child = waited_for()
    one.signal(TERM)
    one.say(child, say="failed", why="no module", traceback="")
    assert one.end(child, status=1) == [] and one.supervisor.fleet.exit_status == 1
    assert f"{child} could not start: no module; clients that waited for it were not served" in caplog.text
    one.turn(100)
    assert one.system.signals == []


def test_a_client_waits_in_a_pause_and_nothing_can_be_forked(waited_for, caplog):
    """One try is all, and log and exit status tell the cost."""
    one, child = waited_for()
    one.end(child, number=9)
    one.system.fork_error = OSError(12, "Cannot allocate memory")
    one.signal(TERM)
    assert one.children == [] and one.supervisor.fleet.exit_status == 1 and not one.supervisor.fleet.is_wanted
    assert "it could not be forked: Cannot allocate memory; clients that waited for it were not served" in caplog.text


def test_a_client_waits_and_nobody_else(waited_for):
    one, child = waited_for()
    one.signal(TERM)
    one.system.now += 1
    one.signal(TERM)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]


@pytest.mark.parametrize("why", ["nobody waits", "the socket was given"])
def test_nobody_to_serve(waited_for, why):
    """The end comes at once: the queue of a given socket is for the next process."""
    given = [waited_for.listener._replace(is_given=True)] if "given" in why else [waited_for.listener]
    one, child = waited_for(waits="given" in why, given=given)
    one.signal(TERM)
    assert told(one, child) == [STOP]


def test_the_first_start(supervised):
    """Before any worker has served, nobody waits for long: the end comes at once."""
    (listener,) = open_listeners([parse_bind("127.0.0.1:0")])
    with socket.create_connection(listener.address), listener.socket:
        one = supervised(1, listeners=[listener])
        (child,) = one.turn()
        one.signal(TERM)
        assert told(one, child) == [STOP]
