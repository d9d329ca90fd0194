"""How long jobs have waited, and for how long none was begun: looks at a queue that moves, and at one that stands still."""

import collections

import pytest

from aserve.workers import queue_wait
from aserve.workers.queue_wait import QueueWait


class Timed(QueueWait):
    """A wait whose clock is set by each call, and `begin` is a worker."""

    def __init__(self, jobs):
        self.now, self.queue, self.count = 0.0, jobs, 0
        super().__init__(jobs, lambda: self.now, lambda: self.count)

    def begin(self):
        self.count += 1
        return self.queue.popleft()

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
        wait.begin()
    assert waits == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]  # 10 wait, and one goes in a second
    queue.clear()
    queue.append((print, "new"))
    assert [wait.seconds(now) for now in (20.0, 21.0)] == [0.0, 1.0]


def test_jobs_are_let_go():
    """A begun job is kept until the next look, and no longer."""
    queue, wait = new("a", "b")
    wait.on_second(1.0)
    queue.clear()
    wait.on_second(2.0)
    assert not wait._known and not wait.overdue


def test_seconds_without_progress():
    """They count while no job is begun, whatever comes behind the first, and begin anew when one is."""
    queue, wait = new("a", "b")
    stalled = []
    for now in range(3):
        wait.on_second(float(now))
        stalled.append(wait.stalled_seconds)
        queue.append((print, now))
    wait.begin()
    for now in range(3, 5):
        wait.on_second(float(now))
        stalled.append(wait.stalled_seconds)
    while queue:
        wait.begin()
    wait.on_second(5.0)
    assert stalled == [0, 1, 2, 0, 1] and wait.stalled_seconds == 0


@pytest.mark.parametrize("patience", [3, 8, 20, 1000])
@pytest.mark.parametrize("are_in_step", [True, False])
def test_a_stall_is_counted_whoever_leaves(patience, are_in_step):
    """Forty clients give up after these seconds, all at once or one after another, and come again; no worker begins a job."""
    queue, wait = new()
    came_at = {client: 0 if are_in_step else client % patience for client in range(40)}
    queue.extend((print, client) for client in range(40))
    for now in range(100):
        wait.on_second(float(now))
        assert wait.stalled_seconds == now and wait.seconds(float(now)) <= patience
        leaving = [job for job in queue if (now + 1 - came_at[job[1]]) % patience == 0]
        for job in leaving:  # and it comes again as another job
            queue.remove(job)
            queue.append((print, job[1]))
    wait.begin()
    wait.on_second(100.0)
    assert wait.stalled_seconds == 0


def test_a_stall_between_two_clients():
    """A stall goes on while nobody waits for some seconds, and is over if nobody comes again, or if a worker has begun the next."""
    queue, wait = new("a")
    stalled = []
    for now in range(40):
        if now in (3, 15):
            queue.clear()  # it gives up
        if now in (9, 30):
            queue.append((print, now))
        if now == 33:
            wait.begin()
        wait.on_second(float(now))
        stalled.append(wait.stalled_seconds)
    assert stalled == [*range(24), *[0] * 7, 1, 2, *[0] * 7]


def test_a_client_that_waits_longer_than_others():
    """Later ones leave, and its wait is still known."""
    queue, wait = new("first", *range(5))
    for now in range(10):
        wait.on_second(float(now))
        queue.pop()
        queue.append((print, "next"))
    assert wait.seconds(10.0) == 10.0


def test_overdue_jobs_came_a_look_ago():
    """Overdue jobs came a look ago or earlier; begun ones are none."""
    jobs = collections.deque("ab")
    wait = Timed(jobs)
    wait.on_second(1)
    assert wait.overdue == []
    jobs.append("c")
    wait.on_second(2)
    assert wait.overdue == ["a", "b"]
    wait.begin()
    wait.on_second(3)
    assert wait.overdue == ["b", "c"]
    jobs.clear()
    wait.on_second(4)
    assert wait.overdue == []


def test_the_first_overdue_jobs_are_enough(monkeypatch):
    monkeypatch.setattr(queue_wait, "MAX_OVERDUE", 2)
    wait = Timed(collections.deque("abc"))
    for now in range(2):
        wait.on_second(now)
    assert wait.overdue == ["a", "b"]
