"""The worker of a job, the coming of another, and the place of a yielding worker."""

import asyncio
import threading
import time

import pytest
from harness.executors import resolve, run, until, wait
from harness.waiting import PATIENCE_SECONDS

from aserve.workers import executor as executor_module
from aserve.workers import time_slices as slices_module

# The worker of a job, and the next worker


async def test_the_hottest_worker_is_taken():
    """Last in, first out: the last sleeper is woken first."""

    async def test(harness):
        await harness.start_workers(3)
        for _ in range(5):
            _, name = await wait(harness.submit())
            assert name == "aserve-worker-3"
            await harness.wait_for_idle(3)

    await run(test)


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_a_blocked_job_holds_up_nobody(count):
    """Behind a blocking app, more workers come, one after another, up to the maximum."""

    async def test(harness):
        held = [harness.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        assert len(set(names)) == count

    await run(test, max_threads=8)


async def test_a_job_in_a_later_iteration_is_not_held_up_either():
    """A job submitted while another blocks gets a separate worker."""

    async def test(harness):
        _, started = harness.submit_held()
        assert await wait(started) == "aserve-worker-1"
        assert (await wait(harness.submit(7)))[0] == 7

    await run(test)


async def test_the_maximum_is_kept():
    """With every worker blocked, the next job waits for the first free worker."""

    async def test(harness):
        held = [harness.submit_held() for _ in range(2)]
        for _, started in held:
            await wait(started)
        waiting = harness.submit(1)
        for _ in range(20):
            await asyncio.sleep(0.001)  # the executor's own looks, without a find
        assert not waiting.done() and len(harness.worker_names()) == 2
        held[0][0].set()
        await wait(waiting)

    await run(test, max_threads=2)


async def test_a_worker_on_its_way_does_not_strand_the_second_job():
    """Jobs submitted while a worker is on the way: if the first blocks, the next gets another worker."""

    async def test(harness):
        executor = harness.executor
        writing, go_on = harness.loop.create_future(), threading.Event()

        def job(_):  # as a worker writing the last response
            executor.waking.append(None)
            executor.post(resolve, writing, None)
            go_on.wait(PATIENCE_SECONDS)
            executor.waking.pop()

        executor.submit(job, None)
        await wait(writing)
        _, started = harness.submit_held()
        second = harness.submit(2)
        harness.loop.call_soon(go_on.set)  # behind the executor's own callback
        await wait(started)
        assert (await wait(second))[0] == 2

    await run(test)


async def test_a_job_that_computes_holds_up_others_only_so_long():
    """Behind an app burning CPU, too, another worker comes, if later."""

    async def test(harness):
        stop = threading.Event()
        spinning = harness.loop.create_future()

        def spin(_):
            deadline = time.monotonic() + PATIENCE_SECONDS
            harness.executor.post(resolve, spinning, None)
            while not stop.is_set() and time.monotonic() < deadline:
                pass

        harness.executor.submit(spin, None)
        await wait(spinning)
        try:
            for number in range(3):  # the process must have been seen to compute
                await wait(harness.submit(number))
        finally:
            stop.set()

    await run(test)


async def test_without_a_gil_workers_wake_one_another(monkeypatch):
    """Where threads run at once, a queue of several jobs wakes workers without a look."""
    monkeypatch.setattr(executor_module, "HAS_GIL", False)

    async def test(harness):
        await harness.start_workers(3)
        held = [harness.submit_held() for _ in range(3)]
        assert len({await wait(started) for _, started in held}) == 3

    await run(test)


# Workers yielding their slots


class SlowReader:
    """A job at a response faster than the reader: yields the slot, tells the place, and waits for the gate."""

    def __init__(self, harness):
        self._bench, self._gate = harness, threading.Event()
        harness.gates.append(self._gate)
        self.has_yielded, self.is_done = harness.loop.create_future(), harness.loop.create_future()
        harness.executor.submit(self._run, None)

    def _run(self, _):
        executor = self._bench.executor
        executor.yield_slot()
        executor.post(resolve, self.has_yielded, threading.get_ident())
        self._gate.wait(PATIENCE_SECONDS)
        executor.yield_slot()
        executor.post(resolve, self.is_done, threading.get_ident())

    async def go_on(self):
        self._gate.set()
        return await wait(self.is_done)


async def test_workers_that_yield_are_compensated_for():
    """More workers work in the places of yielding ones, one thread more for each; in the end there are as many as before."""

    async def test(harness):
        executor = harness.executor
        yielded = [SlowReader(harness) for _ in range(3)]
        for each in yielded:
            await wait(each.has_yielded)
        assert executor.workers.compensated == 3 and not executor.is_idle
        held = [harness.submit_held() for _ in range(2)]
        names = {await wait(started) for _, started in held}
        assert len(names) == 2 and len(harness.worker_names()) == 5
        for gate, _ in held:
            gate.set()
        assert len({await each.go_on() for each in yielded}) == 3
        await until(lambda: executor.is_idle)
        assert executor.workers.at_work <= 2 and executor.workers.compensated == 0 and executor._slices._running == {}
        assert (await wait(harness.submit(1)))[0] == 1

    assert await run(test, max_threads=2, extra_threads=3) == []


async def test_the_next_may_yield_before_the_first_goes_on():
    """A worker without a place does not keep the slot because the next worker has freed the place again already."""

    async def test(harness):
        executor, wake_one, loops = harness.executor, harness.executor._wake_one, threading.get_ident()
        next_is_out, first_is_out = threading.Event(), threading.Event()

        def in_the_worst_order():
            if threading.get_ident() == loops:
                return wake_one()
            if executor.workers.compensated == 1:
                return wake_one() and next_is_out.wait(PATIENCE_SECONDS)
            next_is_out.set()
            return first_is_out.wait(PATIENCE_SECONDS) and wake_one()

        executor._wake_one = in_the_worst_order
        first, second = SlowReader(harness), SlowReader(harness)
        await wait(first.has_yielded)
        first_is_out.set()
        await wait(second.has_yielded)
        assert executor.workers.compensated == 2

    await run(test, max_threads=1, extra_threads=2)


async def test_no_more_may_yield():
    """Beyond --extra-threads a worker keeps the place, and waiting jobs wait."""

    async def test(harness):
        first, second = SlowReader(harness), SlowReader(harness)
        await wait(first.has_yielded)
        await wait(second.has_yielded)
        waiting = harness.submit(1)
        assert harness.executor.workers.compensated == 1
        [at_work] = harness.executor.threads.at_work
        await second.go_on()
        await first.go_on()
        assert (await wait(waiting))[0] == 1
        assert at_work.is_alive()

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_nobody_to_take_the_place(monkeypatch, caplog):
    """Where no thread can be started, a yielding worker stays, and serves later jobs."""

    async def test(harness):
        await harness.start_workers(1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            slow = SlowReader(harness)
            worker = await wait(slow.has_yielded)
        waiting = harness.submit(1)
        assert harness.executor.workers[:3:2] == (1, 0)  # at work, compensated
        assert await slow.go_on() == worker
        assert await wait(waiting) == (1, "aserve-worker-1")

    def refuse(_):
        raise RuntimeError("can't start new thread")

    assert await run(test, max_threads=2, extra_threads=2) == []
    assert "can't start new thread; going on with 1" in caplog.text


async def test_requests_go_before_compensated_workers(monkeypatch):
    """A yielded worker goes on when the queue is empty."""
    monkeypatch.setattr(slices_module, "SLICE_SECONDS", PATIENCE_SECONDS)  # before then, only for this reason

    async def test(harness):
        slow = SlowReader(harness)
        await wait(slow.has_yielded)
        gate, started = harness.submit_held()
        await wait(started)
        done = []
        waiting = [harness.submit(number) for number in range(3)]
        for each in [*waiting, slow.is_done]:
            each.add_done_callback(lambda each: done.append(each))
        slow._gate.set()
        await until(lambda: harness.executor._slices.is_paused)
        assert done == []
        gate.set()
        await wait(asyncio.gather(*waiting, slow.is_done))
        assert done[-1] is slow.is_done

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_stop_ends_the_waits(monkeypatch):
    """A worker waiting for a slice goes on when the executor stops."""
    monkeypatch.setattr(slices_module, "SLICE_SECONDS", PATIENCE_SECONDS)

    async def test(harness):
        slow = SlowReader(harness)
        await wait(slow.has_yielded)
        gate, started = harness.submit_held()
        await wait(started)
        waiting = harness.submit(1)
        slow._gate.set()
        await until(lambda: harness.executor._slices.is_paused)
        harness.executor.stop()
        await wait(slow.is_done)
        gate.set()
        await wait(waiting)

    assert await run(test, max_threads=1, extra_threads=1) == []


async def test_a_compensated_worker_is_written_off():
    """A worker hanging after a yield is counted on no longer; nobody is started as a substitute, and the time slice is over."""

    async def test(harness):
        executor = harness.executor
        slow = SlowReader(harness)
        worker = await wait(slow.has_yielded)
        assert await wait(harness.submit(1)) == (1, "aserve-worker-2")
        executor.write_off(worker)
        assert executor.threads.stuck == ["aserve-worker-1"] and executor.workers.compensated == 0
        assert executor._slices._running == {}
        await until(lambda: executor.is_idle)
        assert executor.workers.at_work == 1

    assert await run(test, max_threads=1, extra_threads=1) == []
