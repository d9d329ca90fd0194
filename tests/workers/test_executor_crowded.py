"""While no worker is free, waiting jobs may be withdrawn: another process has room for them."""

import logging
import threading

import pytest
from harness.executors import run, run_with_leader, until, wait

from aserve.workers import executor as executor_module


def withdraw_first(harness, found):
    """Let the first waiting job be withdrawn at each call, into `found` with the thread of the call."""

    def on_crowded():
        executor = harness.executor
        jobs = [job for job in list(executor.jobs)[:1] if executor.withdraw(job)]
        found.extend((job, threading.current_thread()) for job in jobs)
        return bool(jobs)

    harness.executor.on_crowded = on_crowded


async def test_jobs_are_withdrawn():
    """On the event loop's thread, one behind the other, and no worker runs them."""

    async def test(harness):
        found = []
        withdraw_first(harness, found)
        gate, started = harness.submit_held()
        await wait(started)
        waiting = [harness.submit() for _ in range(3)]
        await until(lambda: len(found) == 3)
        assert {thread for _, thread in found} == {threading.current_thread()} and not harness.executor.jobs
        gate.set()
        assert not any(done.done() for done in waiting)

    assert await run(test, max_threads=1) == []


async def test_a_single_job_behind_an_app_that_blocks():
    """A single job is seen without a second one, and as often as one comes."""

    async def test(harness):
        found = []
        withdraw_first(harness, found)
        _, started = harness.submit_held()
        await wait(started)
        for count in (1, 2):
            harness.submit()
            await until(lambda count=count: len(found) == count)

    assert await run(test, max_threads=1) == []


async def test_requests_of_the_handles():
    """Requests are polled for while all workers are busy, and may be withdrawn then."""

    async def test(harness, handles):
        found = []
        withdraw_first(harness, found)
        job, _, started = harness.held()
        handles.bring(job)
        await wait(started)
        await handles.stall()
        for count in (1, 2):
            handles.bring(lambda _: None)
            await until(lambda count=count: len(found) == count)

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_free_worker():
    """It gets the job: nothing is withdrawn."""

    async def test(harness):
        found = []
        withdraw_first(harness, found)
        _, started = harness.submit_held()
        await wait(started)
        await wait(harness.submit())
        assert found == []

    assert await run(test, max_threads=2) == []


async def test_none_can_be_withdrawn(monkeypatch):
    """They are looked at again, and wait on; without a caller there is nothing to look for."""

    async def test(harness):
        looks = []
        harness.executor.on_crowded = lambda: looks.append(None)
        gate, started = harness.submit_held()
        await wait(started)
        done = harness.submit()
        await until(lambda: len(looks) >= 3)
        harness.executor.on_crowded = None
        await until(lambda: harness.executor._stall_timer is None)
        gate.set()
        await wait(done)

    monkeypatch.setattr(executor_module, "BUSY_POLL_SECONDS", 0.001)
    assert await run(test, max_threads=1) == []


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
async def test_a_bug_of_ours(caplog):
    """It is logged, and looked at again."""

    async def test(harness):
        caplog.set_level(logging.ERROR, "aserve")
        harness.executor.on_crowded = lambda: 1 / 0
        _, started = harness.submit_held()
        await wait(started)
        harness.submit()
        await until(lambda: caplog.text.count("ZeroDivisionError") >= 2)

    assert await run(test, max_threads=1) == []
