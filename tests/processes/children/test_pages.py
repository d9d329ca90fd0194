"""Pages of memory seen by all processes."""

import os

import pytest

from aserve.connections.load_board import NOBODY, Load
from aserve.core.errors import RequestRefused
from aserve.core.page import PAGE_BYTES, WORD_BYTES, Field
from aserve.features.metrics.counting import Counters, read_words
from aserve.features.metrics.table import PLACES
from aserve.processes.children.pages import Pages

CLEAR = [NOBODY if number == Field.LOAD else 0 for number in range(PAGE_BYTES // WORD_BYTES)]


def test_a_taken_page_is_clear():
    """A page is words, and clear when taken; the lowest free page is taken first."""
    pages = Pages(3)
    assert pages.top == 1
    numbers = [pages.take() for _ in range(3)]
    assert numbers == [1, 2, 3] and pages.top == 4
    found = [pages.page(number) for number in numbers]
    assert all(len(page) == PAGE_BYTES // WORD_BYTES and page.tolist() == CLEAR for page in found)
    for number, page in zip(numbers, found):
        page[Field.PID] = number
        page[-1] = 2**64 - 1
    assert [page[Field.PID] for page in found] == numbers
    with pytest.raises(OSError, match="all 3 pages"):
        pages.take()
    pages.give_back(2)
    assert pages.top == 4 and found[1].tolist() == CLEAR and found[2][Field.PID] == 3
    pages.give_back(3)
    assert pages.top == 2
    assert pages.take() == 2


def test_the_same_pages_again():
    """A holder of the file finds the same pages, and takes free ones."""
    pages = Pages(3)
    for number in (1, 2):
        pages.page(pages.take())[Field.PID] = number
    again = Pages(99, os.dup(pages.fd))
    assert again.top == 3 and again.page(2)[Field.PID] == 2
    again.reserve(1)
    again.reserve(2)
    assert again.take() == 3
    with pytest.raises(OSError, match="all 3 pages"):
        again.take()
    again.page(3)[Field.PID] = 3
    assert pages.page(3)[Field.PID] == 3


def test_what_is_counted():
    """Counts are in the page itself, where other processes see them, and are told when the page is given back."""
    pages = Pages(2)
    others, number = Pages(0, os.dup(pages.fd)), pages.take()
    pages.page(number)[Field.SLOT] = 7
    Counters(pages.page(number), threads=5).write_refused(None, None, RequestRefused(400, "why"))
    place = PLACES["aserve_requests_refused_total"]
    assert read_words(pages.page(number))[place] == read_words(others.page(number))[place] == 1
    assert read_words(others.page(number))[PLACES["aserve_threads_limit"]] == 5
    last = pages.give_back(number)
    assert read_words(others.page(number))[place] == 0 and (last[Field.SLOT], read_words(last)[place]) == (7, 1)


def test_other_processes_see_them():
    """Writes of a forked process are read here, after its end too."""
    pages = Pages(1)
    page = pages.page(pages.take())
    pid = os.fork()
    if not pid:
        page[Field.REQUESTS] = 12345678901234
        os._exit(0)
    os.waitpid(pid, 0)
    assert page[Field.REQUESTS] == 12345678901234


def test_the_load_board():
    """Each worker shows its load in its page; others look at pages once taken."""
    pages = Pages(3)
    numbers = [pages.take(), pages.take()]
    boards = [pages.new_board(number) for number in numbers]
    for board in boards:
        board.open(threads=1)
    boards[0].set_connections(5)
    assert Load.of(pages.page(1)[Field.LOAD]) == Load(5, 0, 0)
    assert boards[0].quota() == 0, "the other has none"
    pages.give_back(2)
    assert boards[0].quota() > 0, "it is no more"
    assert Load.of(pages.page(2)[Field.LOAD]) is None
    assert [board.struct.count for board in boards] == [2, 2]
    pages.take()
    pages.take()
    boards[0].look_at(pages.top - 1)
    assert boards[0].struct.count == 3


def test_expected_pages_count_without_load():
    """The first worker looks for expected ones, whose pages are free and show no load."""
    pages = Pages(3, expected=2)
    board = pages.new_board(pages.take())
    board.open(threads=1)
    board.set_connections(5)
    assert pages.top == 3 and board.struct.count == 2 and board.quota() > 0
    pages.new_board(pages.take()).open(threads=1)
    assert board.quota() == 0
    pages.give_back(2)
    assert pages.top == 3
