"""The number of connections: the limit, the counted, the evicted, and the log's lines."""

import errno
import mmap
import os
import resource

import pytest
from harness.limits import Counted, CountedLane, lines

import aserve.connections.limit
from aserve.connections.limit import (
    SPARE_DESCRIPTORS,
    ConnectionLimit,
    default_limit,
    descriptor_limit,
    is_short_of_descriptors,
)
from aserve.connections.load_board import NOBODY, Load, LoadBoard
from aserve.connections.server_budgets import default_spool_files

# The limit


@pytest.mark.parametrize(
    ("descriptors", "threads", "limit"),
    [(1024, 32, 576), (1024, 0, 704), (256, 32, 128), (1, 0, 1), (1 << 20, 32, (1 << 20) - 448), (None, 32, 1_000_000)],
)
def test_the_default_leaves_descriptors_to_the_app(monkeypatch, descriptors, threads, limit):
    """The default is the rest of the limit of descriptors, half of it at least."""
    monkeypatch.setattr(aserve.connections.limit, "descriptor_limit", lambda: descriptors)
    assert default_limit(threads, 256) == limit


@pytest.mark.parametrize(("soft", "limit"), [(1024, 1024), (resource.RLIM_INFINITY, None)])
def test_the_descriptor_limit_is_the_one_in_force(monkeypatch, soft, limit):
    monkeypatch.setattr(resource, "getrlimit", lambda which: {resource.RLIMIT_NOFILE: (soft, 1 << 20)}[which])
    assert descriptor_limit() == limit


