"""The functions for the queue: None is an undone act."""

import pytest

from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api.memory import Memory
from aserve.compat.uwsgi_api.queues import QUEUE
from aserve.compat.uwsgi_api.settings import Extras


@pytest.fixture(autouse=True)
def shared_memory(open_memory, monkeypatch):
    """The memory of this process, with a queue."""
    monkeypatch.setattr(memory, "_memory", open_memory(extras=Extras("items=10,blocksize=16")))
    assert isinstance(memory.shared(), Memory)


def test_functions_take_text_and_give_octets():
    push, pull = QUEUE["queue_push"], QUEUE["queue_pull"]
    assert push(b"1") is push("2") is push("3") is True and push(b"x" * 17) is None
    assert (QUEUE["queue_slot"](), QUEUE["queue_pull_slot"]()) == (3, 0)
    assert QUEUE["queue_get"](0) == b"1" and QUEUE["queue_get"](9) is QUEUE["queue_get"](99) is None
    assert QUEUE["queue_last"]() == b"3" and QUEUE["queue_last"](2) == [b"3", b"2"]
    assert QUEUE["queue_set"](1, b"q") is True and QUEUE["queue_set"](99, b"") is None
    assert (
        pull() == b"1" and QUEUE["queue_pop"]() == b"3" and pull() == b"q" and pull() is QUEUE["queue_last"]() is None
    )


def test_names_are_uwsgis_own():
    assert all(QUEUE[name].__name__ == name for name in QUEUE)
