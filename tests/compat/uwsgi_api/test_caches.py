"""The cache shared by processes: its values, their times, and a writer's death."""

import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from harness import cutting, nesting
from harness.interpreter import first_on_pypy

from aserve.compat.uwsgi_api import caches

SMALL = "items=4,blocksize=16,keysize=8"


@pytest.fixture
def cache(open_memory):
    return open_memory(SMALL).caches["default"]


@pytest.fixture
def clock(monkeypatch):
    """The clock: clock.now, in seconds."""

    class Clock:
        now = 1000.0

        def monotonic_ns(self):
            return int(self.now * 10**9)

    clock = Clock()
    monkeypatch.setattr(caches, "time", clock)
    return clock


def test_a_set_value_is_kept_until_deleted(cache):
    assert cache.get(b"k") is None and not cache.has(b"k")
    assert cache.set(b"k", b"value") and cache.get(b"k") == b"value" and cache.has(b"k")
    assert cache.keys() == [b"k"]
    assert cache.delete(b"k") and not cache.delete(b"k") and cache.get(b"k") is None and cache.keys() == []


def test_there_already_means_no_change(cache):
    assert cache.set(b"k", b"1") and not cache.set(b"k", b"2") and cache.get(b"k") == b"1"
    assert cache.set(b"k", b"3", is_update=True) and cache.get(b"k") == b"3"
    assert cache.set(b"new", b"4", is_update=True) and cache.get(b"new") == b"4"


@pytest.mark.parametrize(("key", "value"), [(b"k" * 9, b""), (b"k", b"x" * 17), (b"", b"")])
def test_too_long_values_are_not_kept(cache, caplog, key, value):
    assert not cache.set(key, value) and not cache.set(key, value, is_update=True)
    (record,) = caplog.records
    assert "which takes 1 to 8 (keysize=) and 16 (blocksize=)" in record.getMessage()
    assert cache.set(b"k" * 8, b"x" * 16) and cache.get(b"k" * 8) == b"x" * 16


def test_a_value_expires_after_its_seconds(cache, clock):
    assert cache.set(b"k", b"1", 10) and cache.set(b"forever", b"")
    clock.now += 9.9
    assert cache.has(b"k") and sorted(cache.keys()) == [b"forever", b"k"]
    clock.now += 0.1
    assert cache.keys() == [b"forever"] and not cache.has(b"k") and cache.get(b"k") is None
    assert cache.set(b"k", b"2") and cache.get(b"k") == b"2"
    clock.now += 1e6
    assert cache.get(b"forever") == b""


@pytest.mark.parametrize("seconds", [1e10, 10**11, 10**30, float("inf"), float("nan"), -1, -(10**30)])
def test_any_time_to_live(cache, clock, caplog, seconds):
    """Too long is for ever, as is none; the table is whole in any case."""
    assert cache.set(b"k", b"1") and cache.set(b"k", b"2", seconds, is_update=True) and cache.set(b"l", b"3", seconds)
    assert cache.change(b"n", lambda n: n + 1, seconds)
    clock.now += 1e9
    assert cache.get(b"k") == b"2" and cache.get(b"l") == b"3" and cache.number(b"n") == 1
    assert not caplog.records


@pytest.mark.parametrize("seconds", ["10", None, 1j])
def test_no_time_to_live(cache, caplog, seconds):
    """A wrong number is refused before any change."""
    cache.set(b"k", b"1")
    for change in (lambda: cache.set(b"k", b"2", seconds, is_update=True), lambda: cache.change(b"n", int, seconds)):
        with pytest.raises(TypeError):
            change()
    assert cache.get(b"k") == b"1" and cache.keys() == [b"k"] and not caplog.records


@pytest.mark.parametrize("key", [b"k" * 9, b"k" * 70000, b""])
def test_numbers_too_long(cache, caplog, key):
    """A key of a number may not be longer than another's, and nothing is written behind an item."""
    fill(cache)
    assert not cache.change(key, lambda n: n + 1)
    (record,) = caplog.records
    assert "which takes 1 to 8 (keysize=)" in record.getMessage()
    assert sorted(cache.keys()) == [b"0", b"1", b"2", b"3"]


