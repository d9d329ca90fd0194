"""The hand-off between the event loop and its workers: no job is lost, none is run twice.

A real event loop and real threads, driven by events. `reply(executor, ...)` is how a job
answers: it posts, and the loop sets a future; nothing here waits for a time to pass.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import errno
import logging
import random
import socket
import threading
import time

import pytest

from aserve.errors import WrittenOff
from aserve.workers import executor as executor_module
from aserve.workers import time_slices as slices_module
from aserve.workers.executor import Executor

PATIENCE_SECONDS = 10


class Bench:
    """An executor on a running loop, and jobs that can be held."""

    def __init__(self, loop, max_threads, extra_threads):
        self.loop = loop
        self.executor = Executor(loop, max_threads, extra_threads)
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
        while self.executor.workers.idle != count:
            assert self.loop.time() < deadline, "the workers do not go to sleep"
            await asyncio.sleep(0)

    async def start_workers(self, count):
        """Start so many workers; they sleep in the order of their numbers."""
        threads = self.executor._threads
        max_threads, threads.max_threads = threads.max_threads, count  # a slow machine would start more
        held = [self.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        threads.max_threads = max_threads
        assert sorted(names) == [f"aserve-worker-{number + 1}" for number in range(count)]
        for sleepers, name in enumerate(sorted(names), 1):
            held[names.index(name)][0].set()
            await self.wait_for_sleepers(sleepers)


def _resolve(future, value):
    if not future.done():
        future.set_result(value)


async def wait(future):
    return await asyncio.wait_for(future, PATIENCE_SECONDS)


async def run(test, max_threads=8, extra_threads=0):
    """Run `await test(bench)`; then every worker must end. Return what has reached the loop's exception handler."""
    loop = asyncio.get_running_loop()
    faults = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    bench = Bench(loop, max_threads, extra_threads)
    try:
        await test(bench)
    finally:
        for gate in bench.gates:
            gate.set()
        bench.executor.stop()
        await asyncio.sleep(0)
    assert bench.executor.join(PATIENCE_SECONDS) == []
    return faults


def worker_names():
    names = (thread.name for thread in threading.enumerate())
    return {name for name in names if name.startswith("aserve-worker-")}


# There and back


async def test_a_job_runs_in_a_worker_and_answers_on_the_loop():
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

    assert await run(test) == []


async def test_threads_start_when_they_are_needed():
    """No job, no thread; and never more threads than were asked for."""

    async def test(bench):
        before = worker_names()
        await asyncio.sleep(0)
        assert worker_names() == before == set()
        await wait(bench.submit())
        assert len(worker_names()) == 1

    await run(test)


async def test_jobs_run_in_order():
    """One worker takes jobs, and the loop their answers, in the order they came."""

    async def test(bench):
        answers = [bench.submit(number) for number in range(50)]
        order = []
        for answer in answers:
            answer.add_done_callback(lambda done: order.append(done.result()[0]))
        await wait(asyncio.gather(*answers))
        await asyncio.sleep(0)
        assert order == list(range(50))

    await run(test, max_threads=1)


async def test_posts_keep_their_order():
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

    await run(test)


async def test_one_wake_up_for_all_jobs_of_an_iteration():
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

    await run(test)


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


async def test_is_quiet():
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

    await run(test)


# Which worker, and when another one


