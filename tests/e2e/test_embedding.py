"""aserve inside an asyncio program: no signals, no globals, nothing left behind."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest
from harness import apps
from harness.waiting import wait_until

import aserve

pytestmark = [pytest.mark.one_way, pytest.mark.both_loops]


async def run(main):
    """Run a coroutine function; check that no tasks, threads or files are left."""
    before = open_files()
    threads = set(threading.enumerate())
    tasks = asyncio.all_tasks()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    result = await main()
    await asyncio.sleep(0.01)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert asyncio.all_tasks() == tasks
    wait_until(lambda: set(threading.enumerate()) <= threads)  # a thread past its last word still has to end
    wait_until(lambda: open_files() <= before)  # another test's thread may have a file open for a moment
    return result


def open_files():
    """Return the file descriptors of this process, without libuv's own for EMFILE."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            if os.readlink(f"/proc/self/fd/{fd}") != "/dev/null":
                found.add(fd)
    return found


async def fetch(address, path="/"):
    """Return the body of a GET, by asyncio's own streams."""
    connect = asyncio.open_unix_connection if isinstance(address, str) else asyncio.open_connection
    reader, writer = await connect(*([address] if isinstance(address, str) else address))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    octets = await reader.read()
    writer.close()
    await writer.wait_closed()
    return octets.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("times", [1, 3])
async def test_cancellation_finishes_what_runs(times):
    """Cancelling serve(), even again during the drain, finishes running requests before the return."""
    gate = apps.Gate()

    async def main():
        started = asyncio.get_running_loop().create_future()

        class Status:
            def started(self, value):
                started.set_result(value)

        task = asyncio.ensure_future(aserve.serve(gate, "127.0.0.1:0", task_status=Status()))
        server = await started
        request = asyncio.ensure_future(fetch(server.addresses[0]))
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_entered)
        task.cancel()
        while not server.is_draining:
            await asyncio.sleep(0.001)
        for _ in range(1, times):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        gate.open()
        assert await request == b"hello\n"
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.get_running_loop().shutdown_default_executor()

    await run(main)


async def test_exception_in_the_block():
    """An exception in the block drains like the block's end, and is passed on."""

    async def main():
        async def serve_and_raise():
            async with aserve.Server(apps.hello, bind="127.0.0.1:0") as server:
                assert await fetch(server.addresses[0]) == b"hello\n"
                raise KeyError

        with pytest.raises(KeyError):
            await serve_and_raise()

    await run(main)


def test_a_hanging_app_is_left_behind(caplog):
    """An app without an end is left behind after --drain-timeout, with a line; its late end is silent."""
    gate = apps.Gate()
    caplog.set_level(logging.INFO, "aserve")
    ended = threading.Event()

    def app(environ, start_response):
        result = gate(environ, start_response)
        ended.set()
        return result

    async def main():
        server = aserve.Server(app, bind="127.0.0.1:0", drain_seconds=0.2)
        await server.start()
        _, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_entered)
        assert await server.drain() is False
        writer.close()
        await asyncio.get_running_loop().shutdown_default_executor()

    loop = asyncio.new_event_loop()  # by hand: the left app must find the loop closed
    loop.run_until_complete(main())
    loop.close()
    assert "threads still inside the app at the end: " in caplog.text
    gate.open()
    assert ended.wait(30)
    for thread in threading.enumerate():
        if thread.name.startswith("aserve"):
            thread.join(30)
    assert "report this" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.long_on_pypy
def test_run_without_a_log():
    """aserve.run() ends at a SIGTERM, and writes nothing where nobody has asked for a log."""
    code = (
        "import aserve, os, signal, sys, threading, time\n"
        "def app(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return [threading.current_thread().name.encode()]\n"
        "def kill():\n"
        "    while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:\n"
        "        time.sleep(0.001)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=kill).start()\n"
        "sys.exit(aserve.run(app, '127.0.0.1:0', threads=3))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
