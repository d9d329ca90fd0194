"""Pages of memory that all processes see."""

from __future__ import annotations

import os

import pytest

from aserve.connections.load_board import NOBODY, Load
from aserve.core.errors import RequestRefused
from aserve.core.page import PAGE_BYTES, WORD_BYTES, Field
from aserve.features.metrics.counting import Counters, read_words
from aserve.features.metrics.table import PLACES
from aserve.processes.slots import Slots

CLEAR = [NOBODY if number == Field.LOAD else 0 for number in range(PAGE_BYTES // WORD_BYTES)]


def test_pages():
    """A page is words, and clear when it is taken; the lowest that is free is taken first."""
    slots = Slots(3)
    assert slots.top == 1
    numbers = [slots.take() for _ in range(3)]
    assert numbers == [1, 2, 3] and slots.top == 4
    pages = [slots.page(number) for number in numbers]
    assert all(len(page) == PAGE_BYTES // WORD_BYTES and page.tolist() == CLEAR for page in pages)
    for number, page in zip(numbers, pages):
        page[Field.PID] = number
        page[-1] = 2**64 - 1
    assert [page[Field.PID] for page in pages] == numbers
    with pytest.raises(OSError, match="all 3 pages"):
        slots.take()
    slots.give_back(2)
    assert slots.top == 4 and pages[1].tolist() == CLEAR and pages[2][Field.PID] == 3
    slots.give_back(3)
    assert slots.top == 2
    assert slots.take() == 2


def test_the_same_pages_again():
    """Who has their file finds the pages as they are, and takes those that are free."""
    slots = Slots(3)
    for number in (1, 2):
        slots.page(slots.take())[Field.PID] = number
    again = Slots(99, os.dup(slots.fd))
    assert again.top == 3 and again.page(2)[Field.PID] == 2
    again.reserve(1)
    again.reserve(2)
    assert again.take() == 3
    with pytest.raises(OSError, match="all 3 pages"):
        again.take()
    again.page(3)[Field.PID] = 3
    assert slots.page(3)[Field.PID] == 3


def test_what_is_counted():
    """It is in the page itself, where others see it, and is told when the page is given back."""
    slots = Slots(2)
    others, number = Slots(0, os.dup(slots.fd)), slots.take()
    slots.page(number)[Field.SLOT] = 7
    Counters(slots.page(number), threads=5).write_refused(None, None, RequestRefused(400, "why"))
    place = PLACES["aserve_requests_refused_total"]
    told = []
    slots.on_given_back = lambda slot, page: told.append((slot, read_words(page)[place]))
    assert read_words(slots.page(number))[place] == read_words(others.page(number))[place] == 1
    assert read_words(others.page(number))[PLACES["aserve_threads_limit"]] == 5
    slots.give_back(number)
    assert read_words(others.page(number))[place] == 0 and told == [(7, 1)]


def test_other_processes_see_them():
    """What a forked process writes is read here, after its end too."""
    slots = Slots(1)
    page = slots.page(slots.take())
    pid = os.fork()
    if not pid:
        page[Field.REQUESTS] = 12345678901234
        os._exit(0)
    os.waitpid(pid, 0)
    assert page[Field.REQUESTS] == 12345678901234


def test_the_load_board():
    """Each worker shows its load in its page; others look at those pages that somebody has had."""
    slots = Slots(3)
    numbers = [slots.take(), slots.take()]
    boards = [slots.new_board(number) for number in numbers]
    for board in boards:
        board.open(threads=1)
    boards[0].set_connections(5)
    assert Load.of(slots.page(1)[Field.LOAD]) == Load(5, 0, 0)
    assert boards[0].quota() == 0, "the other has none"
    slots.give_back(2)
    assert boards[0].quota() > 0, "it is no more"
    assert Load.of(slots.page(2)[Field.LOAD]) is None
    assert [board.struct.count for board in boards] == [2, 2]
    slots.take()
    slots.take()
    boards[0].look_at(slots.top - 1)
    assert boards[0].struct.count == 3


def test_expected_pages():
    """Who comes first looks for those that are expected, whose pages nobody has yet, and who show no load."""
    slots = Slots(3, expected=2)
    board = slots.new_board(slots.take())
    board.open(threads=1)
    board.set_connections(5)
    assert slots.top == 3 and board.struct.count == 2 and board.quota() > 0
    slots.new_board(slots.take()).open(threads=1)
    assert board.quota() == 0
    slots.give_back(2)
    assert slots.top == 3
