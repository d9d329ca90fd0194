"""`aserve top` on a real server: a request hangs, and s shows where."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest
from harness.client import RawClient
from harness.interpreter import NEEDS_LINUX
from harness.terminal import text_of
from harness.waiting import wait_until

pytest.importorskip("textual", reason="the screen needs textual, which this interpreter has not")

from aserve.features.control.top_screen import Top

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]


async def until_shown(pilot, *texts):
    deadline = time.monotonic() + 60
    while not all(text in text_of(pilot.app) for text in texts):
        assert time.monotonic() < deadline, text_of(pilot.app)
        await pilot.pause(0.05)


async def test_a_request_that_hangs(start_workers, tmp_path):
    """A hanging request's row, its stack, one more worker, and new code, by keys."""
    control = str(tmp_path / "control")
    process = start_workers("--workers", "2", "--threads", "1", "--control", control)
    process.wait_for_workers(2)
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/x")
    wait_until((tmp_path / "x.in").exists)
    async with Top(control).run_test(size=(200, 40)) as pilot:
        await until_shown(
            pilot, f"pid {process.pid}", "2 of 2 workers ready", "1 of 2 threads busy", f"GET /wait{tmp_path}/x"
        )
        await pilot.press("tab", "s")  # of the worker with the oldest request
        await until_shown(pilot, f", at GET /wait{tmp_path}/x:", "time.sleep(0.005)")
        (tmp_path / "x.go").touch()
        assert client.recv_response().status == 200
        client.close()
        await pilot.press("q", "plus")
        await until_shown(pilot, "workers +1: workers: 3; before: 2", "3 of 3 workers ready")
        await pilot.press("r")
        await until_shown(pilot, "Reload?")
        await pilot.press("y")
        await until_shown(pilot, "reload: done in", "code and settings of 3 workers are new")
        process.signal()
        await until_shown(pilot, "no server answers at")


def test_the_command_shows_the_server_until_q(start_process, tmp_path):
    start_process("steered", "--control", str(tmp_path / "control"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-Im", "aserve", "top", "--control", str(tmp_path / "control")]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while b"requests/s" not in shown:
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 65536)
        os.write(ours, b"q")
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # EIO: the other end is closed
            pass
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
