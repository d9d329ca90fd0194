"""How a supervisor and its workers are; what is asked for by a socket is in test_answers.py."""

from __future__ import annotations

from aserve import footprint
from aserve.connections.in_flight import InFlight
from aserve.exchange import Exchange
from aserve.footprint import Memory
from aserve.processes.memory_file import map_memory_file
from aserve.processes.slots import Field


def test_workers(supervised, monkeypatch):
    """By slot, from their pages, their tables and what the system says of them."""
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: Memory(pid, 2, 1))
    monkeypatch.setattr(footprint, "descriptors_of", lambda pid: (5, 10))
    one = supervised(2)
    first, second = one.start()
    status = one.supervisor._overview._status
    InFlight(None, map_memory_file(second.in_flight)).begin(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/slow?a", 2))
    page = one.supervisor._children.page(second)
    page[Field.STALLED_SECONDS], page[Field.TICKED_AT] = 7, 1
    found = status.describe()
    assert (found["workers_wanted"], found["workers_ready"], found["threads"]) == (2, 2, 32)
    assert [worker["slot"] for worker in found["workers"]] == [1, 2]
    assert found["workers"][0]["silent_seconds"] is None and found["workers"][0]["at"] == []
    worker = found["workers"][1]
    assert (worker["rss_bytes"], worker["uss_bytes"], worker["descriptors"]) == (second.pid, 1, 5)
    assert worker["stalled_seconds"] == 7 and worker["at"][0][1] == "GET /slow?a" and worker["silent_seconds"] > 1
    assert found["text"] == "serving on  with 2 workers"


def test_one_that_is_not_there_yet(supervised):
    """A mold is to fork it: nothing is known of what it takes."""
    one = supervised(1)
    (child,) = one.start()
    child.pid = 0
    assert one.supervisor._overview._status.footprint_of(child) is None
