"""The threads of a server: made at each start, looked at each second, and gone at its end."""

import asyncio
import threading

import pytest
from harness.waiting import wait_until

from aserve.features import Config
from aserve.server.app_threads import AppThreads
from aserve.workers.executor import Executor


def app(environ, start_response):
    raise NotImplementedError


def started(**settings):
    """Return the threads of a server that has started on the running event loop."""
    threads = AppThreads(Config(**settings))
    assert threads.failing is None
    threads.start(asyncio.get_running_loop())
    return threads


@pytest.mark.parametrize("count", [0, 2])
async def test_most_apps_are_called_as_they_are(count):
    """As many threads call as were asked for, or the thread of the event loop."""
    threads = started(threads=count)
    assert threads.executor.is_inline is not bool(count) and threads.timed(app) is app
    threads.on_second()
    threads.look(3.0)
    assert threads.busy.seconds == 3.0 and threads.failing.why == ""
    assert await threads.stop(asyncio.get_running_loop(), 0.0)
    threads.on_forked()  # what a child of the app would do
    assert len(threads.executor.jobs) == 1


@pytest.mark.parametrize(("count", "extra"), [(1, 0), (2, 64)])
async def test_one_thread_is_one_thread(count, extra):
    """An app that was promised that no other thread calls it is never called by an extra one."""
    workers = started(threads=count).executor.threads
    assert workers._max_total - workers.max_threads == extra


async def test_a_time_limit():
    """With --request-timeout the app is timed, and what takes too long is looked for."""
    threads = started(request_seconds=1)
    assert threads.timed(app) is not app and threads.deadlines.untimed(threads.timed(app)) is app
    threads.on_second()
    threads.on_forked()
    assert await threads.stop(asyncio.get_running_loop(), 0.0)


async def test_a_thread_that_does_not_come_back(caplog):
    """It is left behind, and named, with what it is at."""
    threads, loop, is_over = started(threads=1), asyncio.get_running_loop(), threading.Event()
    begun = threading.Event()
    threads.executor.submit(lambda _: (begun.set(), is_over.wait(30)), None)
    while not begun.is_set():
        await asyncio.sleep(0.001)
    assert not await threads.stop(loop, loop.time())
    assert "threads still inside the app at the end: aserve-worker-1" in caplog.text
    is_over.set()
    assert isinstance(threads.executor, Executor)
    wait_until(lambda: not threads.executor.threads.join(0.0))
