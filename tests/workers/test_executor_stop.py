"""The end of an executor: queued jobs still run, sleeping workers end, and hanging ones are named."""

import asyncio
import threading
import time

import pytest
from harness.executors import resolve, run, wait
from harness.waiting import PATIENCE_SECONDS

from aserve.core.errors import WrittenOff
from aserve.workers.executor import Executor


async def test_stop_ends_sleeping_workers():
    """After stop, workers that sleep end; join has nobody to name."""

    async def test(harness):
        await harness.start_workers(3)
        harness.executor.stop()
        assert harness.executor.threads.join(PATIENCE_SECONDS) == []

    await run(test)


async def test_stop_runs_what_is_queued():
    """Jobs submitted before stop are still run."""

    async def test(harness):
        gate, started = harness.submit_held()
        waiting = harness.submit(1)
        await wait(started)
        harness.executor.stop()
        gate.set()
        assert (await wait(waiting))[0] == 1

    await run(test, max_threads=1)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_job_submitted_just_before_stop_is_run(workers):
    """A job whose worker is not woken yet when stop is called is run all the same."""

    async def test(harness):
        if workers:
            await harness.start_workers(workers)
        waiting = harness.submit(1)
        harness.executor.stop()
        assert (await wait(waiting))[0] == 1

    await run(test)


async def test_stop_while_the_queue_is_watched():
    """Stop ends the looks at the queue."""

    async def test(harness):
        held = [harness.submit_held() for _ in range(3)]
        await wait(held[0][1])
        harness.executor.stop()
        for gate, _ in held:
            gate.set()
        for _, started in held:
            await wait(started)

    await run(test, max_threads=1)


async def test_join_names_those_who_hang():
    """A worker still inside the app at the end of the time is named, and left behind."""

    async def test(harness):
        await harness.start_workers(2)
        gate, started = harness.submit_held()
        assert await wait(started) == "aserve-worker-2"
        harness.executor.stop()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while harness.executor.threads.join(0.001) != ["aserve-worker-2"]:  # the other one is ending
            assert time.monotonic() < deadline
        gate.set()
        assert harness.executor.threads.join(PATIENCE_SECONDS) == []

    await run(test)


async def test_a_worker_that_is_written_off():
    """Another takes its place at once; it is waited for no longer, and ends when it comes back."""

    async def test(harness):
        executor, gate, started = harness.executor, threading.Event(), asyncio.get_running_loop().create_future()

        def job(_):
            executor.post(resolve, started, threading.current_thread())
            gate.wait(PATIENCE_SECONDS)
            raise WrittenOff

        executor.submit(job, None)
        worker = await wait(started)
        assert executor.threads.name_of(worker.ident) == "aserve-worker-1"
        executor.write_off(worker.ident)
        assert executor.threads.stuck == ["aserve-worker-1"]
        assert executor.threads.name_of(worker.ident) == "a worker"
        assert await wait(harness.submit(1)) == (1, "aserve-worker-2")
        await harness.wait_for_idle(1)
        assert executor.is_idle
        assert executor.threads.join(0.0) == ["aserve-worker-2"]
        gate.set()
        worker.join(PATIENCE_SECONDS)
        assert executor.threads.stuck == []
        executor.write_off(0)  # nobody: no harm
        assert await wait(harness.submit(2)) == (2, "aserve-worker-2")

    await run(test, max_threads=1)


def test_a_worker_left_behind_finds_the_loop_closed(caplog):
    """An app that ends after the server: there is nobody to answer, and that is no bug."""
    gate, started = threading.Event(), threading.Event()

    async def main():
        executor = Executor(asyncio.get_running_loop(), 1)

        def job(_):
            started.set()
            gate.wait(PATIENCE_SECONDS)
            executor.post(resolve, None, None)

        executor.submit(job, None)
        await asyncio.sleep(0)
        assert started.wait(PATIENCE_SECONDS)
        executor.stop()
        assert executor.threads.join(0) == ["aserve-worker-1"]
        return executor

    executor = asyncio.run(main())  # by hand: the worker must find the loop closed
    gate.set()
    assert executor.threads.join(PATIENCE_SECONDS) == []
    assert caplog.records == []
