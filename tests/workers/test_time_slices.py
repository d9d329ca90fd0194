"""Time slices: a single slice at a time while threads compute, and nobody waits for ever."""

import asyncio
import random
import threading

import pytest

from aserve.workers import time_slices as slices_module
from aserve.workers.time_slices import SLICE_SECONDS, STALE_SECONDS, TimeSlices

PATIENCE_SECONDS = 30


class FakeLoop:
    """Runs callbacks of call_soon at once; keeps timers until `fire`."""

    def __init__(self):
        self.timers = []

    def call_soon_threadsafe(self, callback):
        callback()

    def call_later(self, seconds, callback):
        assert seconds == SLICE_SECONDS
        self.timers.append(callback)

    def fire(self):
        due, self.timers = self.timers, []
        for callback in due:
            callback()


class Harness:
    """TimeSlices whose time is set by the test, and their threads."""

    def __init__(self, monkeypatch, max_running, burns_cpu):
        self.now, self.burns_cpu, self.threads = 0.0, burns_cpu, []
        monkeypatch.setattr(slices_module.time, "monotonic", lambda: self.now)
        self.loop = FakeLoop()
        self.slices = TimeSlices(self.loop, max_running)
        self.slices._cpu.measure = lambda: self.burns_cpu

    def take(self, number, is_queue=False):
        """Let a thread of this number take a turn; return the event of the turn's beginning, once the thread has the turn or waits."""
        begun = threading.Event()

        def run():
            self.slices.wait_for_slice(number, is_queue)
            begun.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)
        while not (begun.is_set() or self._waits(number)):
            thread.join(0.001)
        return begun

    def _waits(self, number):
        """Tell whether this thread waits by now, and the thread's watcher was called."""
        with self.slices._lock:
            return number in self.slices.waiting

    @property
    def running(self):
        return sorted(self.slices.running)

    @property
    def waiting(self):
        return self.slices.waiting


@pytest.fixture
def new(monkeypatch):
    """Make a harness; in the end nobody may wait."""
    made = []

    def make(max_running=2, burns_cpu=True):
        made.append(Harness(monkeypatch, max_running, burns_cpu))
        return made[-1]

    yield make
    for harness in made:
        harness.slices.stop()
        for thread in harness.threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


def test_one_at_a_time(new):
    """While the process computes, a single thread goes on, and after the thread's time the next, in order."""
    harness = new()
    assert harness.take(1).is_set()
    second, third = harness.take(2), harness.take(3)
    assert harness.take(1).is_set()  # the time of the slice is not over
    harness.now += SLICE_SECONDS
    again = harness.take(1)
    assert second.wait(PATIENCE_SECONDS) and not third.is_set() and not again.is_set()
    assert (harness.running, harness.waiting) == ([2], [3, 1])
    harness.slices.end_slice(2)
    assert third.wait(PATIENCE_SECONDS)
    assert (harness.running, harness.waiting) == ([3], [1])


def test_as_many_as_workers_while_they_block(new):
    """Where nobody computes, as many go on at once as may."""
    harness = new(burns_cpu=False)
    assert harness.take(1).is_set() and harness.take(2).is_set()
    third = harness.take(3)
    assert harness.running == [1, 2] and not third.is_set()
    harness.slices.end_slice(1)
    assert third.wait(PATIENCE_SECONDS) and harness.running == [2, 3]


def test_a_turn_that_nobody_else_wants(new):
    """The thread goes on beyond the slice's time."""
    harness = new()
    assert harness.take(1).is_set()
    harness.now += 10 * SLICE_SECONDS
    assert harness.take(1).is_set() and harness.loop.timers == []


def test_requests_go_first(new):
    """While requests wait for a worker nobody goes on, until then."""
    harness = new(burns_cpu=False)
    assert harness.take(1).is_set()
    first, second = harness.take(1, is_queue=True), harness.take(2, is_queue=True)
    assert harness.slices.is_paused and (harness.running, harness.waiting) == ([], [1, 2])
    harness.slices.end_slice(3)  # nobody
    assert harness.running == []
    harness.slices.resume()
    assert first.wait(PATIENCE_SECONDS) and second.wait(PATIENCE_SECONDS)
    assert not harness.slices.is_paused


@pytest.mark.parametrize("is_queue", [False, True])
def test_a_standstill_begins_another_slice(new, is_queue):
    """When no slice begins between two looks, the next slice does: running threads may wait for this very thread."""
    harness = new()
    assert harness.take(1).is_set()
    second = harness.take(2, is_queue)
    harness.loop.fire()  # a slice has begun since the last look, as there was no look
    assert harness.running == [1]
    harness.loop.fire()
    assert second.wait(PATIENCE_SECONDS) and harness.running == [1, 2]
    assert harness.loop.timers == []  # and nobody waits


@pytest.mark.parametrize("burns_cpu", [True, False])
def test_too_many_compute(new, burns_cpu):
    """Blocking threads let ever more go on; computing threads are never more than workers."""
    harness = new(max_running=1, burns_cpu=burns_cpu)
    assert harness.take(1).is_set()
    second = harness.take(2)
    for _ in range(5):
        harness.loop.fire()
    if burns_cpu:
        assert harness.running == [1] and len(harness.loop.timers) == 1  # the looks go on
    else:
        assert second.wait(PATIENCE_SECONDS) and harness.running == [1, 2]


def test_a_stale_slice(new):
    """A thread with a very long slice waits inside the app: the thread keeps no slice from other threads any more."""
    harness = new(max_running=1)
    assert harness.take(1).is_set()
    second, third = harness.take(2), harness.take(3)
    harness.now += STALE_SECONDS + SLICE_SECONDS
    harness.loop.fire()
    assert harness.running == [1]
    harness.now += 0.001
    harness.loop.fire()
    assert second.wait(PATIENCE_SECONDS) and harness.running == [1, 2]
    harness.slices.end_slice(2)
    assert third.wait(PATIENCE_SECONDS) and harness.running == [1, 3]


def test_a_loop_that_is_closed(new):
    """Threads left behind by the end of the server go on."""
    harness = new()
    assert harness.take(1).is_set()

    def refuse(_):
        raise RuntimeError("Event loop is closed")

    harness.loop.call_soon_threadsafe = refuse
    assert harness.take(2).wait(PATIENCE_SECONDS)


def test_one_timer_serves_all_waits(new):
    harness = new()
    for number in range(4):
        harness.take(number)
    assert len(harness.loop.timers) == 1


def test_the_end_lets_all_go_on(new):
    harness = new()
    begun = [harness.take(number) for number in range(5)]
    harness.slices.stop()
    assert all(each.wait(PATIENCE_SECONDS) for each in begun)
    assert harness.take(6, is_queue=True).is_set()


@pytest.mark.parametrize("seed", range(3))
async def test_everybody_gets_through(seed):
    """Many threads, random waits, a real loop: all of them finish."""
    choose = random.Random(seed)
    plans = [[choose.choice(("take", "take", "queue", "leave")) for _ in range(30)] for _ in range(12)]

    def run(slices, number, plan):
        for step in plan:
            if step == "leave":
                slices.end_slice(number)
            else:
                slices.wait_for_slice(number, step == "queue")
                if step == "queue" and number % 2:
                    slices.resume()
        slices.end_slice(number)

    slices = TimeSlices(asyncio.get_running_loop(), 2)
    threads = [threading.Thread(target=run, args=(slices, *each), daemon=True) for each in enumerate(plans)]
    for thread in threads:
        thread.start()
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while any(thread.is_alive() for thread in threads):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.001)
    assert (slices.running, slices.waiting) == ([], [])
