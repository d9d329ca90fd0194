"""The ring of messages, with the recorded answers of real uWSGI, but for a pop of nothing, which moves nothing here."""

import mmap

import pytest

from aserve.compat.uwsgi_api.ring import Ring, bytes_of
from aserve.compat.uwsgi_api.settings import QueueSpec

SPEC = QueueSpec(10, 16)


@pytest.fixture
def ring(memory):
    return Ring(SPEC, mmap.mmap(-1, 8 + bytes_of(SPEC)), 8, memory.locks)


def test_both_ends_can_be_taken(ring):
    for message in (b"1", b"2", b"3"):
        assert ring.push(message) is True
    assert ring.places() == (3, 0) and ring.last(5) == [b"3", b"2", b"1", None, None]
    assert ring.pull() == b"1" and ring.pop() == b"3" and ring.places() == (2, 1)
    assert ring.pull() == b"2" and ring.pull() is ring.pop() is None and ring.places() == (2, 2)


def test_going_round_overwrites_the_oldest(ring):
    for number in range(12):
        ring.push(b"%d" % number)
    assert [ring.get(place) for place in range(10)] == [b"10", b"11", *(b"%d" % number for number in range(2, 10))]
    assert ring.places() == (2, 0) and ring.last(20) == [b"%d" % number for number in range(11, 1, -1)]
    assert ring.pull() == b"10"  # as there: the place of the oldest is not moved


def test_places_can_be_read_and_set(ring):
    assert ring.set(1, b"q") is True and ring.get(1) == b"q" and ring.get(2) is None
    assert (
        ring.set(10, b"q") is ring.set(-1, b"q") is ring.set(1, b"x" * 17) is False
        and ring.get(10) is ring.get(-1) is None
    )
    assert ring.push(b"x" * 17) is False and ring.push(b"x" * 16) is True and ring.get(0) == b"x" * 16
