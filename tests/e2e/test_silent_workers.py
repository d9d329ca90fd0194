"""The supervisor's decisions while a worker hangs, is stopped, or imports for ever: sound workers serve on, and each order ends with the truth."""

import contextlib
import os
import re
import signal
import time

import pytest
from harness.client import RawClient, fetch_once
from harness.halting import halt
from harness.interpreter import IS_PYPY, NEEDS_LINUX
from harness.process import run_command
from harness.shared_pages import SharedPages
from harness.waiting import wait_until

from aserve.core.page import Field

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

# /hang holds the GIL for longer than the test takes. While there is a file `stuck`, the import never ends.
APP = """
import ctypes, os, time
while os.path.exists("stuck"):
    time.sleep(0.01)
def app(environ, start_response):
    if environ["PATH_INFO"] == "/hang":
        ctypes.PyDLL(None).usleep(100_000_000)
    start_response("200 OK", [])
    return [b"%d" % os.getpid()]
"""


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


def run(control, *argv):
    """Run a command; return its exit status and output."""
    done = run_command(*argv, "--control", control)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=["is stopped", *(() if IS_PYPY else ("hangs",))])  # PyPy's ctypes releases the GIL
def silent(request, start_workers, control):
    """Return a server, and the pids of a worker seen as stopped by the supervisor, and of a serving one."""
    process = start_workers("--workers", "2", "--threads", "1", "--drain-timeout", "1s", "--control", control, app=APP)
    pids = process.wait_for_workers(2)
    with contextlib.closing(RawClient(process.address)) as client:
        client.request("/")
        silent = int(client.recv_response().body)
        if request.param == "hangs":
            client.request("/hang")
        else:
            halt(silent)
        page = SharedPages(process.pid).of(silent)
        wait_until(lambda: time.monotonic_ns() - page[Field.TICKED_AT] > 3e9)
    return process, silent, *(pid for pid in pids if pid != silent)


def ask(process):
    """Return the pid of the worker that answers on a new connection."""
    return int(fetch_once(process.address).body)


def test_one_worker_less(silent, control):
    """The silent worker ends, and the command says so; the sound worker serves on."""
    process, gone, sound = silent
    status, text = run(control, "workers", "-1")
    assert status == 0 and text.startswith(
        "workers: 1; before: 2; does not answer, and is ended after --drain-timeout: worker "
    )
    assert f"(pid {gone})" in text
    wait_until(lambda: process.workers == [sound])
    assert ask(process) == sound and run(control, "status")[0] == 0


@pytest.mark.long
def test_a_reload_replaces_a_silent_worker(silent, control):
    """The reload ends, and both workers are new."""
    process, *before = silent
    status, text = run(control, "reload")
    assert status == 0 and "code and settings of 2 workers are new" in text
    assert ask(process) not in before


@pytest.mark.long
def test_a_worker_that_is_recycled(silent, control):
    """The silent worker has a successor; the other serves on."""
    process, gone, sound = silent
    number = re.search(rf"worker (\d) \(pid {gone}\) is ready", process.log)[1]
    status, text = run(control, "recycle", number)
    assert status == 0 and f"worker {number} is replaced" in text
    wait_until(lambda: gone not in process.workers)
    assert sound in process.workers


def test_the_only_one_that_answers_is_gone(start_workers, control):
    """The number is lower, but nobody answers: the command fails, and says so."""
    process = start_workers("--workers", "2", "--drain-timeout", "1s", "--control", control, app=APP)
    pids = process.wait_for_workers(2)
    halt(*pids)
    pages = SharedPages(process.pid)
    wait_until(lambda: all(time.monotonic_ns() - pages.of(pid)[Field.TICKED_AT] > 3e9 for pid in pids))
    status, text = run(control, "workers", "-1")
    assert status == 1 and "no worker answers now: see `aserve status`" in text


def test_one_less_while_one_imports_for_ever(start_workers, control, tmp_path):
    """The importing worker ends; the sound worker, with the higher number, serves on."""
    process = start_workers("--workers", "2", "--control", control, app=APP)
    first, second = process.wait_for_workers(2)
    (tmp_path / "stuck").touch()
    os.kill(first, signal.SIGKILL)
    process.wait_for_log(r"worker 1 .* has crashed")
    wait_until(lambda: len(process.workers) == 2)
    assert run(control, "workers", "-1") == (0, "workers: 1; before: 2\n")
    wait_until(lambda: process.workers == [second])
    assert ask(process) == second
    (tmp_path / "stuck").unlink()
    assert run(control, "workers", "2")[0] == 0
    process.wait_for_log(r"worker 1 .* is ready[^$]*worker 1 .* is ready")


@pytest.mark.parametrize("argv", [["status", "--json"], ["reload"]])
def test_a_supervisor_that_is_stopped(start_workers, control, argv):
    """The command gives up, and names the stopped supervisor."""
    process = start_workers("--workers", "1", "--control", control, app=APP)
    process.wait_for_workers(1)
    halt(process.pid)
    status, text = run(control, *argv)
    os.kill(process.pid, signal.SIGCONT)
    assert status == 2 and f"the supervisor (pid {process.pid}) does not answer" in text


@pytest.mark.long
def test_an_import_that_never_ends(start_workers, control, tmp_path):
    """At a reload: the log and the command say so, with the line of the app; the old worker serves on."""
    process = start_workers("--workers", "1", "--control", control, app=APP)
    process.wait_for_workers(1)
    (tmp_path / "stuck").touch()
    process.signal(signal.SIGHUP)
    process.wait_for_log(r"worker 1 imports .*, for 1\d s \(pid \d+\); no --start-timeout ends it; its stacks follow")
    process.wait_for_log(r'File ".*site_app.py", line [234] in <module>')  # PyPy's are approximate
    status, text = run(control, "status")
    assert status == 0 and re.search(r"- Worker 1 imports .*site_app.py:app, for \d+ s\.", text)
    assert ask(process)
    process.wait_for_log(r"worker 1 imports .*, for 2\d s")


@pytest.mark.long
def test_an_import_that_takes_long_without_workers(start_process, tmp_path):
    """The log tells a long import, with the line of the app, which here waits for the log; then the app is served."""
    waits = 'while "is being imported" not in open("/proc/self/fd/2").read():'
    (tmp_path / "site_app.py").write_text(APP.replace('while os.path.exists("stuck"):', waits))
    process = start_process("site_app:app")
    text = r"site_app:app is being imported, for [12]\d s; that is at \(the last call first\):\n +File .*site_app.py"
    assert re.search(text, process.log)
    assert fetch_once(process.address).status == 200
