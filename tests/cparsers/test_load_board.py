"""The choice of the process to accept on a shared listener: each by the words of the rest."""

import random

import pytest

from aserve._cparsers import ffi, lib

NOBODY = (1 << 64) - 1
MAX_WAITS, MAX_LEAD, MAX_LAG = 100, 64, 256  # load_board.c


class Process:
    """The side of one process on a board."""

    def __init__(self, words, index, count, threads=4, stride=1):
        self.owned = words, ffi.new("load_wait[]", count)
        self.board = ffi.new("load_board *", {"words": words, "waits": self.owned[1], "stride": stride, "count": count})
        self.board.index, self.board.threads = index, threads

    def add(self, connections=0, requests=0, turns=0):
        for shift, count in (
            (lib.LOAD_CONN_SHIFT, connections), (lib.LOAD_REQUEST_SHIFT, requests), (lib.LOAD_TURN_SHIFT, turns),
        ):  # fmt: skip
            lib.load_board_add(self.board, shift, count)

    def quota(self):
        return lib.load_board_quota(self.board)

    def leave(self):
        lib.load_board_leave(self.board)


@pytest.fixture
def board():
    """Make a board: board(count, threads=4) -> the processes, showing nothing yet."""

    def make(count, threads=4):
        words = ffi.new("uint64_t[]", [NOBODY] * count)
        return [Process(words, index, count, threads) for index in range(count)]

    return make


def test_alone_a_process_accepts_for_its_threads(board):
    """Alone the quota is the free threads, and one always."""
    (only,) = board(1)
    assert only.quota() == 5
    only.add(requests=3)
    assert only.quota() == 2
    only.add(requests=3)
    assert only.quota() == 1


def test_those_who_are_not_there(board):
    """A word of all ones is nobody: not an idle process."""
    one, other = board(2)
    one.add(connections=9, requests=2)
    assert one.quota() == 3
    other.add(requests=2)
    other.leave()
    assert one.quota() == 3
    other.add(requests=-1)  # the other finishes running requests
    assert one.quota() == 3 and one.board.words[1] == NOBODY


@pytest.mark.parametrize(
    ("own", "other", "quota"),
    [
        # requests, connections
        ((0, 0), (0, 0), 1),  # the other has nothing to do
        ((1, 0), (0, 0), 0),  # the other is free
        ((2, 0), (0, 0), 0),
        ((0, 0), (1, 0), 2),  # as many until equally busy, and one
        ((0, 0), (3, 0), 4),
        ((0, 0), (9, 0), 5),  # but no more than the number of threads
        ((2, 0), (1, 0), 1),  # one ahead is not much where both are busy
        ((3, 0), (1, 0), 0),
        ((11, 0), (9, 0), 1),
        ((12, 0), (9, 0), 0),
        ((0, 1), (0, 0), 0),  # idle connections count, too
        ((0, 2), (0, 0), 0),
        ((0, 2), (0, 1), 1),
        ((1, 2), (0, 0), 0),
        ((0, 99), (1, 0), 2),  # but not where the other is busier
        ((0, 10), (0, 8), 1),
        ((0, 11), (0, 8), 0),
    ],
)
def test_of_two_the_busier_leaves_the_listener(board, own, other, quota):
    one, two = board(2)
    one.add(requests=own[0], connections=own[1])
    two.add(requests=other[0], connections=other[1])
    assert one.quota() == quota


def test_of_three_the_emptiest_accepts(board):
    """One emptier process is enough; a busier process hides no emptier."""
    one, two, three = board(3)
    one.add(requests=2)
    two.add(requests=9)
    three.add(requests=0)
    assert (one.quota(), two.quota(), three.quota()) == (0, 0, 3)


def test_one_who_does_not_accept(board):
    """Such a process is waited for a while, and then counts no more until the next accept."""
    one, other = board(2)
    other.add()
    one.add(connections=2)
    assert [one.quota() for _ in range(MAX_WAITS + 1)] == [0] * MAX_WAITS + [5]
    one.add(connections=5)
    assert one.quota() == 5
    other.add(connections=1, turns=1)
    assert one.quota() == 0
    other.add(connections=-1)
    assert one.quota() == 0


