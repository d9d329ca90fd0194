"""The hand-off between the event loop and its workers: no job is lost, none is run twice.

A real event loop and real threads, driven by events. `reply(executor, ...)` is how a job
answers: it posts, and the loop sets a future; nothing here waits for a time to pass.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import random
import threading
import time

import pytest

from aserve import executor as executor_module
from aserve.executor import Executor, InlineExecutor

PATIENCE_SECONDS = 10


class Bench:
    """An executor on a running loop, and jobs that can be held."""

    def __init__(self, loop, max_threads):
        self.loop = loop
        self.executor = Executor(loop, max_threads)
        self.gates = []

    def held(self):
        """Return a job that blocks until its gate opens, the gate, and a future of where it runs."""
        gate, started = threading.Event(), self.loop.create_future()
        self.gates.append(gate)

        def job(_):
            self.executor.post(_resolve, started, threading.current_thread().name)
            gate.wait(PATIENCE_SECONDS)

        return job, gate, started

    def submit(self, value=None):
        """Submit a job that answers at once; return a future of (value, its thread's name)."""
        done = self.loop.create_future()

        def job(given):
            self.executor.post(_resolve, done, (given, threading.current_thread().name))

        self.executor.submit(job, value)
        return done

    def submit_held(self):
        """Submit a held job; return its gate and a future of where it runs."""
        job, gate, started = self.held()
        self.executor.submit(job, None)
        return gate, started

    async def wait_for_sleepers(self, count):
        """Wait until so many workers have nothing to do."""
        deadline = self.loop.time() + PATIENCE_SECONDS
        while len(self.executor._idle) != count:
            assert self.loop.time() < deadline, "the workers do not go to sleep"
            await asyncio.sleep(0)

    async def start_workers(self, count):
        """Start so many workers; they sleep in the order of their numbers."""
        executor = self.executor
        max_threads, executor._max_threads = executor._max_threads, count  # a slow machine would start more
        held = [self.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        executor._max_threads = max_threads
        assert sorted(names) == [f"aserve-worker-{number + 1}" for number in range(count)]
        for sleepers, name in enumerate(sorted(names), 1):
            held[names.index(name)][0].set()
            await self.wait_for_sleepers(sleepers)


def _resolve(future, value):
    if not future.done():
        future.set_result(value)


async def wait(future):
    return await asyncio.wait_for(future, PATIENCE_SECONDS)


def run(test, max_threads=8):
    """Run `await test(bench)` on a new loop; then every worker must end."""

    async def main():
        loop = asyncio.get_running_loop()
        faults = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        bench = Bench(loop, max_threads)
        try:
            await test(bench)
        finally:
            for gate in bench.gates:
                gate.set()
            bench.executor.stop()
            await asyncio.sleep(0)
        assert bench.executor.join(PATIENCE_SECONDS) == []
        return faults

    return asyncio.run(main())


def worker_names():
    names = (thread.name for thread in threading.enumerate())
    return {name for name in names if name.startswith("aserve-worker-")}


# There and back


def test_a_job_runs_in_a_worker_and_answers_on_the_loop():
    """A job runs in a thread named aserve-worker-N; what it posts runs on the loop's own thread."""

    async def test(bench):
        loop_thread = threading.current_thread()
        where = bench.loop.create_future()

        def job(argument):
            assert threading.current_thread() is not loop_thread
            bench.executor.post(answer, argument, threading.current_thread().name)

        def answer(first, second):
            assert threading.current_thread() is loop_thread
            where.set_result((first, second))

        bench.executor.submit(job, 5)
        assert await wait(where) == (5, "aserve-worker-1")

    assert run(test) == []


def test_threads_start_when_they_are_needed():
    """No job, no thread; and never more threads than were asked for."""

    async def test(bench):
        before = worker_names()
        await asyncio.sleep(0)
        assert worker_names() == before == set()
        await wait(bench.submit())
        assert len(worker_names()) == 1

    run(test)


def test_jobs_run_in_order():
    """One worker takes jobs, and the loop their answers, in the order they came."""

    async def test(bench):
        answers = [bench.submit(number) for number in range(50)]
        order = []
        for answer in answers:
            answer.add_done_callback(lambda done: order.append(done.result()[0]))
        await wait(asyncio.gather(*answers))
        await asyncio.sleep(0)
        assert order == list(range(50))

    run(test, max_threads=1)


def test_posts_keep_their_order():
    """What one job posts arrives in the order of its posts, also across flushes."""

    async def test(bench):
        seen, done = [], bench.loop.create_future()

        def job(_):
            for number in range(1000):
                bench.executor.post(lambda first, second: seen.append(first), number, None)
            bench.executor.post(lambda first, second: done.set_result(None), None, None)

        bench.executor.submit(job, None)
        await wait(done)
        assert seen == list(range(1000))

    run(test)


def test_one_wake_up_for_all_jobs_of_an_iteration():
    """Jobs submitted in one iteration wake one worker, which runs them all while the loop does not look."""

    async def test(bench):
        threads, everything = [], threading.Event()

        def job(number):
            threads.append((number, threading.current_thread().name))
            if number == 49:
                everything.set()

        for number in range(50):
            bench.executor.submit(job, number)
        assert threads == []  # not before the end of the iteration
        # Behind the executor's own callback: from here on the loop can decide nothing more.
        blocked = bench.loop.create_future()
        bench.loop.call_soon(lambda: blocked.set_result(everything.wait(PATIENCE_SECONDS)))
        assert await blocked
        assert threads == [(number, "aserve-worker-1") for number in range(50)]

    run(test)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what an executor asks of it."""

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
    """A batch costs one callback to hand it over, and one to bring it home."""
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
        assert before <= 3  # the task's own, and one for the ten jobs
        loop.call_soon(everything.wait, PATIENCE_SECONDS)  # the loop is busy while they run
        while len(answers) < 10:
            await asyncio.sleep(0)
        assert loop.counts["threadsafe"] == 1 and answers == list(range(10))

    try:
        loop.run_until_complete(main())
        executor.stop()
        assert executor.join(PATIENCE_SECONDS) == []
    finally:
        loop.close()


def test_is_quiet():
    """Quiet means: nothing waits on the way there or back."""

    async def test(bench):
        executor = bench.executor
        assert executor.is_quiet and not executor.is_inline
        gate, started = bench.submit_held()
        assert not executor.is_quiet
        await wait(started)
        assert executor.is_quiet  # the job runs; nothing else is on its way
        executor.post(_resolve, bench.loop.create_future(), None)
        assert not executor.is_quiet
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert executor.is_quiet
        gate.set()

    run(test)


# Which worker, and when another one


def test_the_hottest_worker_is_taken():
    """Last in, first out: the worker that slept last is woken first."""

    async def test(bench):
        await bench.start_workers(3)
        for _ in range(5):
            _, name = await wait(bench.submit())
            assert name == "aserve-worker-3"
            await bench.wait_for_sleepers(3)

    run(test)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_blocked_job_holds_up_nobody(count):
    """Behind an app that blocks, more workers come, one after another, up to the maximum."""

    async def test(bench):
        held = [bench.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        assert len(set(names)) == count

    run(test, max_threads=8)


def test_a_job_in_a_later_iteration_is_not_held_up_either():
    """A job that comes while another blocks gets a worker of its own."""

    async def test(bench):
        _, started = bench.submit_held()
        assert await wait(started) == "aserve-worker-1"
        assert (await wait(bench.submit(7)))[0] == 7

    run(test)


def test_the_maximum_is_kept():
    """With every worker blocked, the next job waits for one of them."""

    async def test(bench):
        held = [bench.submit_held() for _ in range(2)]
        for _, started in held:
            await wait(started)
        waiting = bench.submit(1)
        for _ in range(20):
            await asyncio.sleep(0.001)  # the executor's own looks, which must find nobody
        assert not waiting.done() and len(worker_names()) == 2
        held[0][0].set()
        await wait(waiting)

    run(test, max_threads=2)


def test_a_worker_on_its_way_does_not_strand_the_second_job():
    """Jobs that come while a worker is on its way: if the first one blocks, the next gets another worker."""

    async def test(bench):
        executor = bench.executor
        writing, go_on = bench.loop.create_future(), threading.Event()

        def job(_):  # as a worker that writes its last response
            executor.coming.append(None)
            executor.post(_resolve, writing, None)
            go_on.wait(PATIENCE_SECONDS)
            executor.coming.pop()

        executor.submit(job, None)
        await wait(writing)
        _, started = bench.submit_held()
        second = bench.submit(2)
        bench.loop.call_soon(go_on.set)  # behind the executor's own callback
        await wait(started)
        assert (await wait(second))[0] == 2

    run(test)


def test_a_job_that_computes_holds_up_others_only_so_long():
    """Behind an app that burns CPU, too, another worker comes, if later."""

    async def test(bench):
        stop = threading.Event()
        spinning = bench.loop.create_future()

        def spin(_):
            deadline = time.monotonic() + PATIENCE_SECONDS
            bench.executor.post(_resolve, spinning, None)
            while not stop.is_set() and time.monotonic() < deadline:
                pass

        bench.executor.submit(spin, None)
        await wait(spinning)
        try:
            for number in range(3):  # the process must have been seen to compute
                await wait(bench.submit(number))
        finally:
            stop.set()

    run(test)


def test_without_a_gil_workers_wake_one_another(monkeypatch):
    """Where threads run at once, a queue of several jobs wakes workers without a look."""
    monkeypatch.setattr(executor_module, "_has_gil", False)

    async def test(bench):
        await bench.start_workers(3)
        held = [bench.submit_held() for _ in range(3)]
        assert len({await wait(started) for _, started in held}) == 3

    run(test)


# The gap between a worker's look at the queue and its sleep


class Gap(list):
    """The sleeping workers; calls back when one has lain down and not yet looked again."""

    def __init__(self, workers, act):
        super().__init__(workers)
        self.act = act

    def append(self, lock):
        super().append(lock)
        act, self.act = self.act, None
        if act is not None:
            act()


@pytest.mark.parametrize("is_kicked", [False, True])
def test_a_job_that_comes_in_the_gap(is_kicked):
    """A job that comes while a worker lies down is run, whether or not the loop has woken it already."""

    async def test(bench):
        executor, ran, in_gap = bench.executor, threading.Event(), threading.Event()

        def submit():  # on the loop, while the worker is in the gap
            executor.submit(lambda _: ran.set(), None)
            if is_kicked:
                bench.loop.call_soon(in_gap.set)  # behind the executor's own callback
            else:
                in_gap.set()
                ran.wait(PATIENCE_SECONDS)  # the loop cannot wake anybody

        def act():
            bench.loop.call_soon_threadsafe(submit)
            in_gap.wait(PATIENCE_SECONDS)

        executor._idle = Gap(executor._idle, act)
        await wait(bench.submit())
        while not ran.is_set():
            await asyncio.sleep(0)
        await bench.wait_for_sleepers(1)
        assert executor.coming == [] and worker_names() == {"aserve-worker-1"}

    run(test, max_threads=1)


def test_waiting_count():
    """Jobs that no worker has begun are counted."""

    async def test(bench):
        gate, started = bench.submit_held()
        bench.submit()
        assert bench.executor.waiting_count == 2
        await wait(started)
        assert bench.executor.waiting_count == 1
        gate.set()

    run(test, max_threads=1)


@pytest.mark.parametrize("how", ["refused", "missing"])
def test_without_a_scheduler_to_ask(how, monkeypatch):
    """Where the kernel does not take the hint, workers work all the same."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    if how == "refused":
        monkeypatch.setattr(executor_module.os, "sched_setscheduler", refuse, raising=False)
    else:
        monkeypatch.delattr(executor_module.os, "SCHED_BATCH", raising=False)

    async def test(bench):
        await wait(bench.submit())

    assert run(test) == []


# What goes wrong


def test_a_job_that_raises_costs_itself_alone(caplog):
    """A job must not raise; if one does, it is logged as our bug and the worker goes on."""

    async def test(bench):
        def job(_):
            raise SystemExit("no")

        bench.executor.submit(job, None)
        assert (await wait(bench.submit(1)))[0] == 1

    run(test)
    assert "please report this as a bug" in caplog.text and "SystemExit" in caplog.text


def test_an_answer_that_raises_costs_itself_alone(caplog):
    """An answer that fails on the loop does not keep back those behind it."""

    async def test(bench):
        done = bench.loop.create_future()

        def fail(first, second):
            raise ValueError("no")

        def job(_):
            bench.executor.post(fail, None, None)
            bench.executor.post(_resolve, done, 5)

        bench.executor.submit(job, None)
        assert await wait(done) == 5

    assert run(test) == []
    assert "please report this as a bug" in caplog.text and "ValueError: no" in caplog.text


def test_no_more_threads_to_be_had(caplog, monkeypatch):
    """Where the system gives no more threads, those that run go on with the work."""

    async def test(bench):
        gate, started = bench.submit_held()
        await wait(started)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            waiting = bench.submit(1)
            while "cannot start worker 2" not in caplog.text:
                await asyncio.sleep(0)
        gate.set()
        assert await wait(waiting) == (1, "aserve-worker-1")
        held = [bench.submit_held() for _ in range(2)]
        await wait(held[0][1])
        assert len(worker_names()) == 1  # it does not try again
        held[0][0].set()

    def refuse(_):
        raise RuntimeError("can't start new thread")

    run(test)
    assert "can't start new thread; going on with 1" in caplog.text


def test_no_thread_at_all(monkeypatch):
    """Without a single worker there is no service: that is not hidden."""

    def refuse(_):
        raise RuntimeError("can't start new thread")

    async def test(bench):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            waiting = bench.submit(1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not waiting.done()
        second = bench.submit(2)  # and the service recovers when there are threads again
        await wait(asyncio.gather(waiting, second))

    (fault,) = run(test)
    assert "can't start new thread" in str(fault["exception"])


# The end


def test_stop_ends_sleeping_workers():
    """After stop, workers that sleep end; join has nobody to name."""

    async def test(bench):
        await bench.start_workers(3)
        bench.executor.stop()
        assert bench.executor.join(PATIENCE_SECONDS) == []

    run(test)


def test_stop_runs_what_is_queued():
    """What was submitted before stop is still run."""

    async def test(bench):
        gate, started = bench.submit_held()
        waiting = bench.submit(1)
        await wait(started)
        bench.executor.stop()
        gate.set()
        assert (await wait(waiting))[0] == 1

    run(test, max_threads=1)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_submitted_just_before_stop_is_run(workers):
    """A job whose worker is not woken yet when stop is called is run all the same."""

    async def test(bench):
        if workers:
            await bench.start_workers(workers)
        waiting = bench.submit(1)
        bench.executor.stop()
        assert (await wait(waiting))[0] == 1

    run(test)


def test_stop_while_the_queue_is_watched():
    """Stop ends the looks at the queue."""

    async def test(bench):
        held = [bench.submit_held() for _ in range(3)]
        await wait(held[0][1])
        bench.executor.stop()
        for gate, _ in held:
            gate.set()
        for _, started in held:
            await wait(started)

    run(test, max_threads=1)


def test_join_names_those_who_hang():
    """Who is still inside the app when the time is over is named, and left behind."""

    async def test(bench):
        await bench.start_workers(2)
        gate, started = bench.submit_held()
        assert await wait(started) == "aserve-worker-2"
        bench.executor.stop()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while bench.executor.join(0.001) != ["aserve-worker-2"]:  # the other one is ending
            assert time.monotonic() < deadline
        gate.set()
        assert bench.executor.join(PATIENCE_SECONDS) == []

    run(test)


def test_a_worker_left_behind_finds_the_loop_closed(caplog):
    """An app that ends after the server: there is nobody to answer, and that is no bug."""
    gate, started = threading.Event(), threading.Event()

    async def main():
        executor = Executor(asyncio.get_running_loop(), 1)

        def job(_):
            started.set()
            gate.wait(PATIENCE_SECONDS)
            executor.post(_resolve, None, None)

        executor.submit(job, None)
        await asyncio.sleep(0)
        assert started.wait(PATIENCE_SECONDS)
        executor.stop()
        assert executor.join(0) == ["aserve-worker-1"]
        return executor

    executor = asyncio.run(main())
    gate.set()
    assert executor.join(PATIENCE_SECONDS) == []
    assert caplog.records == []


# All of it at once


@pytest.mark.parametrize("seed", range(4))
def test_no_job_is_lost_or_run_twice(seed):
    """Bursts of jobs, some of which block or compute, and workers that report themselves as coming."""
    choose = random.Random(seed)
    total = 1500

    async def test(bench):
        ran, answered = collections.Counter(), collections.Counter()
        everything = bench.loop.create_future()

        def job(item):
            number, seconds, writes = item
            ran[number] += 1
            if seconds:
                time.sleep(seconds)
            bench.executor.post(answer, number, None)
            if writes:  # as a worker that writes its response past the loop
                bench.executor.coming.append(None)
                if seconds:
                    time.sleep(0)
                bench.executor.coming.pop()

        def answer(number, _):
            answered[number] += 1
            if len(answered) == total:
                everything.set_result(None)

        number = 0
        while number < total:
            for _ in range(min(choose.choice((1, 1, 2, 5, 40)), total - number)):
                seconds = choose.choice((0, 0, 0, 0, 0, 0.0002, 0.002))
                bench.executor.submit(job, (number, seconds, choose.random() < 0.3))
                number += 1
            await asyncio.sleep(choose.choice((0, 0, 0, 0.0005)))
        await asyncio.wait_for(everything, 30)
        assert set(ran.values()) == set(answered.values()) == {1}
        assert len(ran) == len(answered) == total
        await bench.wait_for_sleepers(len(worker_names()))
        assert bench.executor.coming == [] and bench.executor.is_quiet

    assert run(test, max_threads=choose.choice((1, 2, 8))) == []


# --threads 0


def test_inline_jobs_run_at_once():
    """A job runs where it is submitted, before submit returns; its posts, too."""
    executor = InlineExecutor()
    seen = []

    def job(argument):
        executor.post(lambda first, second: seen.append((first, second)), argument, 2)
        seen.append("end")

    executor.submit(job, 1)
    assert seen == [(1, 2), "end"]
    assert executor.is_inline and not executor.is_quiet


def test_inline_jobs_wait_for_one_another():
    """A job submitted by a job runs after it: no recursion, however long the chain."""
    executor = InlineExecutor()
    seen = []

    def job(number):
        if number < 5000:
            executor.submit(job, number + 1)
        seen.append(number)

    executor.submit(job, 0)
    assert seen == list(range(5001))


def test_an_inline_job_that_raises():
    """A job must not raise; if one does, it is seen, and the next ones run."""
    executor = InlineExecutor()
    seen = []

    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        executor.submit(fail, None)
    executor.submit(seen.append, 1)
    assert seen == [1]


def test_an_inline_executor_has_nothing_to_stop():
    """Stop and join are there for who does not know which executor it is."""
    executor = InlineExecutor()
    executor.stop()
    assert executor.join(1.0) == []


def test_the_log_is_ours():
    """What this module logs goes to the logger "aserve"."""
    assert executor_module.logger is logging.getLogger("aserve")