def test_few_free_descriptors(monkeypatch):
    """There are few if none is left, or if the lowest free one is among the last."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    for limit, is_short in ((None, False), (lowest + SPARE_DESCRIPTORS + 1, False), (lowest + SPARE_DESCRIPTORS, True)):
        monkeypatch.setattr(aserve.connections.limit, "descriptor_limit", lambda limit=limit: limit)
        assert is_short_of_descriptors() is is_short

    def fail(*_):
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr(os, "open", fail)
    assert is_short_of_descriptors()


@pytest.mark.parametrize(
    ("descriptors", "chosen", "told"),
    [
        (1024, 0, ""),
        (256, 0, "at most 128 connections at once, since `ulimit -n` is 256"),
        (1024, 10, ""),
        (1024, 1024, "--max-connections 1024 needs more file descriptors than `ulimit -n` allows (1024)"),
        (None, 1_000_000, ""),
    ],
)
def test_a_limit_is_told(monkeypatch, caplog, descriptors, chosen, told):
    """A limit is told at the start, if surprisingly low, or higher than possible."""
    monkeypatch.setattr(aserve.connections.limit, "descriptor_limit", lambda: descriptors)
    limit = ConnectionLimit()
    limit.find_limit(chosen, threads=8)
    assert told in caplog.text and bool(told) == bool(caplog.text)
    assert limit.max_count == (chosen or default_limit(8, default_spool_files()))


@pytest.mark.parametrize("chosen", [0, 300])
def test_a_limit_of_descriptors_that_changes(monkeypatch, caplog, chosen):
    """The default follows `ulimit -n` down and up again, for the lane, too; a number of the settings stays."""
    descriptors, lane = [1024], CountedLane(count=0)
    monkeypatch.setattr(aserve.connections.limit, "descriptor_limit", lambda: descriptors[0])
    limit = ConnectionLimit()
    limit.find_limit(chosen, threads=8, spool_files=100)
    limit.include_lane(lane)
    for count in (256, 4096, 1024):
        descriptors[0] = count
        for _ in range(2):
            limit.on_second()
        assert limit.max_count == lane.max_count == (chosen or default_limit(8, 100))
    assert len(caplog.messages) == (0 if chosen else 3)
    alone = ConnectionLimit()
    alone.find_limit(chosen, threads=8, spool_files=100)
    descriptors[0] = 256
    alone.on_second()
    assert alone.max_count == (chosen or default_limit(8, 100))


def test_connections_and_files_are_told_together(monkeypatch, caplog):
    """Each may be had, but not both at once."""
    monkeypatch.setattr(aserve.connections.limit, "descriptor_limit", lambda: 1024)
    ConnectionLimit().find_limit(900, threads=8, spool_files=200)
    assert "900 connections (--max-connections) and 200 temporary files (--spool-files) need more" in caplog.text


# Counting


def test_the_lane_counts_too(limit):
    """Either side knows of the other."""
    early = Counted(limit)
    limit.add(early)
    lane = CountedLane(count=1)
    limit.include_lane(lane)
    assert (lane.max_count, lane.others_count, limit.count, limit.is_full()) == (3, 1, 2, False)
    late = Counted(limit)
    limit.add(late)
    assert (lane.others_count, limit.count, limit.is_full()) == (2, 3, True)
    limit.discard(early)
    assert (lane.others_count, limit.count) == (1, 2)
    limit.include_lane(None)
    assert (limit.count, limit.is_full()) == (1, False)


def test_what_is_pending_counts_once(limit):
    """A connection with a transport and an unfinished task counts once."""
    connections = [Counted(limit) for _ in range(3)]
    limit.pending.update(connections[:2])
    limit.add(connections[1])
    assert not limit.is_full()
    limit.pending.add(connections[2])
    assert limit.is_full()


# The stories in the log


def test_the_lane_is_full(limit, caplog):
    """One line at the begin, one when accepting has not been paused for a while."""
    lane = CountedLane(count=3)
    limit.include_lane(lane)
    limit.on_second()
    assert lines(caplog) == []
    for count in (1, 5, 6):
        lane.pause_counts = (count, 0)
        limit.on_second()
    (line,) = lines(caplog)
    assert "3 connections, the limit (--max-connections)" in line
    limit.on_second()
    (line,) = lines(caplog)
    assert "accepting goes on" in line
    limit.on_second()
    assert lines(caplog) == []


def test_the_lane_is_full_and_others_idle(limit, caplog):
    """Connections on the general path make room for those of the lane."""
    idle = Counted(limit, idle_seconds=2.0)
    limit.add(idle)
    lane = CountedLane(count=2)
    limit.include_lane(lane)
    lane.pause_counts = (1, 0)
    limit.on_second()
    assert idle.is_drained and lines(caplog) == []


def test_the_lane_has_no_descriptors(limit, caplog):
    """The same for descriptors, with advice."""
    lane = CountedLane(count=2)
    limit.include_lane(lane)
    lane.pause_counts = (0, 1)
    limit.on_second()
    lane.pause_counts = (0, 2)
    limit.on_second()
    (line,) = lines(caplog)
    assert (
        "Too many open files" in line
        and "ulimit -n" in line
        and "2 of 3 open" in line
        and f"/proc/{os.getpid()}/fd" in line
    )
    limit.on_second()
    (line,) = lines(caplog)
    assert "descriptors are free again" in line


def test_the_oldest_are_evicted_first(limit):
    """One in eight of the idle connections is evicted, and recently used ones are not at all."""
    connections = [Counted(limit, float(seconds)) for seconds in range(18)]
    limit.update(connections)
    limit.pause_at_limit(None)
    assert [connection.is_drained for connection in connections] == [False] * 16 + [True] * 2


# Other processes


def test_what_other_processes_see(limit):
    """Other processes see all open or coming connections, from the start to the end; then none."""
    words = memoryview(mmap.mmap(-1, 8)).cast("Q")
    limit.leave_board()
    assert limit.quota() > 1
    limit.join_board(LoadBoard(words, 0, 1), threads=2)
    connection = Counted(limit)
    limit.add_accepted(connection)
    assert Load.of(words[0]) == (1, 0, 1)
    limit.add(connection)
    limit.discard_pending(connection)
    adopted = Counted(limit)
    limit.add_pending(adopted)
    assert Load.of(words[0]) == (2, 0, 1)
    limit.discard(connection)
    limit.discard_pending(adopted)
    assert Load.of(words[0]) == (0, 0, 1)
    limit.leave_board()
    assert words[0] == NOBODY
