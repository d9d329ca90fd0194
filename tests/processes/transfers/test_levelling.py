"""How many connections each worker gives away: by numbers, and by pages."""

import random
import selectors
import time

import pytest

from aserve._cparsers import lib
from aserve.core.page import Field
from aserve.features import Config
from aserve.processes.children.children import SILENT_NS, Children
from aserve.processes.children.pages import Pages
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.plan import Plan
from aserve.processes.transfers.levelling import MAX_GIFTS, Relief, Standing, gifts, level_out, relief


def standing(connections, requests=0, room=1000, is_stalled=False):
    return Standing(connections, requests, room, is_stalled)


@pytest.mark.parametrize(
    ("connections", "given"),
    [
        ([], []),
        ([9], [0]),
        ([2, 0], [1, 0]),
        ([1, 0], [0, 0]),
        ([0, 16], [0, 8]),
        ([9, 7], [1, 0]),
        ([10, 8], [0, 0]),  # levels out by itself
        ([100, 89], [0, 0]),
        ([100, 80], [10, 0]),
        ([10, 10, 10, 0], [3, 3, 1, 0]),
        ([2, 2, 0], [1, 0, 0]),
        ([30, 5, 0, 0], [19, 0, 0, 0]),  # the second is fuller than the emptiest, and has fewer than the mean
        ([1000, 0], [MAX_GIFTS, 0]),
    ],
)
def test_numbers_of_connections(connections, given):
    """Workers above the mean give to workers below."""
    assert gifts([standing(count) for count in connections]) == given


def test_one_that_computes():
    """A worker with more requests than the giver gets none."""
    assert gifts([standing(10, requests=1), standing(0, requests=2)]) == [5, 0]
    assert gifts([standing(10, requests=1), standing(0, requests=3)]) == [0, 0]


def test_one_without_room():
    """Nobody gives more than the others may take."""
    assert gifts([standing(10), standing(0, room=2)]) == [2, 0]
    assert gifts([standing(10), standing(0, room=0)]) == [0, 0]


def test_one_whose_threads_are_stuck():
    """A worker with stuck threads gives all idle ones, and gets none."""
    stuck = standing(4, requests=4, is_stalled=True)
    assert gifts([stuck, standing(40)]) == [4, 0]
    assert gifts([stuck, standing(40, room=3)]) == [3, 0]
    assert gifts([stuck, stuck]) == [0, 0]


def busy(threads, requests, connections=10, **others):
    return Standing(connections, requests, others.pop("room", 1000), busy=threads, **others)


@pytest.mark.parametrize(
    ("standings", "given"),
    [
        ([], None),
        ([busy(8, 8)], None),
        ([busy(8, 8), busy(0, 0)], Relief(0, 1, 5)),
        ([busy(1, 1), busy(8, 10), busy(0, 0)], Relief(1, 2, 5)),
        ([busy(6, 6), busy(2, 2)], Relief(0, 1, 3)),
        ([busy(8, 8, 1000), busy(0, 0)], Relief(0, 1, MAX_GIFTS)),
        ([busy(8, 8), busy(0, 0, room=2)], Relief(0, 1, 2)),
        ([busy(8, 8), busy(0, 0, room=0)], None),
        ([busy(8, 8), busy(7, 7)], None),  # levels out by itself
        ([busy(8, 1), busy(0, 0)], None),  # past, and not any more
        ([busy(1, 9), busy(0, 0)], None),  # at this moment only
        ([busy(8, 8, is_stalled=True), busy(0, 0)], None),  # `gifts` has it
        ([busy(8, 8), busy(0, 0, is_stalled=True)], None),
        ([busy(8, 8), busy(0, 0, is_stalled=True), busy(2, 2)], Relief(0, 2, 3)),
    ],
)
def test_work_that_differs(standings, given):
    """Where connections are equal, the busiest worker gives half of its lead to the least busy."""
    assert relief(standings) == given


@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_rest(seed):
    """Whatever the beginning: once ordered gifts are given, none follows."""
    chance = random.Random(seed)
    for _ in range(200):
        counts = [chance.randrange(60) for _ in range(chance.randrange(2, 9))]
        total = sum(counts)
        for _ in range(len(counts)):
            given = gifts([standing(count) for count in counts])
            counts = [count - less for count, less in zip(counts, given)]
            for _ in range(sum(given)):  # placement.py
                counts[counts.index(min(counts))] += 1
        assert sum(counts) == total and not any(gifts([standing(count) for count in counts]))


@pytest.fixture
def ready(system):
    """Make serving workers with their numbers of connections: ready(*connections) -> children."""
    with selectors.DefaultSelector() as selector:
        children = Children(Pages(8), selector, Clock())

        def make(*connections):
            for slot, count in enumerate(connections, 1):
                child, _ = children.fork(slot, Plan(Config(workers=1), None))
                children.admit(child)
                page = child.page
                page[Field.LOAD], page[Field.CONNECTIONS_LIMIT] = count, 1000
                page[Field.TICKED_AT] = time.monotonic_ns() + 10**12
            return children

        make.orders = lambda: [_order_of(system.workers_ends[child.pid]) for child in children]
        yield make
        for child in children:
            child.close()


def _order_of(end):
    try:
        message, _ = end.receive()
    except BlockingIOError:
        return None
    assert message["do"] == "hand over"
    return message["count"]


def test_an_order_goes_to_the_fullest_worker(ready):
    """The fullest worker is told to give some away; where all have as many, no order is sent."""
    level_out(ready(8, 0), ())
    assert ready.orders() == [4, None]


def test_connections_of_a_busy_worker(ready, system):
    """The busy worker is told to give some, and to which worker."""
    children = ready(8, 8)
    busiest, idlest = children
    page = busiest.page
    page[Field.LOAD], page[Field.THREADS_BUSY_LATELY] = page[Field.LOAD] | 8 << lib.LOAD_REQUEST_SHIFT, 8000
    level_out(children, ())
    message, _ = system.workers_ends[busiest.pid].receive()
    assert message == {"do": "hand over", "count": 4, "to": idlest.page_number}


def test_nothing_to_do(ready):
    """Nothing is said."""
    level_out(ready(8, 8), ())
    assert ready.orders() == [None, None]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("why", ["hangs", "has not begun", "leaves", "accepts no more", "has WebSockets"])
def test_one_that_is_left_out(ready, why, number):
    """The left-out worker neither gives nor gets; WebSockets are not connections to give."""
    children = ready(8, 0)
    page = list(children)[number].page
    if why == "hangs":
        page[Field.TICKED_AT] = time.monotonic_ns() - SILENT_NS - 1
        children.note_silent()
    elif why == "has not begun":
        page[Field.TICKED_AT] = 0
    elif why == "accepts no more":
        page[Field.LOAD] = (1 << 64) - 1
    elif why == "has WebSockets":
        for child in children:
            child.page[Field.WEBSOCKETS] = 8
    level_out(children, [number + 1] if why == "leaves" else ())
    assert ready.orders() == [None, None]


@pytest.mark.parametrize(("connections", "orders"), [((8, 0), [None, None]), ((0, 8), [None, 4])])
def test_one_without_free_descriptors(ready, connections, orders):
    """The second gets none, as it could not receive them; it gives like the rest."""
    children = ready(*connections)
    list(children)[1].page[Field.SHORT_OF_DESCRIPTORS] = 1
    level_out(children, ())
    assert ready.orders() == orders
