"""The taker of a connection given away: on processes of numbers alone."""

import time

import pytest

from aserve.core.page import Field
from aserve.processes.children.children import SILENT_NS
from aserve.processes.fleet.fleet import Fleet
from aserve.processes.transfers.placement import Placement


@pytest.fixture
def takers(new):
    """Placement among the children made by `new`."""
    fleet = Fleet(None, 0)
    fleet.workers = new.children
    return Placement(new.children, fleet)


@pytest.fixture
def three(new):
    """Three serving workers."""
    workers = [new(slot) for slot in (1, 2, 3)]
    for child in workers:
        new.children.admit(child)
    return workers


def test_a_worker_whose_loop_turns(new, takers, three):
    """A worker silent for two seconds gets no connection, however empty; without another there is none."""
    giver, silent, well = three
    pages = {child: child.page for child in (silent, well)}
    now = time.monotonic_ns()
    pages[silent][Field.TICKED_AT], pages[well][Field.TICKED_AT] = now - SILENT_NS - 1, now + 10**12
    pages[well][Field.CONNECTIONS] = 100
    assert takers.emptiest(giver) is well
    pages[well][Field.TICKED_AT] = pages[silent][Field.TICKED_AT]
    assert takers.emptiest(giver) is None


@pytest.mark.parametrize("lack", [Field.STALLED_SECONDS, Field.SHORT_OF_DESCRIPTORS])
def test_a_worker_that_others_come_before(new, takers, three, lack):
    """A worker with requests that wait for stuck threads, or without descriptors for a connection, comes after the rest, however empty."""
    giver, lacking, well = three
    lacking.page[lack] = 1
    well.page[Field.CONNECTIONS] = 100
    assert takers.emptiest(giver) is well


def test_the_worker_that_a_connection_is_meant_for(new, takers, three):
    """The meant worker gets the connection, however full; without it another does."""
    giver, meant, other = three
    meant.page[Field.CONNECTIONS] = 100
    assert takers.emptiest(giver, meant.page_number) is meant and takers.emptiest(giver, giver.page_number) is other


def test_one_that_drains(new, takers, three):
    giver, drains, third = three
    new.children.drain(drains, is_replaced=True)
    assert takers.emptiest(giver) is third
