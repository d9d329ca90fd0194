"""The state of a supervisor and its workers; questions by a socket are in test_answers.py."""

import time
from types import SimpleNamespace

from harness.apps import hello

from aserve import Server
from aserve.connections.in_flight import InFlight
from aserve.core import footprint, growth
from aserve.core.exchange import Exchange
from aserve.core.footprint import Memory
from aserve.core.memory_file import map_memory_file
from aserve.core.page import Field
from aserve.lifecycle.lone import Lone
from aserve.processes.monitoring import status as module


def test_workers_are_told_by_slot(supervised, monkeypatch):
    """Workers are told by slot, from their pages, their tables and the system."""
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: Memory(pid, 2, 1))
    monkeypatch.setattr(footprint, "descriptors_of", lambda pid: (5, 10))
    one = supervised(2)
    first, second = one.start()
    status = one.supervisor.parts.overview._status
    InFlight(None, map_memory_file(second.in_flight)).begin(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/slow?a", 2))
    page = second.page
    page[Field.STALLED_SECONDS], page[Field.TICKED_AT], page[Field.THREADS_STUCK] = 7, 1, 2
    found = status.describe()
    assert (found["workers_wanted"], found["workers_ready"], found["threads"]) == (2, 2, 32)
    assert [worker["slot"] for worker in found["workers"]] == [1, 2]
    assert found["workers"][0]["silent_seconds"] is None and found["workers"][0]["at"] == []
    worker = found["workers"][1]
    assert (worker["rss_bytes"], worker["uss_bytes"], worker["descriptors"]) == (second.pid, 1, 5)
    assert (
        worker["stalled_seconds"] == 7
        and worker["threads_stuck"] == 2
        and worker["at"][0][1] == "GET /slow?..."
        and worker["silent_seconds"] > 1
    )
    assert found["text"] == "serving on  with 2 workers"


def test_crashes_of_ten_minutes_are_told(supervised, monkeypatch):
    one = supervised(2)
    first, _ = one.start()
    status, clock = one.supervisor.parts.status, SimpleNamespace(now=time.monotonic())
    monkeypatch.setattr(
        "aserve.processes.monitoring.status.time", SimpleNamespace(time=time.time, monotonic=lambda: clock.now)
    )
    one.end(first, number=11)
    clock.now += 599.0
    assert status.describe()["crashes"] == [{"seconds": 599.0, "worker": 1, "how": "it was killed by SIGSEGV"}]
    clock.now += 2.0
    assert status.describe()["crashes"] == []


def test_memory_that_grows(supervised, monkeypatch):
    """Each serving worker is looked at once a minute; an ended one is forgotten."""
    taken = []
    monkeypatch.setattr(
        growth, "memory_of", lambda pid: Memory(len(taken) << 24) if taken.append(pid) is None else None
    )
    one = supervised(1)
    (child,) = one.start()
    status = one.supervisor.parts.status
    for _ in range(50):
        status.measure_growth()
    assert set(taken) == {child.pid} and len(taken) == 50
    (worker,) = status.describe()["workers"]
    assert worker["growth"] == {"from_bytes": 11 << 24, "to_bytes": 41 << 24, "minutes": 40}
    one.end(child, number=9)
    status.measure_growth()
    assert not status.statuses.growths._by_key


def test_one_that_is_not_there_yet(supervised):
    """A worker yet to be forked by a mold has no known size."""
    one = supervised(1)
    (child,) = one.start()
    child.pid = 0
    assert one.supervisor.parts.status.describe()["workers"][0]["rss_bytes"] is None


def test_attached_programs_are_told(supervised, monkeypatch):
    """Programs beside the workers are told with command and size; a stopped one has no size."""
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: Memory(pid, 2, 1))
    one = supervised(1)
    one.start()
    state = {
        "name": "beat",
        "words": ["celery", "a b"],
        "state": "running",
        "seconds": 3,
        "restarts": 1,
        "last_end": "",
        "when": "",
        "pause_seconds": 0.0,
        "secret": 1,
    }
    programs = [{**state, "pid": 4321}, {**state, "name": "gone", "pid": 0, "state": "pausing", "when": "* * * * *"}]
    status = module.Status(
        one.supervisor.parts.children,
        one.supervisor.fleet,
        SimpleNamespace(describe=lambda: programs, describe_missing=str),
    )
    status.facts = lambda: {"jobs": {"waiting": {}}}
    described = status.describe()
    beat, gone = described["attached"]
    assert described["jobs"] == {"waiting": {}}
    assert (beat["name"], beat["command"], beat["rss_bytes"], beat["restarts"]) == ("beat", "celery ...", 4321, 1)
    assert (gone["state"], gone["rss_bytes"]) == ("pausing", None) and "secret" not in beat
    assert gone["command"] == "a ..."  # of its shell's words


def test_a_lone_process(supervised):
    """A process without a supervisor has the same status, without a supervisor's part."""
    one = supervised(1)
    one.start()
    found, alone = (
        one.supervisor.parts.status.describe(),
        Lone(Server(hello, bind="127.0.0.1:0")._inner).statuses.describe(),
    )
    assert list(alone["workers"][0]) == list(found["workers"][0])
    assert found.keys() - alone.keys() == {"half_done", "refused", "attached", "jobs"}
    assert list(alone) == [name for name in found if name in alone]
