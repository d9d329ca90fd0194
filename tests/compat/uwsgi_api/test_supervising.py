"""The counts of ended workers, in their supervisor."""

import os

from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api.supervising import Counts
from aserve.lifecycle.supervision import WorkerEnd


def test_an_ended_worker(open_memory, monkeypatch):
    monkeypatch.setattr(memory, "_memory", open_memory())
    memory.shared().tallies.begin(3, slot=2).count_signal()
    Counts().on_end(WorkerEnd(os.getpid(), 3, (), 0))
    assert memory.shared().tallies.ended(2).signals == 1
