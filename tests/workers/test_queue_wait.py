"""How long the first job has waited: what marks tell of a queue that moves, and of one that stands still."""

from __future__ import annotations

import collections

from aserve.workers import queue_wait
from aserve.workers.queue_wait import QueueWait


class Timed(QueueWait):
    """One whose clock is set by each call."""

    def __init__(self, jobs):
        self.now = 0.0
        super().__init__(jobs, lambda: self.now)

    def seconds(self, now):
        self.now = now
        return super().seconds()

    def on_second(self, now):
        self.now = now
        super().on_second()


def new(*jobs):
    queue = collections.deque((print, job) for job in jobs)
    return queue, Timed(queue)


def test_an_empty_queue():
    """Where nothing waits, nothing has waited."""
    queue, wait = new()
    assert [wait.seconds(now) for now in (5.0, 6.0)] == [0.0, 0.0]


def test_a_queue_that_stands_still():
    """The first job has waited since it was first seen, however many come behind it."""
    queue, wait = new("a")
    assert wait.seconds(5.0) == 0.0
    queue.append((print, "b"))
    assert [wait.seconds(now) for now in (6.0, 7.5)] == [1.0, 2.5]


def test_a_queue_that_moves():
    """Another job is the first each second, and each of them has waited long."""
    queue, wait = new(*range(10))
    waits = []
    for second in range(10, 20):
        wait.on_second(float(second))
        waits.append(wait.seconds(float(second)))
        assert wait.stalled_seconds == 0
        queue.append((print, second))
        queue.popleft()
    assert waits == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]  # 10 wait, and one goes in a second
    queue.clear()
    queue.append((print, "new"))
    assert [wait.seconds(now) for now in (20.0, 21.0)] == [0.0, 1.0]


def test_jobs_are_let_go():
    """A job that a worker has begun is kept until the next look, and no longer."""
    queue, wait = new("a", "b")
    wait.on_second(1.0)
    queue.clear()
    wait.on_second(2.0)
    assert not wait._marks and wait._first is None


def test_seconds_without_progress():
    """They count while the same job is the first, whatever comes behind it, and begin anew when a worker has begun it."""
    queue, wait = new("a", "b")
    stalled = []
    for now in range(3):
        wait.on_second(float(now))
        stalled.append(wait.stalled_seconds)
        queue.append((print, now))
    queue.popleft()
    for now in range(3, 5):
        wait.on_second(float(now))
        stalled.append(wait.stalled_seconds)
    queue.clear()
    wait.on_second(5.0)
    assert stalled == [0, 1, 2, 0, 1] and wait.stalled_seconds == 0


def test_looks_at_what_is_known():
    """However often somebody looks, a job is marked once."""
    queue, wait = new("a")
    for now in range(100):
        wait.seconds(float(now))
    assert len(wait._marks) == 1


def test_overdue():
    """Those that came a look ago or earlier; none, if they have been begun."""
    jobs = collections.deque("ab")
    wait = Timed(jobs)
    wait.on_second(1)
    assert wait.overdue == []
    jobs.append("c")
    wait.on_second(2)
    assert wait.overdue == ["a", "b"]
    jobs.popleft()
    wait.on_second(3)
    assert wait.overdue == ["b", "c"]
    jobs.clear()
    wait.on_second(4)
    assert wait.overdue == []


def test_most_overdue(monkeypatch):
    """The first of them are enough."""
    monkeypatch.setattr(queue_wait, "MAX_OVERDUE", 2)
    wait = Timed(collections.deque("abc"))
    for now in range(2):
        wait.on_second(now)
    assert wait.overdue == ["a", "b"]
