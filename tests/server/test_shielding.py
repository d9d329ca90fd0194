"""What must be finished though its task is cancelled."""

import asyncio

import anyio
import pytest

from aserve.server.shielding import to_the_end


async def answer():
    """Take some turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
    return 42


async def test_the_result_comes_as_if_awaited():
    assert await to_the_end(answer()) == 42


async def test_an_exception_reaches_the_caller():
    async def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await to_the_end(fail())


def test_a_scope_of_anyio():
    """A cancelled task finishes it, and is cancelled behind it."""
    done = []

    async def work():
        with anyio.CancelScope() as scope:
            scope.cancel()
            done.append(await to_the_end(answer()))
            await anyio.sleep(0)
            done.append("behind it")

    anyio.run(work)
    assert done == [42]


@pytest.mark.parametrize("times", [1, 3])
async def test_a_task_of_asyncio(times):
    """However often it is cancelled: it finishes, and then it is cancelled."""
    done = []

    async def finish():
        done.append(await answer())

    task = asyncio.ensure_future(to_the_end(finish()))
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [42]


async def test_the_end_of_the_loop():
    """When all tasks are cancelled, as asyncio.run does at its end, it does not go on."""
    task = asyncio.ensure_future(to_the_end(asyncio.sleep(3600)))
    await asyncio.sleep(0)
    for one in asyncio.all_tasks() - {asyncio.current_task()}:
        one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
