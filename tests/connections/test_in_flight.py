"""A process's requests, as others read them."""

import mmap
import os
import time

import pytest

from aserve.connections import in_flight as in_flight_module
from aserve.connections.in_flight import (
    LOOP_COUNT,
    TABLE_BYTES,
    InFlight,
    lane_entries,
    read_in_flight,
    read_oldest,
    read_used,
)
from aserve.connections.load_board import NOBODY, Load, LoadBoard
from aserve.core.exchange import Exchange
from aserve.core.memory_file import map_memory_file, open_memory_file


def new_exchange(method: str = "GET", target: str = "/x") -> Exchange:
    return Exchange(f"REQUEST_METHOD\0{method}\0REQUEST_URI\0{target}\0", 2)


def new_board() -> tuple[memoryview, LoadBoard]:
    words = memoryview(mmap.mmap(-1, 8)).cast("Q")
    words[0] = NOBODY
    board = LoadBoard(words, 0, 1)
    board.open(1)
    return words, board


def test_the_table_has_each_exchange():
    """Each exchange is in the table from its beginning to its end, with its time; the longest first."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    in_flight = InFlight(None, memory)
    assert read_in_flight(memory) == []
    exchanges = [new_exchange("GET", "/a"), new_exchange("PUT", "/b")]
    for exchange in exchanges:
        in_flight.begin(exchange)
    found = read_in_flight(memory)
    assert sorted(text for _, text in found) == ["GET /a", "PUT /b"]
    assert found == sorted(found, reverse=True) and all(0 <= seconds < 60 for seconds, _ in found)
    in_flight.end(exchanges[0])
    assert [text for _, text in read_in_flight(memory)] == ["PUT /b"]
    in_flight.end(exchanges[1])
    assert read_in_flight(memory) == []


class Clock:
    """The module `time` as a test sets it."""

    now = 1000 * 10**9

    def monotonic_ns(self):
        return self.now


def test_what_goes_on(monkeypatch):
    """A grown response makes its request a young one; nothing is left behind its end."""
    clock = Clock()
    monkeypatch.setattr(in_flight_module, "time", clock)
    memory = mmap.mmap(-1, TABLE_BYTES)
    in_flight = InFlight(None, memory)
    exchange = new_exchange()
    in_flight.refresh(exchange)  # not in there
    in_flight.begin(exchange)
    clock.now += 60 * 10**9
    assert read_in_flight(memory)[0][0] == pytest.approx(60.0, abs=0.001)
    in_flight.refresh(exchange)
    assert read_in_flight(memory)[0][0] == pytest.approx(0.0, abs=0.001)
    in_flight.end(exchange)
    in_flight.refresh(exchange)
    assert read_in_flight(memory) == []


def test_an_end_meanwhile(monkeypatch):
    """A worker that ends the exchange just then leaves nothing in the table either."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    in_flight, exchange = InFlight(None, memory), new_exchange()
    in_flight.begin(exchange)

    class Ending(Clock):
        def monotonic_ns(self):
            in_flight.end(exchange)
            return self.now

    monkeypatch.setattr(in_flight_module, "time", Ending())
    in_flight.refresh(exchange)
    monkeypatch.undo()
    assert read_in_flight(memory) == []


def test_the_oldest_is_found_without_reading_all():
    """The oldest age is found in the table's file, without reading the whole: on the event loop's wires and in the lane."""
    fd = open_memory_file("table")
    os.truncate(fd, TABLE_BYTES)
    memory = map_memory_file(fd)
    assert read_oldest(fd) == 0.0
    in_flight = InFlight(None, memory)
    in_flight.begin(new_exchange())
    in_flight.begin(new_exchange())
    (earlier, _), _ = read_in_flight(memory)
    assert read_oldest(fd) >= earlier > 0.0
    lane_count, entries = lane_entries(memory)
    lane_count[0] = 5
    entries[4].since = 1
    assert read_oldest(fd) == pytest.approx(time.monotonic(), abs=60)
    used = read_used(fd)
    assert len(used) < TABLE_BYTES and len(read_in_flight(used)) == 3
    lane_count[0] = (1 << 64) - 1  # written by an app gone wrong
    assert len(read_used(fd)) == TABLE_BYTES
    os.close(fd)


def test_what_forges_no_line_of_a_log():
    """A target may have octets that a log must not have."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    InFlight(None, memory).begin(new_exchange("GET", '/"\x1b\xe4\n'))
    assert [text for _, text in read_in_flight(memory)] == ["GET /\\x22\\x1b\\xe4\\x0a"]


def test_a_full_table():
    """A request without a place is not told, and harms nobody; a free place is used again."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    words, board = new_board()
    in_flight = InFlight(board, memory)
    exchanges = [new_exchange() for _ in range(LOOP_COUNT + 2)]
    for exchange in exchanges:
        in_flight.begin(exchange)
    assert len(read_in_flight(memory)) == LOOP_COUNT
    assert Load.of(words[0]) == Load(0, LOOP_COUNT + 2, 0)
    for exchange in exchanges[-3:]:
        in_flight.end(exchange)
    in_flight.begin(new_exchange("PUT"))
    assert len(read_in_flight(memory)) == LOOP_COUNT
    assert "PUT /x" in [text for _, text in read_in_flight(memory)]


def test_without_a_table():
    """The board counts; an exchange ends once, and one that never began does not end."""
    words, board = new_board()
    in_flight = InFlight(board)
    exchange = new_exchange()
    in_flight.begin(exchange)
    assert Load.of(words[0]) == Load(0, 1, 0)
    for _ in range(2):
        in_flight.end(exchange)
        in_flight.end(new_exchange())
        assert Load.of(words[0]) == Load(0, 0, 0)


def test_with_nothing_to_write_nothing_breaks():
    """Without table and board nothing breaks: the caller asks first."""
    exchange = new_exchange()
    in_flight = InFlight(None)
    in_flight.begin(exchange)
    in_flight.end(exchange)
    assert exchange.entry is None


def test_the_part_of_the_lane():
    """The lane's entries stand behind the event loop's, and are read as far as used."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    used, entries = lane_entries(memory)
    for fd in (0, 9):
        entries[fd].text, entries[fd].since = b"GET /%d" % fd, 1
    assert read_in_flight(memory) == []
    used[0] = 9
    assert [text for _, text in read_in_flight(memory)] == ["GET /0"]
    used[0] = 10
    assert sorted(text for _, text in read_in_flight(memory)) == ["GET /0", "GET /9"]
    InFlight(None, memory).begin(new_exchange("PUT"))
    assert [text for _, text in read_in_flight(memory)][-1] == "PUT /x"
