"""The counts of workers: each worker has separate counts, and counts of ended workers are not lost."""

import mmap
import os

import pytest

from aserve.compat.uwsgi_api.tallies import ROWS, SIZE, Tallies, TallyRow
from aserve.core.ends import Ended
from aserve.core.exchange import ANSWERED


def ended(size=0, began_at=0.0, ended_at=0.0, has_failed=False, left_at=0.0):
    """Return the end of a request."""
    return Ended("", False, "", 200, size, ANSWERED, 0.0, began_at, left_at, ended_at, 0, has_failed, b"")


@pytest.fixture
def tallies():
    return Tallies(mmap.mmap(-1, 64 + SIZE), 64)


def test_counts_have_requests_octets_and_times(tallies):
    tally = tallies.begin(3, slot=2)
    tally.write([ended(10, 1.0, 1.5), ended(5, 1.0, 2.0, True, left_at=1.25), ended()])
    tally.count_signal()
    row = tallies.row(3, os.getpid())
    assert row[1:] == (3, 1, 15, 1_500_000, 1) and row.spawned_at > 0 and tally.thread_seconds == 0.75


def test_counts_of_c(tallies):
    """C's counts go into the same numbers: by its places."""
    tally = tallies.begin(3, slot=2)
    classes, octets, _, runs, buckets = tally.places
    tally.add([(classes[2], 7), (classes[4] + 1, 1), (octets, 700), (runs, 8), (runs + buckets + 1, 300)], 0.5)
    assert tallies.row(3, os.getpid())[1:] == (8, 0, 700, 300, 0) and tally.thread_seconds == 0.5


def test_another_processs_row_is_empty(tallies):
    tallies.begin(3, slot=2).write([ended()])
    assert tallies.row(3, os.getpid() + 1) == tallies.row(4, os.getpid()) == tallies.row(ROWS, 1) == TallyRow()
    tallies.close(3, os.getpid() + 1)
    tallies.close(ROWS, os.getpid())
    assert tallies.row(3, os.getpid()).requests == 1


def test_the_ended_ones(tallies):
    """Their numbers are the slot's from then on; the next process begins with 0."""
    for number in (3, 4):
        tallies.begin(number, slot=2).write([ended(10, has_failed=True)])
        tallies.close(number, os.getpid())
    assert tallies.ended(2) == TallyRow(0, 2, 2, 20) and tallies.ended(1) == tallies.ended(ROWS) == TallyRow()
    tallies.begin(3, slot=2)
    assert tallies.row(3, os.getpid()).requests == 0
    assert tallies.row(3, os.getpid()).plus(tallies.ended(2))[1:3] == (2, 2)


def test_beyond_the_table(tallies):
    """A slot beyond all sites is not summed, and harms nothing."""
    tallies.begin(3, slot=ROWS).write([ended()])
    tallies.close(3, os.getpid())
    assert tallies.row(3, os.getpid()) == TallyRow()
