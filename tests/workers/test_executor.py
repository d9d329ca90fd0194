"""The hand-off between the event loop and its workers: no job is lost, none is run twice.

Nothing here waits for a time to pass; harness/executors.py has the executor. Beside this file: the worker of a job (test_executor_threads.py),
workers that wait for requests (_leader), faults (_faults), and the end (_stop).
"""

import asyncio
import collections
import contextvars
import logging
import os
import random
import threading
import time

import pytest
from harness.executors import resolve, run, until, wait
from harness.waiting import PATIENCE_SECONDS

from aserve.workers import executor as executor_module
from aserve.workers.executor import Executor


async def test_a_job_runs_in_a_worker_and_answers_on_the_loop():
    """A job runs in a thread named aserve-worker-N; posts run on the loop's own thread."""

    async def test(harness):
        loop_thread = threading.current_thread()
        where = harness.loop.create_future()

        def job(argument):
            assert threading.current_thread() is not loop_thread
            harness.executor.post(answer, argument, threading.current_thread().name)

        def answer(first, second):
            assert threading.current_thread() is loop_thread
            where.set_result((first, second))

        harness.executor.submit(job, 5)
        assert await wait(where) == (5, "aserve-worker-1")

    assert await run(test) == []


async def test_each_job_has_a_context():
    """The next job of the thread finds neither this context, nor the context of the server's own code."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("the server's")

    async def test(harness):
        found = []

        def job(argument):
            found.append((variable.get(), threading.get_ident()))
            variable.set(argument)

        for number in range(3):
            harness.executor.submit(job, number)
            await wait(harness.submit())
        assert [value for value, _ in found] == ["none"] * 3 and len({ident for _, ident in found}) == 1

    await run(test, max_threads=1)


async def test_a_job_taken_back():
    """No worker runs a job taken back; a begun job cannot be taken back."""

    async def test(harness):
        ran, (gate, started) = [], harness.submit_held()
        await wait(started)
        jobs = [(ran.append, number) for number in range(2)]
        for job in jobs:
            harness.executor.jobs.append(job)
        assert harness.executor.withdraw(jobs[0]) and not harness.executor.withdraw(jobs[0])
        gate.set()
        await wait(harness.submit())
        assert ran == [1] and not harness.executor.withdraw(jobs[1])
        assert harness.executor.queue_wait.overdue == []

    await run(test, max_threads=1)


async def test_a_job_put_back():
    """The job comes before later jobs, and a sleeping worker is woken."""

    async def test(harness):
        ran, (gate, started) = [], harness.submit_held()
        await wait(started)
        for number in range(3):
            harness.executor.submit(ran.append, number)
        first = harness.executor.jobs[0]
        assert harness.executor.withdraw(first)
        harness.executor.put_back(*first)
        gate.set()
        await wait(harness.submit())
        assert ran == [0, 1, 2]
        await harness.wait_for_idle(1)
        done = harness.loop.create_future()
        harness.executor.put_back(lambda _: harness.executor.post(resolve, done, 5), None)
        assert await wait(done) == 5

    await run(test, max_threads=1)


async def test_threads_start_when_they_are_needed():
    """No job, no thread; and never more threads than were asked for."""

    async def test(harness):
        await asyncio.sleep(0)
        assert harness.worker_names() == set()
        await wait(harness.submit())
        assert len(harness.worker_names()) == 1

    await run(test)


async def test_jobs_run_in_order():
    """One worker takes jobs, and the loop takes answers, in order of arrival."""

    async def test(harness):
        answers = [harness.submit(number) for number in range(50)]
        order = []
        for answer in answers:
            answer.add_done_callback(lambda done: order.append(done.result()[0]))
        await wait(asyncio.gather(*answers))
        await asyncio.sleep(0)
        assert order == list(range(50))

    await run(test, max_threads=1)


async def test_posts_keep_their_order():
    """The posts of one job arrive in order, also across flushes."""

    async def test(harness):
        seen, done = [], harness.loop.create_future()

        def job(_):
            for number in range(1000):
                harness.executor.post(lambda first, second: seen.append(first), number, None)
            harness.executor.post(lambda first, second: done.set_result(None), None, None)

        harness.executor.submit(job, None)
        await wait(done)
        assert seen == list(range(1000))

    await run(test)


async def test_one_wake_up_for_all_jobs_of_an_iteration():
    """Jobs submitted in one iteration wake one worker; the worker runs all while the loop does not look."""

    async def test(harness):
        threads, everything = [], threading.Event()

        def job(number):
            threads.append((number, threading.current_thread().name))
            if number == 49:
                everything.set()

        for number in range(50):
            harness.executor.submit(job, number)
        assert threads == []  # not before the end of the iteration
        # Behind the executor's own callback: from here on the loop can decide nothing more.
        blocked = harness.loop.create_future()
        harness.loop.call_soon(lambda: blocked.set_result(everything.wait(PATIENCE_SECONDS)))
        assert await blocked
        assert threads == [(number, "aserve-worker-1") for number in range(50)]

    await run(test)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts an executor's calls."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def call_soon(self, callback, *args, **kwargs):
        self.counts[callback] += 1
        return super().call_soon(callback, *args, **kwargs)

    def call_soon_threadsafe(self, callback, *args, **kwargs):
        self.counts["threadsafe"] += 1
        return super().call_soon_threadsafe(callback, *args, **kwargs)


def test_one_callback_each_way():
    """A batch costs one callback to hand over, and one to bring home."""
    loop = CountingLoop()
    executor = Executor(loop, 1)
    answers, everything = [], threading.Event()

    def job(number):
        executor.post(lambda first, second: answers.append(first), number, None)
        if number == 9:
            everything.set()

    async def main():
        for number in range(10):
            executor.submit(job, number)
        assert sum(1 for callback in loop.counts.values() if callback == 10) == 0
        before = loop.counts.total() if hasattr(loop.counts, "total") else sum(loop.counts.values())
        assert before <= 3  # one for the task, and one for the ten jobs
        loop.call_soon(everything.wait, PATIENCE_SECONDS)  # the loop is busy meanwhile
        while len(answers) < 10:
            await asyncio.sleep(0)
        assert loop.counts["threadsafe"] == 1 and answers == list(range(10))

    try:
        loop.run_until_complete(main())
        executor.stop()
        assert executor.threads.join(PATIENCE_SECONDS) == []
    finally:
        loop.close()


async def test_is_quiet_when_nothing_is_on_its_way():
    """Quiet means: nothing waits on the way there or back."""

    async def test(harness):
        executor = harness.executor
        assert executor.is_quiet and not executor.is_inline
        gate, started = harness.submit_held()
        assert not executor.is_quiet
        await wait(started)
        assert executor.is_quiet  # the job runs; nothing else is on the way
        executor.post(resolve, harness.loop.create_future(), None)
        assert not executor.is_quiet
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert executor.is_quiet
        gate.set()

    await run(test)


# The gap between a worker's look at the queue and sleep


class Gap(list):
    """The sleeping workers; calls back when one is listed and has not yet looked again."""

    def __init__(self, workers, act):
        super().__init__(workers)
        self.act = act

    def append(self, lock):
        super().append(lock)
        act, self.act = self.act, None
        if act is not None:
            act()


@pytest.mark.parametrize("has_loop_woken", [False, True])
async def test_a_job_that_comes_in_the_gap(has_loop_woken):
    """A job submitted while a worker goes to sleep is run, whether or not the loop has woken the worker already."""

    async def test(harness):
        executor, ran, in_gap = harness.executor, threading.Event(), threading.Event()

        def submit():  # on the loop, while the worker is in the gap
            executor.submit(lambda _: ran.set(), None)
            if has_loop_woken:
                harness.loop.call_soon(in_gap.set)  # behind the executor's own callback
            else:
                in_gap.set()
                ran.wait(PATIENCE_SECONDS)  # the loop cannot wake anybody

        def act():
            harness.loop.call_soon_threadsafe(submit)
            in_gap.wait(PATIENCE_SECONDS)

        executor._idle = Gap(executor._idle, act)
        await wait(harness.submit())
        while not ran.is_set():
            await asyncio.sleep(0)
        await harness.wait_for_idle(1)
        assert executor.waking == [] and harness.worker_names() == {"aserve-worker-1"}

    await run(test, max_threads=1)


async def test_waiting_jobs_are_counted():
    async def test(harness):
        gate, started = harness.submit_held()
        harness.submit()
        assert harness.executor.waiting_count == 2
        await wait(started)
        assert harness.executor.waiting_count == 1
        gate.set()

    await run(test, max_threads=1)


async def test_a_queue_that_stands_still():
    """The seconds count while the same job is the next to be begun, and otherwise not."""

    async def test(harness):
        executor, seen = harness.executor, []

        def look():
            executor.queue_wait.on_second()
            seen.append(executor.queue_wait.stalled_seconds)

        gates = [harness.submit_held(), harness.submit_held(), harness.submit_held()]
        await wait(gates[0][1])
        for _ in range(3):
            look()
        gates[0][0].set()
        await wait(gates[1][1])
        look()
        look()
        gates[1][0].set()
        await wait(gates[2][1])
        look()
        look()
        gates[2][0].set()
        assert seen == [0, 1, 2, 0, 1, 0, 0]

    await run(test, max_threads=1)


async def test_how_long_the_first_job_has_waited():
    """Nothing at first; more at each look, until a worker begins the job."""

    async def test(harness):
        gate, started = harness.submit_held()
        await wait(started)
        assert harness.executor.queue_wait.seconds() == 0.0
        done = harness.submit()
        harness.executor.queue_wait.on_second()
        await until(lambda: harness.executor.queue_wait.seconds() > 0.01)
        gate.set()
        await wait(done)
        assert harness.executor.queue_wait.seconds() == 0.0

    assert await run(test, max_threads=1) == []


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="a platform without sched(7)")
async def test_a_worker_is_scheduled_as_the_process():
    """A worker has the policy of the creating thread, and so the CPU beside a computing process."""

    async def test(harness):
        policy = harness.loop.create_future()

        def job(_):
            harness.executor.post(resolve, policy, os.sched_getscheduler(0))

        harness.executor.submit(job, None)
        # With the flags: the policy inherited by a child process is the same.
        assert await wait(policy) == os.sched_getscheduler(0)

    assert await run(test) == []


# Everything at once


@pytest.mark.parametrize("seed", range(4))
async def test_no_job_is_lost_or_run_twice(seed):
    """Bursts of jobs, some blocking or computing, and workers reporting as waking."""
    choose = random.Random(seed)
    total = 1500

    async def test(harness):
        ran, answered = collections.Counter(), collections.Counter()
        everything = harness.loop.create_future()

        def job(item):
            number, seconds, writes = item
            ran[number] += 1
            if seconds:
                time.sleep(seconds)
            harness.executor.post(answer, number, None)
            if writes:  # as a worker writing a response past the loop
                harness.executor.waking.append(None)
                if seconds:
                    time.sleep(0)
                harness.executor.waking.pop()

        def answer(number, _):
            answered[number] += 1
            if len(answered) == total:
                everything.set_result(None)

        number = 0
        while number < total:
            for _ in range(min(choose.choice((1, 1, 2, 5, 40)), total - number)):
                seconds = choose.choice((0, 0, 0, 0, 0, 0.0002, 0.002))
                harness.executor.submit(job, (number, seconds, choose.random() < 0.3))
                number += 1
            await asyncio.sleep(choose.choice((0, 0, 0, 0.0005)))
        await asyncio.wait_for(everything, 30)
        assert set(ran.values()) == set(answered.values()) == {1}
        assert len(ran) == len(answered) == total
        # All at once: a worker about to wake or start another does so also behind the last job.
        await until(lambda: harness.executor.is_idle and harness.executor.waking == [])

    assert await run(test, max_threads=choose.choice((1, 2, 8))) == []


# The log


def test_the_log_is_ours():
    """This module logs to the logger "aserve"."""
    assert executor_module.logger is logging.getLogger("aserve")
