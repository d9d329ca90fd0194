"""One process's place on the load board, as used by the server and the lane."""

import array
import mmap

import pytest

from aserve._cparsers import lib
from aserve.connections.load_board import NOBODY, Load, LoadBoard


def new_words(count: int) -> memoryview:
    """Return shared words, all of them nobody's."""
    words = memoryview(mmap.mmap(-1, 8 * count)).cast("Q")
    for number in range(count):
        words[number] = NOBODY
    return words


def test_what_a_process_shows():
    """The place shows nobody, then the process's numbers, then nobody again; elsewhere nothing is written."""
    words = new_words(24)
    board = LoadBoard(words, 1, 3, stride=8, first=2)
    assert Load.of(words[10]) is None
    board.open(4)
    one, other = object(), object()
    assert Load.of(words[10]) == Load(connections=0, requests=0, turns=0)
    board.count_turn()
    board.set_connections(5)
    board.begin(one)
    board.begin(other)
    assert Load.of(words[10]) == Load(connections=5, requests=2, turns=1)
    board.set_connections(3)
    board.end(one)
    assert Load.of(words[10]) == Load(connections=3, requests=1, turns=1)
    board.leave()
    assert Load.of(words[10]) is None
    board.end(other)
    assert [number for number, word in enumerate(words) if word != NOBODY] == []


def test_a_second_start():
    """A server that is started again begins with nothing."""
    words = new_words(1)
    board = LoadBoard(words, 0, 1)
    board.open(1)
    board.set_connections(3)
    board.begin(object())
    board.leave()
    board.open(1)
    assert Load.of(words[0]) == Load(0, 0, 0)
    board.set_connections(1)
    assert Load.of(words[0]) == Load(1, 0, 0)


def test_the_less_busy_process_accepts():
    """Two processes look at each other; the less busy one takes the difference, and one more: the rest is for both."""
    words = new_words(2)
    one, other = LoadBoard(words, 0, 2), LoadBoard(words, 1, 2)
    one.open(4)
    other.open(4)
    assert (one.quota(), other.quota()) == (1, 1)
    for exchange in (words, other):
        one.begin(exchange)
    assert (one.quota(), other.quota()) == (0, 3)


@pytest.mark.parametrize(
    ("format", "index", "count", "stride", "first"),
    [("Q", 2, 2, 1, 0), ("Q", -1, 2, 1, 0), ("Q", 0, 3, 1, 0), ("Q", 0, 2, 2, 0), ("Q", 0, 2, 1, 1), ("B", 0, 2, 1, 0)],
)
def test_a_place_that_is_not_there(format, index, count, stride, first):
    """A place beyond the board is refused, and so are words of another size."""
    words = memoryview(array.array(format, [0, 0]))
    with pytest.raises(ValueError, match="no place"):
        LoadBoard(words, index, count, stride=stride, first=first)


def test_beside_the_lane():
    """Counts of C and of Python add up to one word, whoever shows it."""
    words = new_words(1)
    board = LoadBoard(words, 0, 1)
    board.open(4)
    lib.load_board_add(board.struct, lib.LOAD_CONN_SHIFT, 2)
    lib.load_board_add(board.struct, lib.LOAD_TURN_SHIFT, (1 << 24) - 1)
    board.count_turn()
    board.set_connections(1)
    assert Load.of(words[0]) == Load(connections=3, requests=0, turns=0)
    board.begin(words)
    lib.load_board_add(board.struct, lib.LOAD_REQUEST_SHIFT, 2)
    assert Load.of(words[0]) == Load(connections=3, requests=3, turns=0) and board.quota() == 2
    board.end(words)
    assert Load.of(words[0]) == Load(connections=3, requests=2, turns=0) and board.quota() == 3


def test_free_threads_of_other_processes_are_found():
    """Other processes with fewer requests than threads come with their words."""
    words = new_words(40)
    boards = [LoadBoard(words, index, 4, stride=8, first=3) for index in range(4)]
    for board in boards[:3]:
        board.look_at(3)
        board.open(2)
    assert [place for place, _ in boards[0].free_threads()] == [1, 2]
    running = object(), object()
    for exchange in running:
        boards[1].begin(exchange)
    boards[2].set_connections(9)
    assert boards[0].free_threads() == [(2, words[3 + 2 * 8])] and [place for place, _ in boards[2].free_threads()] == [
        0
    ]
    boards[2].leave()
    assert boards[0].free_threads() == [] and [place for place, _ in boards[1].free_threads()] == [0]
