"""The facts about a process."""

import pytest

from aserve.compat.uwsgi_api import process as module
from aserve.compat.uwsgi_api.process import Process, become, present
from aserve.core.page import Field, State


def test_only_ready_workers_take_signals():
    """A ready worker takes signals, and neither a starting nor a draining one; a lone process does."""
    page = memoryview(bytearray(4096)).cast("Q")
    process = Process(1, 4242, page=page)
    for state in State:
        page[Field.STATE] = state
        assert process.serves is (state == State.READY)
    assert Process().serves is True


@pytest.mark.parametrize("number", [1, 3])
def test_the_present_process_is_the_last_set(monkeypatch, number):
    monkeypatch.setattr(module, "_present", Process())
    become(Process(number))
    assert present().worker_id == number