async def test_the_hottest_worker_is_taken():
    """Last in, first out: the worker that slept last is woken first."""

    async def test(bench):
        await bench.start_workers(3)
        for _ in range(5):
            _, name = await wait(bench.submit())
            assert name == "aserve-worker-3"
            await bench.wait_for_sleepers(3)

    await run(test)


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_a_blocked_job_holds_up_nobody(count):
    """Behind an app that blocks, more workers come, one after another, up to the maximum."""

    async def test(bench):
        held = [bench.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        assert len(set(names)) == count

    await run(test, max_threads=8)


async def test_a_job_in_a_later_iteration_is_not_held_up_either():
    """A job that comes while another blocks gets a worker of its own."""

    async def test(bench):
        _, started = bench.submit_held()
        assert await wait(started) == "aserve-worker-1"
        assert (await wait(bench.submit(7)))[0] == 7

    await run(test)


async def test_the_maximum_is_kept():
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

    await run(test, max_threads=2)


async def test_a_worker_on_its_way_does_not_strand_the_second_job():
    """Jobs that come while a worker is on its way: if the first one blocks, the next gets another worker."""

    async def test(bench):
        executor = bench.executor
        writing, go_on = bench.loop.create_future(), threading.Event()

        def job(_):  # as a worker that writes its last response
            executor.waking.append(None)
            executor.post(_resolve, writing, None)
            go_on.wait(PATIENCE_SECONDS)
            executor.waking.pop()

        executor.submit(job, None)
        await wait(writing)
        _, started = bench.submit_held()
        second = bench.submit(2)
        bench.loop.call_soon(go_on.set)  # behind the executor's own callback
        await wait(started)
        assert (await wait(second))[0] == 2

    await run(test)


async def test_a_job_that_computes_holds_up_others_only_so_long():
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

    await run(test)


async def test_without_a_gil_workers_wake_one_another(monkeypatch):
    """Where threads run at once, a queue of several jobs wakes workers without a look."""
    monkeypatch.setattr(executor_module, "HAS_GIL", False)

    async def test(bench):
        await bench.start_workers(3)
        held = [bench.submit_held() for _ in range(3)]
        assert len({await wait(started) for _, started in held}) == 3

    await run(test)


# Workers that yield their slots


class Aside:
    """A job at a response that outruns its reader: it gives way, tells where it is, and waits for its gate."""

    def __init__(self, bench):
        self._bench, self._gate = bench, threading.Event()
        bench.gates.append(self._gate)
        self.is_aside, self.is_done = bench.loop.create_future(), bench.loop.create_future()
        bench.executor.submit(self._run, None)

    def _run(self, _):
        executor = self._bench.executor
        executor.yield_slot()
        executor.post(_resolve, self.is_aside, threading.get_ident())
        self._gate.wait(PATIENCE_SECONDS)
        executor.yield_slot()
        executor.post(_resolve, self.is_done, threading.get_ident())

    async def go_on(self):
        self._gate.set()
        return await wait(self.is_done)


async def test_who_steps_aside_makes_room():
    """Others work in the places of those that yield, one thread more for each; in the end there are as many as before."""

    async def test(bench):
        executor = bench.executor
        asides = [Aside(bench) for _ in range(3)]
        for each in asides:
            await wait(each.is_aside)
        assert executor.workers.compensated == 3 and not executor.is_idle
        held = [bench.submit_held() for _ in range(2)]
        names = {await wait(started) for _, started in held}
        assert len(names) == 2 and len(worker_names()) == 5
        for gate, _ in held:
            gate.set()
        assert len({await each.go_on() for each in asides}) == 3
        await until(lambda: executor.is_idle)
        assert executor.workers.at_work <= 2 and executor.workers.compensated == 0 and executor._slices._running == {}
        assert (await wait(bench.submit(1)))[0] == 1

    assert await run(test, max_threads=2, extra_threads=3) == []


async def test_no_more_may_yield():
    """Beyond --extra-threads a worker keeps its place, and what waits for one waits."""

    async def test(bench):
        first, second = Aside(bench), Aside(bench)
        await wait(first.is_aside)
        await wait(second.is_aside)
        waiting = bench.submit(1)
        assert bench.executor.workers.compensated == 1
        [at_work] = bench.executor._threads.at_work
        await second.go_on()
        await first.go_on()
        assert (await wait(waiting))[0] == 1
        assert at_work.is_alive()

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_nobody_to_take_the_place(monkeypatch, caplog):
    """Where no thread can be started, who would yield stays, and serves what comes behind it."""

    async def test(bench):
        await bench.start_workers(1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            aside = Aside(bench)
            worker = await wait(aside.is_aside)
        waiting = bench.submit(1)
        assert bench.executor.workers[:3:2] == (1, 0)  # at work, compensated
        assert await aside.go_on() == worker
        assert await wait(waiting) == (1, "aserve-worker-1")

    def refuse(_):
        raise RuntimeError("can't start new thread")

    assert await run(test, max_threads=2, extra_threads=2) == []
    assert "can't start new thread; going on with 1" in caplog.text


async def test_requests_go_before_those_aside(monkeypatch):
    """Who has yielded goes on when the queue is empty."""
    monkeypatch.setattr(slices_module, "SLICE_SECONDS", PATIENCE_SECONDS)  # before that, only for this reason

    async def test(bench):
        aside = Aside(bench)
        await wait(aside.is_aside)
        gate, started = bench.submit_held()
        await wait(started)
        done = []
        waiting = [bench.submit(number) for number in range(3)]
        for each in [*waiting, aside.is_done]:
            each.add_done_callback(lambda each: done.append(each))
        aside._gate.set()
        await until(lambda: bench.executor._slices.is_paused)
        assert done == []
        gate.set()
        await wait(asyncio.gather(*waiting, aside.is_done))
        assert done[-1] is aside.is_done

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_stop_ends_the_waits(monkeypatch):
    """Who waits for a slice goes on when the executor stops."""
    monkeypatch.setattr(slices_module, "SLICE_SECONDS", PATIENCE_SECONDS)

    async def test(bench):
        aside = Aside(bench)
        await wait(aside.is_aside)
        gate, started = bench.submit_held()
        await wait(started)
        waiting = bench.submit(1)
        aside._gate.set()
        await until(lambda: bench.executor._slices.is_paused)
        bench.executor.stop()
        await wait(aside.is_done)
        gate.set()
        await wait(waiting)

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_written_off_aside():
    """A worker that hangs after it has yielded is counted on no longer; nobody is started for it, and its turn is over."""

    async def test(bench):
        executor = bench.executor
        aside = Aside(bench)
        worker = await wait(aside.is_aside)
        assert await wait(bench.submit(1)) == (1, "aserve-worker-2")
        executor.write_off(worker)
        assert executor.stuck == ["aserve-worker-1"] and executor.workers.compensated == 0
        assert executor._slices._running == {}
        await until(lambda: executor.is_idle)
        assert executor.workers.at_work == 1

    assert await run(test, max_threads=1, extra_threads=1) == []


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


@pytest.mark.parametrize("has_loop_woken", [False, True])
async def test_a_job_that_comes_in_the_gap(has_loop_woken):
    """A job that comes while a worker lies down is run, whether or not the loop has woken it already."""

    async def test(bench):
        executor, ran, in_gap = bench.executor, threading.Event(), threading.Event()

        def submit():  # on the loop, while the worker is in the gap
            executor.submit(lambda _: ran.set(), None)
            if has_loop_woken:
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
        assert executor.waking == [] and worker_names() == {"aserve-worker-1"}

    await run(test, max_threads=1)


async def test_waiting_count():
    """Jobs that no worker has begun are counted."""

    async def test(bench):
        gate, started = bench.submit_held()
        bench.submit()
        assert bench.executor.waiting_count == 2
        await wait(started)
        assert bench.executor.waiting_count == 1
        gate.set()

    await run(test, max_threads=1)


@pytest.mark.parametrize("how", ["refused", "missing"])
async def test_without_a_scheduler_to_ask(how, monkeypatch):
    """Where the kernel does not take the hint, workers work all the same."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    if how == "refused":
        monkeypatch.setattr(executor_module.os, "sched_setscheduler", refuse, raising=False)
    else:
        monkeypatch.delattr(executor_module.os, "SCHED_BATCH", raising=False)

    async def test(bench):
        await wait(bench.submit())

    assert await run(test) == []


# What goes wrong


@pytest.mark.provokes("please report this as a bug")
async def test_a_job_that_raises_costs_itself_alone(caplog):
    """A job must not raise; if one does, it is logged as our bug and the worker goes on."""

    async def test(bench):
        def job(_):
            raise SystemExit("no")

        bench.executor.submit(job, None)
        assert (await wait(bench.submit(1)))[0] == 1

    await run(test)
    assert "please report this as a bug" in caplog.text and "SystemExit" in caplog.text


@pytest.mark.provokes("please report this as a bug")
async def test_an_answer_that_raises_costs_itself_alone(caplog):
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

    assert await run(test) == []
    assert "please report this as a bug" in caplog.text and "ValueError: no" in caplog.text


async def test_no_more_threads_to_be_had(caplog, monkeypatch):
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

    await run(test)
    assert "can't start new thread; going on with 1" in caplog.text


async def test_no_thread_at_all(monkeypatch):
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

    (fault,) = await run(test)
    assert "can't start new thread" in str(fault["exception"])


async def test_no_thread_in_the_place_of_the_last(caplog, monkeypatch):
    """Whoever writes off the last worker is told that there is no other, and the event loop hears of it no more."""
    workers = []

    async def test(bench):
        executor, (job, gate, started) = bench.executor, bench.held()
        executor.submit(lambda _: (workers.append(threading.current_thread()), job(None)), None)
        await wait(started)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="no other worker is left"):
                executor.write_off(workers[0].ident)
        waiting = bench.submit(1)
        for _ in range(3):
            executor._on_stall_timer()
            await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()  # this one comes back after all
        assert await wait(waiting) == (1, "aserve-worker-1")

    def refuse(_):
        raise RuntimeError("can't start new thread")

    assert await run(test) == []
    assert caplog.text.count("cannot start worker 1: can't start new thread; going on with 0") == 1


# The end


async def test_stop_ends_sleeping_workers():
    """After stop, workers that sleep end; join has nobody to name."""

    async def test(bench):
        await bench.start_workers(3)
        bench.executor.stop()
        assert bench.executor.join(PATIENCE_SECONDS) == []

    await run(test)


async def test_stop_runs_what_is_queued():
    """What was submitted before stop is still run."""

    async def test(bench):
        gate, started = bench.submit_held()
        waiting = bench.submit(1)
        await wait(started)
        bench.executor.stop()
        gate.set()
        assert (await wait(waiting))[0] == 1

    await run(test, max_threads=1)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_job_submitted_just_before_stop_is_run(workers):
    """A job whose worker is not woken yet when stop is called is run all the same."""

    async def test(bench):
        if workers:
            await bench.start_workers(workers)
        waiting = bench.submit(1)
        bench.executor.stop()
        assert (await wait(waiting))[0] == 1

    await run(test)


async def test_stop_while_the_queue_is_watched():
    """Stop ends the looks at the queue."""

    async def test(bench):
        held = [bench.submit_held() for _ in range(3)]
        await wait(held[0][1])
        bench.executor.stop()
        for gate, _ in held:
            gate.set()
        for _, started in held:
            await wait(started)

    await run(test, max_threads=1)


async def test_join_names_those_who_hang():
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

    await run(test)


async def test_a_worker_that_is_written_off():
    """Another takes its place at once; it is waited for no longer, and ends when it comes back."""

    async def test(bench):
        executor, gate, started = bench.executor, threading.Event(), asyncio.get_running_loop().create_future()

        def job(_):
            executor.post(_resolve, started, threading.current_thread())
            gate.wait(PATIENCE_SECONDS)
            raise WrittenOff

        executor.submit(job, None)
        worker = await wait(started)
        assert executor.name_of(worker.ident) == "aserve-worker-1"
        executor.write_off(worker.ident)
        assert executor.stuck == ["aserve-worker-1"]
        assert executor.name_of(worker.ident) == "a worker"
        assert await wait(bench.submit(1)) == (1, "aserve-worker-2")
        await bench.wait_for_sleepers(1)
        assert executor.is_idle
        assert executor.join(0.0) == ["aserve-worker-2"]
        gate.set()
        worker.join(PATIENCE_SECONDS)
        assert executor.stuck == []
        executor.write_off(0)  # nobody: no harm
        assert await wait(bench.submit(2)) == (2, "aserve-worker-2")

    await run(test, max_threads=1)


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

    executor = asyncio.run(main())  # by hand: the worker must find the loop closed
    gate.set()
    assert executor.join(PATIENCE_SECONDS) == []
    assert caplog.records == []


# All of it at once


@pytest.mark.parametrize("seed", range(4))
async def test_no_job_is_lost_or_run_twice(seed):
    """Bursts of jobs, some of which block or compute, and workers that report themselves as waking."""
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
                bench.executor.waking.append(None)
                if seconds:
                    time.sleep(0)
                bench.executor.waking.pop()

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
        assert bench.executor.waking == [] and bench.executor.is_quiet

    assert await run(test, max_threads=choose.choice((1, 2, 8))) == []


# Workers who wait for requests by themselves


class FakeHandleSet:
    """A lane without sockets: requests come, time passes and batches are taken when the test says so."""

    def __init__(self, executor):
        self.executor = executor
        self.batches = collections.deque()  # of jobs, each a batch that one `wait` brings
        self.woken = threading.Semaphore(0)
        self.waits = []  # milliseconds, and who waited
        self.in_take = threading.Event()
        self.go_on = threading.Event()  # `take` waits for it
        self.go_on.set()
        self.error = None  # what `take` raises
        self.has_gil = threading.Event()  # `wait` returns only then, though something has come
        self.has_gil.set()
        self.is_waiting = False
        self.brought = None
        self.clock, self.timer = socket.socketpair()
        self.clock.setblocking(False)

    @property
    def stall_fd(self):
        return self.clock.fileno()

    def wait(self, milliseconds):
        self.waits.append((milliseconds, threading.current_thread().name))
        self.is_waiting = True
        self.woken.acquire(timeout=3 * PATIENCE_SECONDS if milliseconds else 0)
        self.is_waiting = False
        self.brought = self.batches.popleft() if self.batches else []
        assert self.has_gil.wait(PATIENCE_SECONDS)
        return len(self.brought)

    def take(self, count):
        assert count == len(self.brought)
        self.in_take.set()
        assert self.go_on.wait(PATIENCE_SECONDS)
        error, self.error = self.error, None
        if error is not None:
            raise error
        for job in self.brought:
            self.executor.submit_here(job, None)

    def wake(self):
        self.woken.release()

    # What the test does

    def bring(self, *jobs):
        """Requests come, all at once."""
        self.batches.append(jobs)
        self.woken.release()

    async def stall(self):
        """The time for a batch is over; return when the loop has seen it."""
        self.timer.send(b"8 octets")
        while True:
            await asyncio.sleep(0)
            try:
                self.clock.recv(8, socket.MSG_PEEK)
            except BlockingIOError:
                return

    def close(self):
        self.clock.close()
        self.timer.close()


async def run_with_leader(test, max_threads=8, extra_threads=0):
    """Run `await test(bench, handles)` with a worker that leads; then every worker must end."""

    async def test_with_handles(bench):
        handles = FakeHandleSet(bench.executor)
        bench.executor.attach(handles)
        await until(lambda: bench.executor.is_leader_waiting)
        try:
            await test(bench, handles)
        finally:
            handles.go_on.set()
            for gate in bench.gates:
                gate.set()
            bench.executor.stop()
            await asyncio.sleep(0)
            assert bench.executor.join(PATIENCE_SECONDS) == []
            handles.close()

    return await run(test_with_handles, max_threads, extra_threads)


async def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.0005)  # or the process would count as busy


def answering(bench):
    """Return a job, and a future of its thread's name."""
    done = bench.loop.create_future()
    return lambda _: bench.executor.post(_resolve, done, threading.current_thread().name), done


async def test_the_leader_runs_what_it_finds():
    """Requests are run by who waited for them, in their order, and the loop is not asked; then it waits again."""

    async def test(bench, handles):
        for _ in range(3):
            jobs, done = zip(*[answering(bench) for _ in range(5)])
            handles.bring(*jobs)
            assert set(await wait(asyncio.gather(*done))) == {"aserve-worker-1"}
            await until(lambda: bench.executor.is_leader_waiting)
        assert bench.executor.is_idle and worker_names() == {"aserve-worker-1"}
        assert bench.executor._stall_timer is None
        assert handles.waits == [(-1, "aserve-worker-1")] * 4

    assert await run_with_leader(test) == []


async def test_a_wake_without_a_reason():
    """A leader who is woken for nothing, or whose clients have only left, waits on."""

    async def test(bench, handles):
        handles.wake()
        handles.bring()
        await until(lambda: len(handles.waits) == 3)
        assert bench.executor.is_leader_waiting and not bench.executor._leadership

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_a_request_that_blocks_holds_up_nobody(count):
    """Behind a batch that takes too long, another worker takes over what is left of it, and the waiting."""

    async def test(bench, handles):
        held = [bench.held() for _ in range(count)]
        handles.bring(*[job for job, _, _ in held])
        await wait(held[0][2])
        await handles.stall()
        names = [await wait(started) for _, _, started in held]
        assert len(set(names)) == count
        job, done = answering(bench)
        if count < 8:
            await until(lambda: bench.executor.is_leader_waiting)
        handles.bring(job)
        if count == 8:
            held[3][1].set()
        await wait(done)

    assert await run_with_leader(test) == []


async def test_the_only_request_blocks():
    """A request that blocks alone: another worker comes to wait for more."""

    async def test(bench, handles):
        job, _, started = bench.held()
        handles.bring(job)
        assert await wait(started) == "aserve-worker-1"
        await handles.stall()
        await until(lambda: bench.executor.is_leader_waiting)
        job, done = answering(bench)
        handles.bring(job)
        assert await wait(done) != "aserve-worker-1"

    assert await run_with_leader(test) == []


async def test_after_an_app_was_seen_to_block():
    """From then on a leader wakes its successor before it begins, without waiting for the time to be over."""

    async def test(bench, handles):
        first, _, started = bench.held()
        handles.bring(first)
        await wait(started)
        await handles.stall()
        await until(lambda: bench.executor.is_leader_waiting)
        for _ in range(3):
            job, _, started = bench.held()
            handles.bring(job)
            await wait(started)
            await until(lambda: bench.executor.is_leader_waiting)
        for gate in bench.gates:
            gate.set()
        await until(lambda: bench.executor.is_idle)
        job, done = answering(bench)
        handles.bring(job)
        await wait(done)
        await until(lambda: bench.executor.is_leader_waiting)
        assert not bench.executor._app_blocks  # nobody was inside the app: it is learnt anew

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("where", ["wait", "take"])
async def test_the_time_is_over_before_the_batch_has_begun(where):
    """A leader who comes late to what it has found (no CPU, no GIL) is watched all the same when its app then blocks."""

    async def test(bench, handles):
        held, gate, started = bench.held()
        job, done = answering(bench)
        late = handles.has_gil if where == "wait" else handles.go_on
        late.clear()
        handles.bring(held, job)
        await until(lambda: not handles.batches if where == "wait" else handles.in_take.is_set())
        await handles.stall()
        for _ in range(10):
            await asyncio.sleep(0.001)  # looks of the executor's, at a batch that nobody has seen yet
        late.set()
        await wait(started)
        assert await asyncio.wait_for(done, PATIENCE_SECONDS / 2) != await started  # held jobs end by themselves

    assert await run_with_leader(test) == []


@pytest.mark.provokes("please report this as a bug")
async def test_a_timer_that_cannot_be_read(caplog, monkeypatch):
    """It is watched no longer: no busy loop, and one line."""

    def read(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    async def test(bench, handles):
        with monkeypatch.context() as patch:
            patch.setattr(executor_module.os, "read", read)
            handles.timer.send(b"8 octets")
            while not caplog.records:
                await asyncio.sleep(0)
        assert not bench.loop.remove_reader(handles.stall_fd) and bench.executor._stall_timer is None

    await run_with_leader(test)
    assert caplog.text.count("please report this as a bug in aserve") == 1


async def test_in_a_child_nothing_more_runs(monkeypatch):
    """A child that the app has forked leaves, should it come for its next job, and nobody in it waits for requests."""
    left = []
    monkeypatch.setattr(executor_module, "leave", lambda _: left.append(True))

    async def test(bench, handles):
        child = copy.copy(bench.executor)  # as fork() makes it
        child._jobs, child._leadership = child._jobs.copy(), child._leadership.copy()
        child._jobs.append((left.append, "another's"))
        child.on_forked()
        function, argument = child._jobs.popleft()
        function(argument)
        assert left == [True] and not child._jobs and not child._leadership

    await run_with_leader(test)


async def test_the_batch_is_done_after_all():
    """A timer that was reset before the loop could read it means nothing."""

    async def test(bench, handles):
        bench.executor._on_stall()
        assert bench.executor._stall_timer is None
        handles.close()
        handles.clock, handles.timer = socket.socketpair()  # for stop()

    await run_with_leader(test)


async def test_a_job_of_the_loop_wakes_the_leader():
    """With a single worker the leader gives up its token for a job of the loop's, and takes it again."""

    async def test(bench, handles):
        for number in range(3):
            assert await wait(bench.submit(number)) == (number, "aserve-worker-1")
            await until(lambda: bench.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_job_of_the_loop_prefers_another_worker():
    """While there are others, the leader goes on waiting."""

    async def test(bench, handles):
        assert await wait(bench.submit(1)) == (1, "aserve-worker-2")
        assert bench.executor.is_leader_waiting

    assert await run_with_leader(test) == []


class LeadershipToken(list):
    """Calls back when the leader has taken the token, and does not wait yet."""

    def __init__(self, act):
        self.act = act

    def pop(self):
        handles = super().pop()
        act, self.act = self.act, None
        if act is not None:
            act()
        return handles


async def test_a_job_that_comes_as_the_leader_sits_down():
    """A job submitted between the leader's look at the queue and its wait is not left behind."""

    async def test(bench, handles):
        done = bench.loop.create_future()
        woken = threading.Event()

        def submit():
            bench.executor.submit(lambda _: bench.executor.post(_resolve, done, None), None)
            bench.loop.call_soon(woken.set)  # behind the executor's own callback

        def act():
            bench.loop.call_soon_threadsafe(submit)
            woken.wait(PATIENCE_SECONDS)

        bench.executor._leadership = LeadershipToken(act)
        handles.bring(lambda _: None)  # the leader gets up, and sits down again
        await wait(done)

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_job_of_the_loop_leaves_the_token_watched():
    """Who gets up for a job of the loop's starts the timer: that job may block, and nobody would wait."""

    async def test(bench, handles):
        gate, started = bench.submit_held()
        await wait(started)
        assert handles.waits[-1] == (0, "aserve-worker-1")  # behind a wake of its own
        assert not handles.woken.acquire(blocking=False)

    assert await run_with_leader(test, max_threads=1) == []


async def test_all_workers_are_busy():
    """Then the loop looks who has come, so that pings are answered; the rest waits for a worker."""

    async def test(bench, handles):
        job, gate, started = bench.held()
        handles.bring(job)
        await wait(started)
        await handles.stall()
        await until(lambda: handles.waits[-1] == (0, threading.current_thread().name))
        job, done = answering(bench)
        handles.bring(job)
        await until(lambda: bench.executor.waiting_count == 1)
        assert not done.done()
        gate.set()
        assert await wait(done) == "aserve-worker-1"
        await until(lambda: bench.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1) == []


async def test_looks_are_rare():
    """A process whose workers all wait is nearly idle itself."""

    async def test(bench, handles):
        job, gate, started = bench.held()
        handles.bring(job)
        await wait(started)
        await handles.stall()
        before, start = len(handles.waits), time.monotonic()
        await until(lambda: len(handles.waits) >= before + 5)
        # The first may come at once. A busy machine makes it longer, never shorter.
        assert time.monotonic() - start >= 3 * executor_module.BUSY_STALL_SECONDS

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_batch_stalls_behind_a_poll():
    """A batch that stalls before the next look is due does not wait for that."""

    async def test(bench, handles):
        bench.executor._cpu.look = lambda: False
        held = [bench.held() for _ in range(2)]
        handles.bring(*[job for job, _, _ in held])
        for _, _, started in held:
            await wait(started)
            await handles.stall()
        await until(lambda: bench.executor._stall_timer.when() > bench.loop.time() + 0.01)
        before = len(handles.waits)
        await handles.stall()
        assert len(handles.waits) > before

    assert await run_with_leader(test, max_threads=2) == []


async def test_a_worker_lies_down_during_a_poll():
    """A worker that finds the token taken by the polling loop is woken to wait for requests."""

    async def test(bench, handles):
        job, gate, started = bench.held()
        handles.bring(job)
        await wait(started)

        def wait_for(milliseconds):
            handles.wait = original
            gate.set()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not bench.executor.workers.idle and time.monotonic() < deadline:
                time.sleep(0.0001)
            return original(milliseconds)

        original, handles.wait = handles.wait, wait_for
        bench.executor._poll_while_busy()
        await until(lambda: bench.executor.is_leader_waiting)
        bench.executor._stall_timer = None

    assert await run_with_leader(test, max_threads=1) == []


async def test_nobody_to_look_for():
    """A poll that finds the token taken sees nothing, and harms nothing."""

    async def test(bench, handles):
        bench.executor._poll_while_busy()
        assert bench.executor.is_leader_waiting and handles.waits == [(-1, "aserve-worker-1")]

    assert await run_with_leader(test) == []


async def test_a_leader_that_steps_aside():
    """Somebody else takes the token at once."""

    async def test(bench, handles):
        def job(_):
            bench.executor.yield_slot()
            bench.executor.post(_resolve, is_aside, None)
            gate.wait(PATIENCE_SECONDS)

        is_aside, gate = bench.loop.create_future(), threading.Event()
        bench.gates.append(gate)
        handles.bring(job)
        await wait(is_aside)
        await until(lambda: bench.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1, extra_threads=1) == []


@pytest.mark.parametrize("is_poll", [False, True])
@pytest.mark.provokes("please report this as a bug")
async def test_handles_that_fail(is_poll, caplog):
    """A fault while a batch is taken is logged as our bug; the next batch is taken."""

    async def test(bench, handles):
        if is_poll:
            held, gate, started = bench.held()
            handles.bring(held)
            await wait(started)
        handles.error = ValueError("no")
        handles.bring(lambda _: None)
        if is_poll:
            await handles.stall()
        await until(lambda: "ValueError: no" in caplog.text)
        job, done = answering(bench)
        handles.bring(job)
        if is_poll:
            gate.set()
        await wait(done)

    assert await run_with_leader(test, max_threads=1) == []
    assert "please report this as a bug" in caplog.text


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_stop_ends_the_leader(is_waiting):
    """Whether it waits or takes a batch: what it has found is still run, and nobody sits down again."""

    async def test(bench, handles):
        job, done = answering(bench)
        if not is_waiting:
            handles.go_on.clear()
            handles.bring(job)
            assert await bench.loop.run_in_executor(None, handles.in_take.wait, PATIENCE_SECONDS)
        bench.executor.stop()
        handles.go_on.set()
        if not is_waiting:
            await wait(done)
        assert bench.executor.join(PATIENCE_SECONDS) == []
        assert not bench.executor.is_leader_waiting and bench.executor._leadership == []

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("seed", range(3))
async def test_no_request_is_lost_or_run_twice(seed):
    """Batches and jobs of the loop at once, some of which block; a timer that goes off at any time."""
    choose = random.Random(seed)
    total = 600

    async def test(bench, handles):
        ran, everything = collections.Counter(), bench.loop.create_future()

        def new_job(number, seconds):
            def job(_):
                if seconds:
                    time.sleep(seconds)
                bench.executor.post(answer, number, None)

            return job

        def answer(number, _):
            ran[number] += 1
            if len(ran) == total:
                everything.set_result(None)

        number = 0
        while number < total:
            count = min(choose.choice((1, 1, 2, 5, 40)), total - number)
            jobs = [new_job(number + i, choose.choice((0, 0, 0, 0, 0.0002, 0.002))) for i in range(count)]
            number += count
            if choose.random() < 0.6:
                handles.bring(*jobs)
            else:
                for job in jobs:
                    bench.executor.submit(job, None)
            if choose.random() < 0.3:
                handles.timer.send(b"8 octets")
            await asyncio.sleep(choose.choice((0, 0, 0, 0.0005)))
        while not everything.done():
            handles.timer.send(b"8 octets")
            handles.wake()
            await asyncio.sleep(0.002)
        assert set(ran.values()) == {1}
        await until(lambda: bench.executor.is_idle and bench.executor.is_leader_waiting)
        assert bench.executor.waking == []

    assert await run_with_leader(test, max_threads=choose.choice((1, 2, 8))) == []


def test_the_log_is_ours():
    """What this module logs goes to the logger "aserve"."""
    assert executor_module.logger is logging.getLogger("aserve")
