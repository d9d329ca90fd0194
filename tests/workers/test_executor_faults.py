"""A fault in a job, in its answer, or at a thread's start costs as little as possible."""

import asyncio
import threading

import pytest
from harness.executors import resolve, run, until, wait

from aserve.workers import threads


@pytest.mark.provokes("please report this as a bug")
async def test_a_job_that_raises_costs_itself_alone(caplog):
    """A job must not raise; an exception is logged as our bug, and the worker goes on."""

    async def test(harness):
        def job(_):
            raise SystemExit("no")

        harness.executor.submit(job, None)
        assert (await wait(harness.submit(1)))[0] == 1

    await run(test)
    assert "please report this as a bug" in caplog.text and "SystemExit" in caplog.text


@pytest.mark.provokes("please report this as a bug")
async def test_an_answer_that_raises_costs_itself_alone(caplog):
    """A failing answer on the loop does not keep back later ones."""

    async def test(harness):
        done = harness.loop.create_future()

        def fail(first, second):
            raise ValueError("no")

        def job(_):
            harness.executor.post(fail, None, None)
            harness.executor.post(resolve, done, 5)

        harness.executor.submit(job, None)
        assert await wait(done) == 5

    assert await run(test) == []
    assert "please report this as a bug" in caplog.text and "ValueError: no" in caplog.text


async def test_no_memory_to_ask_the_loop(monkeypatch):
    """An answer reaches the loop as soon as there is memory for it."""

    async def test(harness):
        refusals = [MemoryError, MemoryError]
        ask = harness.loop.call_soon_threadsafe

        def refuse(*arguments):
            if refusals:
                raise refusals.pop()
            return ask(*arguments)

        monkeypatch.setattr(harness.loop, "call_soon_threadsafe", refuse)
        assert (await wait(harness.submit(1)))[0] == 1 and not refusals

    await run(test)


async def test_no_memory_between_two_jobs(monkeypatch):
    """It costs no worker."""

    async def test(harness):
        executor, sleep = harness.executor, harness.executor._sleep
        refusals = [MemoryError, MemoryError]

        def refuse(lock):
            if refusals:
                raise refusals.pop()
            sleep(lock)

        monkeypatch.setattr(executor, "_sleep", refuse)
        names = [(await wait(harness.submit(0)))[1]]
        await until(lambda: not refusals)  # it goes to sleep some time after its job
        names.append((await wait(harness.submit(1)))[1])
        assert set(names) == {"aserve-worker-1"}

    await run(test, max_threads=1)


async def test_no_more_threads_to_be_had(caplog, monkeypatch):
    """Without more threads, the running ones go on with the work."""

    monkeypatch.setattr(threads, "RETRY_SECONDS", 3600.0)

    async def test(harness):
        gate, started = harness.submit_held()
        await wait(started)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            waiting = harness.submit(1)
            while "cannot start worker 2" not in caplog.text:
                await asyncio.sleep(0)
        gate.set()
        assert await wait(waiting) == (1, "aserve-worker-1")
        held = [harness.submit_held() for _ in range(2)]
        await wait(held[0][1])
        assert len(harness.worker_names()) == 1  # it does not try again at once
        held[0][0].set()

    def refuse(_):
        raise RuntimeError("can't start new thread")

    await run(test)
    assert "can't start new thread; going on with 1" in caplog.text


async def test_no_thread_at_all(monkeypatch):
    """Without a single worker there is no service: that is not hidden."""

    def refuse(_):
        raise RuntimeError("can't start new thread")

    async def test(harness):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            waiting = harness.submit(1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not waiting.done()
        second = harness.submit(2)  # and the service recovers when there are threads again
        await wait(asyncio.gather(waiting, second))

    (fault,) = await run(test)
    assert "can't start new thread" in str(fault["exception"])


async def test_no_thread_in_the_place_of_the_last(caplog, monkeypatch):
    """A thread that writes off the last worker is told that there is no other, and the event loop hears of it no more."""
    workers = []

    async def test(harness):
        executor, (job, gate, started) = harness.executor, harness.held()
        executor.submit(lambda _: (workers.append(threading.current_thread()), job(None)), None)
        await wait(started)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="no other worker is left"):
                executor.write_off(workers[0].ident)
        waiting = harness.submit(1)
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
