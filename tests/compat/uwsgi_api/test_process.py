"""The facts about a process."""

from __future__ import annotations

import pytest

from aserve.compat.uwsgi_api import process as module
from aserve.compat.uwsgi_api.process import Process, become, present
from aserve.core.page import Field, State


def test_takes_signals():
    """A worker that is ready, and neither one that starts nor one that drains; a process alone."""
    page = memoryview(bytearray(4096)).cast("Q")
    process = Process(1, 4242, page=page)
    for state in State:
        page[Field.STATE] = state
        assert process.serves is (state == State.READY)
    assert Process().serves is True


@pytest.mark.parametrize("number", [1, 3])
def test_present(monkeypatch, number):
    """What was set last."""
    monkeypatch.setattr(module, "_present", Process())
    become(Process(number))
    assert present().worker_id == number
