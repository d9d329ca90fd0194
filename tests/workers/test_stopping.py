"""The end of the workers: idle ones end, and only those inside the app are left behind."""

import asyncio

import pytest
from harness.executors import run, wait
from harness.waiting import PATIENCE_SECONDS

from aserve.workers import stopping
from aserve.workers.inline import InlineExecutor
from aserve.workers.stopping import stop_workers


@pytest.fixture
def patient(monkeypatch):
    """Idle workers may take as long as they need on a busy machine."""
    monkeypatch.setattr(stopping, "IDLE_SECONDS", PATIENCE_SECONDS)


@pytest.mark.usefixtures("patient")
async def test_the_idle_end():
    """Workers that sleep end, and nobody is left."""

    async def test(harness):
        await harness.start_workers(3)
        assert await stop_workers(harness.executor, asyncio.get_running_loop(), 0.0) == []

    await run(test)


@pytest.mark.usefixtures("patient")
async def test_one_that_is_inside_the_app_is_named():
    """At the deadline it is left behind, and idle ones are not."""

    async def test(harness):
        await harness.start_workers(2)
        gate, started = harness.submit_held()
        name = await wait(started)
        assert await stop_workers(harness.executor, asyncio.get_running_loop(), 0.0) == [name]
        gate.set()

    await run(test)


@pytest.mark.usefixtures("patient")
async def test_the_idle_have_longer(monkeypatch):
    """An idle one without a CPU is waited for beyond the deadline; but not for ever."""
    monkeypatch.setattr(stopping, "BUSY_SECONDS", 0.0)

    async def test(harness):
        await harness.start_workers(2)
        executor, left = harness.executor, iter([["one"]] * 3 + [[]])
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patch:
            patch.setattr(executor.threads, "join", lambda seconds: next(left))
            assert await stop_workers(executor, loop, 0.0) == []
            patch.setattr(executor.threads, "join", lambda seconds: ["one"])
            patch.setattr(stopping, "IDLE_SECONDS", 0.2)
            assert await stop_workers(executor, loop, 0.0) == ["one"]

    await run(test)


async def test_what_runs_has_until_the_deadline():
    """A job that ends before the deadline is not left behind."""

    async def test(harness):
        await harness.start_workers(1)
        gate, started = harness.submit_held()
        await wait(started)
        loop = asyncio.get_running_loop()
        loop.call_later(0.15, gate.set)
        assert await stop_workers(harness.executor, loop, loop.time() + 60) == []

    await run(test)


async def test_without_threads_nobody_is_left_behind():
    loop = asyncio.get_running_loop()
    assert await stop_workers(InlineExecutor(), loop, 0.0) == []
