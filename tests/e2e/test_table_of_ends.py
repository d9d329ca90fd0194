"""The fate of the app's threads, pools and processes at each end of a process: the table in docs/processes.md, cell by cell."""

import json
import re
import signal
import subprocess
import sys

import pytest
from harness.interpreter import IS_PYPY, NEEDS_LINUX
from harness.waiting import wait_until
from harness.workers import is_alive

# One of each kind; each notes its name at its finish, as soon as a file `go` exists. Endless ones wait for another file.
APP = """
import atexit, concurrent.futures, json, multiprocessing, os, subprocess, sys, threading, time

fork = multiprocessing.get_context("fork")
kept = []

def work(name, gate="go"):
    while not os.path.exists(gate):
        time.sleep(0.005)
    open("finished-" + name, "w").close()

def start():
    daemon = fork.Process(target=work, args=("daemon process", "never"), daemon=True)
    process = fork.Process(target=work, args=("process",), name="of-the-app")
    pool = fork.Pool(1)
    executor = concurrent.futures.ProcessPoolExecutor(1, fork)
    threads = concurrent.futures.ThreadPoolExecutor(1, "pooled")
    kept.extend([pool, executor, threads])
    for child in (daemon, process):
        child.start()
    pool.apply_async(work, ("multiprocessing.Pool", "never"))
    executor.submit(exec, POOLED)  # not `work`: a thread of the executor looks for it in this module, which is gone when its import has failed
    for name in ("ThreadPoolExecutor", "queued"):
        threads.submit(work, name)
    threading.Thread(target=work, args=("daemon thread", "never"), daemon=True).start()
    threading.Thread(target=work, args=("thread",), name="of-the-app", daemon=None).start()
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(work, "atexit")
    pids = {"daemon process": daemon.pid, "process": process.pid, "program": program.pid, "multiprocessing.Pool": pool._pool[0].pid}
    with open("starting", "w") as file:
        json.dump({"own": os.getpid(), **pids}, file)
    os.rename("starting", "started")

PROGRAM = "import os, time\\nwhile not os.path.exists('over'): time.sleep(0.02)"
POOLED = PROGRAM.replace("over", "go") + "\\nopen('finished-ProcessPoolExecutor', 'w').close()"

def hello(environ, start_response):
    if not os.path.exists("started"):
        start()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]
"""
FAILING = (
    APP
    + "\nimport aserve.lifecycle.exits\naserve.lifecycle.exits.EXIT_SECONDS = 60.0  # a busy machine takes longer\nstart()\n1/0\n"
)
# Whatever the end is.
FINISHED = {"thread", "ThreadPoolExecutor", "queued", "process", "ProcessPoolExecutor", "atexit"}
TERMINATED = ("daemon process", "multiprocessing.Pool")

# By column of the table: flags of the server, and the act that ends its process.
COLUMNS = {
    "SIGTERM, one process": ((), signal.SIGTERM),
    "SIGTERM, workers": (("--workers", "1"), signal.SIGTERM),
    "reload": (("--workers", "1"), signal.SIGHUP),
    "recycle": (("--workers", "1", "--max-requests", "1"), None),
    "upgrade": (("--workers", "1"), signal.SIGUSR2),
    "development": (("--workers", "1", "--reload"), "a file is saved"),
}
if IS_PYPY:  # its processes start slower: the remaining code is the same
    COLUMNS = {name: COLUMNS[name] for name in ("SIGTERM, one process", "reload")}

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]


@pytest.fixture
def folder(tmp_path):
    """The folder of the app; its processes end at last."""
    yield tmp_path
    for name in ("go", "never", "over"):
        (tmp_path / name).touch()


def started(folder):
    """Wait until one of each kind runs; return the processes, by their kinds."""
    wait_until(lambda: (folder / "started").exists())
    return json.loads((folder / "started").read_text())


def check_cells(folder, pids):
    """Check each kind's fate after the end of the process."""
    finished = {path.name.partition("-")[2] for path in folder.glob("finished-*")}
    assert finished == FINISHED
    for kind in TERMINATED:
        wait_until(lambda kind=kind: not is_alive(pids[kind]), explain=lambda kind=kind: f"{kind} runs")
    assert is_alive(pids["program"])


WAITING = "waiting for the app's (.*); a second signal ends it, or the time limit"


@pytest.mark.parametrize(  # a worker recycled, or drained with its supervisor, ends as by a reload
    "column",
    [
        pytest.param(column, marks=pytest.mark.long if column in ("SIGTERM, workers", "recycle", "upgrade") else ())
        for column in COLUMNS
    ],
)
def test_what_becomes_of_them(start_process, raw_client, folder, column):
    """Python waits for threads and processes that are no daemons, and the server names them; daemons end with the process; a program goes on."""
    flags, end = COLUMNS[column]
    (folder / "own.py").write_text(APP)
    server = start_process(f"{folder}/own.py:hello", *flags)
    assert raw_client(server).fetch().body == b"hello"
    pids = started(folder)
    if isinstance(end, str):
        (folder / "own.py").write_text(f"{APP}# saved\n")
    elif end is not None:
        server.signal(end)
    named = server.wait_for_log(WAITING)[1]
    for kind in ("thread of-the-app", "thread pooled_0", "process of-the-app"):
        assert kind in named
    assert not list(folder.glob("finished-*"))
    (folder / "go").touch()
    wait_until(lambda: not is_alive(pids["own"]))
    check_cells(folder, pids)
    if end == signal.SIGTERM:
        assert server.wait(30) == 0
    else:
        server.wait_for_log(rf"\(pid {pids['own']}\) has ended: it exited with status 0")
        assert raw_client(server).fetch().body == b"hello"  # the successor serves


def test_a_failed_start(folder):
    """A failing import has a shorter time, and its status; otherwise the end is as usual."""
    (folder / "own.py").write_text(FAILING)
    command = [sys.executable, "-Im", "aserve", f"{folder}/own.py:hello", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if re.search(WAITING, line):
                (folder / "go").touch()
                break
        assert process.wait(60) == 1
        check_cells(folder, started(folder))


# The thread of a pool replaces an ended process, refused by CPython 3.12 at its own end.
@pytest.mark.provokes(r"Exception in thread .*\(_handle_workers\)")
def test_time_that_is_over(start_process, raw_client, folder):
    """Unfinished threads are named and given up, and processes are terminated; a program goes on."""
    (folder / "own.py").write_text(APP)
    server = start_process(f"{folder}/own.py:hello", "--drain-timeout", "0.1")
    raw_client(server).fetch()
    pids = started(folder)
    server.signal()
    assert server.wait(60) == 1
    assert "leaving the app's thread " in server.log
    for kind in (*TERMINATED, "process"):
        wait_until(lambda kind=kind: not is_alive(pids[kind]), explain=lambda kind=kind: f"{kind} runs")
    assert is_alive(pids["program"]) and not list(folder.glob("finished-*"))
