"""The reason to replace a process: the first one, told once, to each waiter."""

import asyncio

from aserve.lifecycle.failing import Failing


async def test_the_first_reason(caplog):
    """The reason is logged, and stays; each waiter has it, before and after."""
    failing = Failing()
    assert failing.why == ""
    waiting = asyncio.ensure_future(failing.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    failing.begin("3 threads are stuck")
    failing.begin("4 threads are stuck")
    assert await waiting == await failing.wait() == failing.why == "3 threads are stuck"
    assert caplog.messages == ["this process should be replaced: 3 threads are stuck"]
