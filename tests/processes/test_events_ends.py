"""Acts after a worker's end, by its state: on processes of numbers alone."""

import mmap
import re
import signal
import types

import pytest
from harness.supervising import slots_of

from aserve.compat.moving.gunicorn_hooks import GunicornHooks
from aserve.connections.in_flight import TABLE_BYTES, InFlight
from aserve.core.exchange import Exchange
from aserve.core.memory_file import map_memory_file
from aserve.core.tally import LOST

TERM = signal.SIGTERM


def test_a_crash_frees_page_and_channel(supervised, caplog):
    """Another worker is started in the slot, a moment later; the dead one's page and channel are free."""
    one = supervised(2)
    first, second = one.start()
    one.system.now += 3600
    assert one.end(second, number=11) == []
    assert f"{second} has crashed after 3600 s: it was killed by SIGSEGV; another is started in 0.01 s" in caplog.text
    assert one.turn(0.009) == []
    (successor,) = one.turn(0.002)
    assert (successor.slot, successor.generation, successor.page_number) == (2, 2, second.page_number)
    one.say(successor, say="ready")
    assert "no worker is missing any more: 2 workers" in caplog.text


def test_what_a_drain_has_cut(supervised, tmp_path, caplog):
    """A worker past its drain that does not end is killed: each request still has one line in the access log, its own."""
    log = tmp_path / "log"
    log.touch()
    one = supervised(1, access_log=str(log), drain_seconds=1)
    (child,) = one.start()
    InFlight(None, map_memory_file(child.in_flight)).begin(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/a\0", 2))
    one.signal(signal.SIGHUP)
    one.say(one.children[-1], say="ready")
    one.say(child, say="failed", why="it has cut requests off at the end of its drain", traceback="", has_told=True)
    one.turn(6.1)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    one.end(child, number=9)
    assert f"{child} has ended: it was killed by SIGKILL; it was at: GET /a (" in caplog.text
    assert log.read_text() == ""
    assert not [
        cell for cell, count in one.supervisor.parts.overview.tally.describe().items() if count and LOST in cell
    ]


@pytest.mark.parametrize("is_logged", [True, False])
def test_what_a_crash_has_cut(supervised, tmp_path, caplog, is_logged):
    """Each request has a line in the access log, if there is one; and all are in the line of the crash."""
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
    one.end(first)  # finished, or told why not
    assert caplog.text.count("GET /a (") == 1
    lines = log.read_text().splitlines() if is_logged else []
    assert sorted(re.findall('"(GET .*?)" 0 -', " ".join(lines))) == ["GET /a -", "GET /b -"] * is_logged


def test_a_worker_that_is_mute(supervised):
    """A serving worker with a closed channel is killed; then it has crashed."""
    one = supervised(1)
    (child,) = one.start()
    one.system.workers_ends[child.pid].close()
    one.turn()
    one.turn(5.0)
    assert one.system.signals == [(child.pid, signal.SIGKILL)]
    assert one.end(child, number=9) == []
    assert slots_of(one.turn(0.11)) == [1]


def test_a_crash_beside_a_successor(supervised, caplog):
    """Nobody is missing where another serves already."""
    one = supervised(1)
    (first,) = one.start()
    one.say(first, say="failing", why="it was sent SIGTERM")
    one.supervisor.parts.children.admit(one.children[-1])  # and its word has not been heard
    one.system.ends.append((first.pid, 11))
    one.reap()
    assert f"{first} has crashed" in caplog.text and not one.supervisor.parts.status.absences


def test_a_crash_of_one_too_many(supervised, caplog):
    """The crashed worker had no slot any more: no other starts, and none is missed."""
    one = supervised(2)
    first, _ = one.start()
    one.supervisor.fleet.resize(1, "SIGTTOU")
    one.system.ends.append((first.pid, 11))
    one.reap()
    assert caplog.text.rstrip().endswith(f"{first} has crashed after 0 s: it was killed by SIGSEGV")
    assert one.turn(10) == [] and not one.supervisor.parts.status.absences


def test_killed_for_a_fault_before_the_end(supervised):
    """Its requests are lost, and the exit status says so."""
    one = supervised(1)
    (child,) = one.start()
    one.supervisor.parts.children.end_with_stacks(child, "its event loop hangs")
    one.signal(TERM)
    assert one.end(child, number=6) == [] and one.supervisor.fleet.exit_status == 1


def test_the_hook_of_another_servers_settings(supervised):
    called = []
    one = supervised(1)
    (child,) = one.start()
    hooks = GunicornHooks(types.SimpleNamespace(child_exit=lambda *who: called.append(who)))
    child.plan = child.plan._replace(origin=types.SimpleNamespace(extensions=[hooks]))
    one.end(child, number=9)
    assert called == [(child.pid, 1)]
