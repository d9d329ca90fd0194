"""--threads 0: jobs run at once on the submitting thread."""

import asyncio
import contextvars

import pytest

from aserve.workers import inline
from aserve.workers.inline import InlineExecutor


def test_inline_jobs_run_at_once():
    """A job runs before submit returns; its posts, too."""
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
    """A job must not raise; an exception is seen, and the next ones run."""
    executor = InlineExecutor()
    seen = []

    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        executor.submit(fail, None)
    executor.submit(seen.append, 1)
    assert seen == [1]


def test_each_inline_job_has_a_context():
    """The next job does not find one's context, nor the thread; a later step of the job finds it, in the same context."""
    executor, variable, found, later = InlineExecutor(), contextvars.ContextVar("variable", default="none"), [], []
    variable.set("the server's")

    def step():
        found.append(variable.get())
        variable.reset(tokens.pop())
        found.append(variable.get())

    def job(argument):
        found.append(variable.get())
        tokens.append(variable.set(argument))
        later.append(executor.in_its_context(step))

    tokens = []
    executor.submit(job, 1)
    executor.submit(lambda _: later.append(executor.in_its_context(lambda: found.append(variable.get()))), 2)
    assert found == ["none"] and variable.get() == "the server's"
    for function in later:
        function()
    assert found == ["none", 1, "none", "none"] and variable.get() == "the server's"
    executor.in_its_context(lambda: found.append(variable.get()))()
    assert found[-1] == "the server's"


def test_a_step_within_its_job():
    """A later step may be called at once: its context is current already."""
    executor, found = InlineExecutor(), []
    executor.submit(lambda _: executor.in_its_context(lambda: found.append("done"))(), None)
    assert found == ["done"]


def test_an_inline_executor_has_nothing_to_stop():
    """Stop, join and the tick are there for a caller of any executor."""
    executor = InlineExecutor()
    executor.queue_wait.on_second()
    executor.stop()
    assert executor.threads.join(1.0) == [] and executor.queue_wait.stalled_seconds == executor.waiting_count == 0


def test_in_a_child_nothing_more_runs(monkeypatch):
    """A forked child leaves, should it come for its next job."""
    executor = InlineExecutor()
    seen = []
    monkeypatch.setattr(inline, "end_child", lambda _: seen.append("left"))

    def job(_):
        executor.submit(seen.append, "another's")
        executor.on_forked()

    executor.submit(job, None)
    assert seen == ["left"]


# The app's code is synchronous


def sees_no_loop(seen):
    """Return a job that does what synchronous code may do."""

    async def answer():
        await asyncio.sleep(0)
        return asyncio.current_task() is not None

    def job(_):
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        seen.append(asyncio.run(answer()))

    return job


@pytest.mark.parametrize("is_task", [True, False])
async def test_a_job_finds_no_running_loop(is_task):
    """asyncio.run works in it, submitted by a task or a callback of the loop; then the loop is back, and its task."""
    executor, seen, over = InlineExecutor(), [], asyncio.get_running_loop().create_future()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def callback():
        executor.submit(sees_no_loop(seen), None)
        over.set_result(asyncio.get_running_loop())

    if is_task:
        executor.submit(lambda _: executor.submit(sees_no_loop(seen), None), None)
        assert asyncio.get_running_loop() is loop and asyncio.current_task() is task
    else:
        loop.call_soon(callback)
        assert await over is loop
    assert seen == [True]
    await asyncio.sleep(0)


async def test_the_loop_of_a_program_is_hidden_too():
    """asyncio.get_event_loop() does not lead an app to the thread's current loop of the program; afterwards the loop is current again."""
    loop = asyncio.get_running_loop()
    asyncio.set_event_loop(loop)

    def job(_):
        with pytest.raises(RuntimeError, match="no current event loop"):
            asyncio.get_event_loop()
        asyncio.run(asyncio.sleep(0))

    for _ in range(2):
        InlineExecutor().submit(job, None)
        assert asyncio.get_event_loop_policy()._local._loop is loop


async def test_the_loop_is_back_after_a_fault():
    """Whatever a job raises."""
    executor, loop, task = InlineExecutor(), asyncio.get_running_loop(), asyncio.current_task()
    for fault in (ValueError, SystemExit, KeyboardInterrupt):

        def job(_, fault=fault):
            raise fault

        with pytest.raises(fault):
            executor.submit(job, None)
        assert asyncio.get_running_loop() is loop and asyncio.current_task() is task


def test_a_job_outside_a_loop():
    """There is nothing to hide."""
    seen = []
    InlineExecutor().submit(sees_no_loop(seen), None)
    assert seen == [True]


@pytest.mark.parametrize("is_task", [True, False])
async def test_the_current_task_is_hidden_too(monkeypatch, is_task):
    """On Python 3.12 and later, by whose rules: swapped while the loop runs, and swapped back. Without a task 3.12 has nothing to swap."""
    swaps, loop, task = [], asyncio.get_running_loop(), asyncio.current_task()

    def swap(of_loop, new):
        assert of_loop is asyncio._get_running_loop() is loop
        if asyncio.current_task(loop) is None:
            raise KeyError(loop)
        swaps.append(new)

    async def submit():
        if is_task:
            InlineExecutor().submit(lambda _: swaps.append("job"), None)
            return
        over = loop.create_future()
        loop.call_soon(lambda: over.set_result(run_outside()))
        assert await over is None

    def run_outside():
        try:
            InlineExecutor().submit(lambda _: swaps.append("job"), None)
        except KeyError as fault:
            return fault

    monkeypatch.setattr(inline, "_swap_current_task", swap)
    await submit()
    assert swaps == ([None, "job", task] if is_task else ["job"])
    monkeypatch.setattr(inline, "_swap_current_task", None)
    await submit()
    assert swaps[-1] == "job" and asyncio._get_running_loop() is loop