def test_one_who_accepts_is_waited_for(board):
    """The same holds with an accept at each look, and the same numbers as before."""
    one, other = board(2)
    other.add()
    one.add(requests=2)
    for _ in range(3 * MAX_WAITS):
        assert one.quota() == 0
        other.add(connections=1, turns=1)
        other.add(connections=-1)


def test_turns_keep_processes_together(board):
    one, other = board(2)
    other.add()
    one.add(turns=MAX_LEAD)
    assert one.quota() == 1
    one.add(turns=1)
    assert (one.quota(), other.quota()) == (0, 1)
    other.add(turns=1)
    assert one.quota() == 1


def test_one_who_begins_anew(board):
    """Such a process passes up most of the missed turns, and is not alone for as long."""
    one, other = board(2)
    other.add()
    one.add(turns=1000)
    assert one.quota() == 0
    assert other.quota() == 1 and other.board.words[1] >> 40 == 1000 - MAX_LAG
    assert one.quota() == 0
    other.add(turns=MAX_LAG - MAX_LEAD)
    assert one.quota() == 1


def test_turns_count_last(board):
    """Turns do not count where the neighbour has more requests, or more connections."""
    one, other = board(2)
    one.add(turns=100)
    other.add(requests=1)
    assert one.quota() == 2
    other.add(requests=-1, connections=2)
    assert one.quota() == 1
    other.add(connections=-1)
    assert one.quota() == 1
    other.add(connections=-1)
    assert one.quota() == 0


@pytest.mark.parametrize("count", [2, 3, 5])
def test_one_at_least_accepts(board, count):
    """However busy the processes are, never do all wait at once."""
    chance = random.Random(count)
    processes = board(count)
    for _ in range(3000):
        for process in processes:
            process.board.own = 0
            process.add(connections=chance.randrange(14), requests=chance.randrange(4), turns=chance.randrange(300))
        for _ in range(2):  # processes passing up turns do so at the first look
            quotas = [process.quota() for process in processes]
        assert any(quotas)


def test_waiting_for_several(board):
    """Each process has a patience."""
    one, two, three = board(3)
    two.add()
    three.add()
    one.add(connections=2)
    for _ in range(MAX_WAITS):
        assert one.quota() == 0
        two.add(turns=1)
    assert one.quota() == 0  # for `two` alone
    two.leave()
    assert one.quota() == 5


def test_numbers_that_go_round(board):
    """Turns are counted modulo 2**24, and touch nothing else."""
    (only,) = board(1)
    only.add(connections=3, requests=2, turns=(1 << 24) - 1)
    only.add(turns=2)
    assert only.board.words[0] == 1 << 40 | 2 << 20 | 3
    only.add(connections=-3, requests=-2)
    assert only.board.words[0] == 1 << 40


@pytest.mark.parametrize("start", [0, (1 << 24) - 4])
def test_a_lead_that_goes_round(board, start):
    """Nor does the order of beginning matter."""
    one, other = board(2)
    one.add(turns=start)
    other.add(turns=start)
    for _ in range(100):
        one.add(turns=1)
        other.add(turns=1)
        assert (one.quota(), other.quota()) == (1, 1)
    one.add(turns=MAX_LEAD + 1)
    assert (one.quota(), other.quota()) == (0, 1)


def test_strides_may_separate_words():
    words = ffi.new("uint64_t[]", 20)
    Process(words, 1, 2, stride=10).add(connections=5)
    assert [number for number, word in enumerate(words) if word] == [10]


def test_whether_it_is_due(board):
    """A process leaving the listener alone may look at any time, and uses up no patience."""
    one, other = board(2)
    other.add()
    one.add(requests=2)
    assert one.quota() == 0
    assert not any(lib.load_board_is_due(one.board) for _ in range(3 * MAX_WAITS)) and one.quota() == 0
    one.add(requests=-2)
    assert lib.load_board_is_due(one.board)