def test_no_room_for_numbers(open_memory):
    """A cache of less than eight octets has none."""
    cache = open_memory("items=2,blocksize=7,keysize=1").caches["default"]
    assert not cache.change(b"n", lambda n: n + 1) and cache.keys() == []


def fill(cache, count=4, seconds=0):
    for number in range(count):
        assert cache.set(b"%d" % number, b"v%d" % number, seconds)


def test_a_full_cache_takes_no_more(cache, caplog, clock):
    fill(cache)
    assert not cache.set(b"k", b"") and not cache.set(b"k", b"")
    (record,) = caplog.records
    assert (
        record.getMessage()
        == "uwsgi.cache_set: the cache 'default' is full, with 4 items; raise items=, or give purge_lru=1"
    )
    assert cache.set(b"3", b"new", is_update=True)
    cache.delete(b"1")
    assert cache.set(b"k", b"5") and sorted(cache.keys()) == [b"0", b"2", b"3", b"k"]


def test_what_has_expired_makes_room(cache, clock):
    """But a full cache is not looked through more often than once a second."""
    fill(cache, seconds=10)
    clock.now += 9.5
    assert not cache.set(b"k", b"")
    clock.now += 0.6
    assert not cache.set(b"k", b"")
    clock.now += 0.6
    assert cache.set(b"k", b"") and cache.keys() == [b"k"]


def test_what_was_not_used_for_long_makes_room(open_memory, clock, monkeypatch):
    """With purge_lru; to read is to use."""
    numbers = iter([1, 2, 3, 4] * caches.SAMPLES)
    monkeypatch.setattr(caches.random, "randint", lambda low, high: next(numbers))
    cache = open_memory(SMALL + ",purge_lru=1").caches["default"]
    fill(cache, 3)
    clock.now += 1
    fill_last = cache.set(b"3", b"")
    clock.now += 1
    assert fill_last and cache.get(b"0") == b"v0"
    clock.now += 1
    assert cache.set(b"k", b"") and cache.set(b"l", b"")
    assert sorted(cache.keys()) == [b"0", b"3", b"k", b"l"]


def test_a_clear_removes_all(cache):
    fill(cache)
    cache.delete(b"2")
    cache.clear()
    assert cache.keys() == [] and not cache.has(b"1")
    fill(cache)


def test_numbers_are_counted_as_in_c(cache, clock):
    assert cache.number(b"n") == 0
    assert cache.change(b"n", lambda n: n + 5, 10) and cache.number(b"n") == 5
    clock.now += 5
    assert cache.change(b"n", lambda n: n * -2, 10) and cache.number(b"n") == -10
    assert cache.get(b"n") == (-10).to_bytes(8, sys.byteorder, signed=True)
    clock.now += 5
    assert cache.number(b"n") == 0
    assert cache.change(b"n", lambda n: (1 << 63) - 1) and cache.change(b"n", lambda n: n + 1)
    assert cache.number(b"n") == -(1 << 63)
    cache.set(b"text", b"text")
    assert not cache.change(b"text", lambda n: n + 1) and cache.number(b"text") == 0 and cache.get(b"text") == b"text"


def test_as_a_dict(open_memory):
    """Whatever is done, the cache equals a dict: chains of many items, free ones used again."""
    cache = open_memory("items=50,blocksize=8,keysize=8").caches["default"]
    rng, expected = random.Random(7), {}
    for step in range(4000):
        key, what = b"%d" % rng.randrange(70), rng.randrange(5)
        if what == 0:
            assert cache.delete(key) == (expected.pop(key, None) is not None)
        elif what == 1:
            is_kept = key not in expected and len(expected) < 50
            assert cache.set(key, b"%d" % step) == is_kept
            if is_kept:
                expected[key] = b"%d" % step
        elif what == 2:
            is_kept = key in expected or len(expected) < 50
            assert cache.set(key, b"%d" % step, is_update=True) == is_kept
            if is_kept:
                expected[key] = b"%d" % step
        else:
            assert cache.get(key) == expected.get(key)
    assert sorted(cache.keys()) == sorted(expected)


@pytest.mark.parametrize("change", first_on_pypy(cutting.CHANGES))
def test_cut_off_anywhere(change):
    """A process dead amid a change leaves a whole cache: all further values, and the changed value as before, as after, or not at all."""
    done = subprocess.run(
        [sys.executable, "-I", cutting.__file__, change], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("outer", first_on_pypy(nesting.OUTER))
def test_used_in_the_midst_of_its_use(outer):
    """A finalizer or a handler of a signal comes at any line: the call reads present values, changes are done, and nothing waits."""
    done = subprocess.run(
        [sys.executable, nesting.__file__, outer], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(nesting.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_used_under_the_lock(cache, clock):
    """Reads see the present; changes are told in their later form, and done behind the lock, in order."""
    fill(cache, 2)
    cache.change(b"n", lambda n: n + 1)
    cache.set(b"old", b"", 1)
    clock.now += 2
    told = []

    def interrupted():
        told.extend([cache.get(b"0"), cache.has(b"1"), cache.has(b"none"), cache.get(b"old"), cache.number(b"n")])
        told.extend(
            [cache.set(b"0", b"x"), cache.set(b"0", b"y", is_update=True), cache.delete(b"1"), cache.delete(b"none")]
        )
        told.extend([cache.change(b"n", lambda n: n + 1), cache.change(b"0", lambda n: n + 1), sorted(cache.keys())])

    cache._locks.run(interrupted)
    assert told == [b"v0", True, False, None, 1, False, True, True, False, True, False, [b"0", b"1", b"n"]]
    assert cache.get(b"0") == b"y" and cache.number(b"n") == 2 and sorted(cache.keys()) == [b"0", b"n"]
    cache._locks.run(lambda: told.append(cache.clear()))
    assert told[-1] is True and cache.keys() == []


@pytest.mark.provokes("a process ended while it changed the cache")
def test_log_that_uses_the_cache(cache, caplog):
    """A handler of the app's logging may count in the cache the cache's own lines."""
    fill(cache, 2)
    cache._put(cache._head, 1)  # as left by a dead process

    class Counting(logging.Handler):
        def emit(self, record):
            cache.change(b"lines", lambda n: n + 1)

    handler = Counting()
    caches.logger.addHandler(handler)
    try:
        assert cache.get(b"0") == b"v0"
    finally:
        caches.logger.removeHandler(handler)
    assert cache.number(b"lines") == 1


@pytest.mark.provokes("a process ended while it changed the cache")
def test_killed_while_it_writes(open_memory, other, caplog):
    """The next process repairs it; nobody waits for the dead."""
    memory = open_memory(SMALL)
    cache = memory.caches["default"]
    fill(cache, 2)
    code = """
cache = memory.caches["default"]
cache._write = lambda *arguments: os.kill(os.getpid(), 9)
cache.set(b"new", b"", is_update=True)
"""
    assert other(memory, code, SMALL).process.wait(60) == -9
    assert cache.get(b"0") == b"v0" and cache.get(b"1") == b"v1" and cache.get(b"new") is None
    assert "a process ended while it changed the cache 'default', which has 2 items" in caplog.text
    assert cache.set(b"2", b"") and cache.set(b"3", b"") and not cache.set(b"4", b"")


def test_seen_by_others(open_memory, other):
    memory = open_memory(SMALL)
    memory.caches["default"].set(b"k", b"here")
    process = other(
        memory, "c = memory.caches['default']\nprint(c.get(b'k'))\nc.set(b'l', b'there', 100)\ntell('set')\n", SMALL
    )
    assert process.hear() == "b'here'" and process.hear() == "set"
    assert memory.caches["default"].get(b"l") == b"there"


def test_memory_is_taken_as_it_is_filled(open_memory):
    """A cache may be larger than the machine's memory."""
    memory = open_memory("items=1000000,blocksize=64k")
    cache = memory.caches["default"]
    assert cache.set(b"k", b"v") and cache.keys() == [b"k"] and cache.get(b"k") == b"v"
    status = os.fstat(memory.fd)
    assert status.st_size > 60 << 30 and status.st_blocks * 512 < 1 << 20
