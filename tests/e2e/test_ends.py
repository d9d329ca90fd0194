"""The end of a process whose app has signal handlers, threads and processes."""

import re
import signal
import subprocess
import sys

import pytest
from harness.interpreter import first_on_pypy, later_on_pypy
from harness.process import run_command
from harness.workers import is_alive

APP = """
import atexit, multiprocessing, os, signal, sys, threading, time

ready = "ready"

def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [ready.encode()]

def until_it_goes():
    while not os.path.exists("go"):
        time.sleep(0.005)
"""
HANDLER = (
    APP
    + """
def handler(number, frame):
    print("the app's handler", number, file=sys.stderr, flush=True)
    sys.exit(9)

signal.signal(signal.SIGTERM, handler)
"""
)
FAILING = APP + 'threading.Thread(target=until_it_goes, name="of-the-app").start()\n1/0\n'
THREAD = APP + 'threading.Thread(target=until_it_goes, name="of-the-app").start()\n'
POOL = APP + "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(len, '').result()\n"
PROCESS = (
    APP
    + """
fork = multiprocessing.get_context("fork")
process = fork.Process(target=time.sleep, args=(60,), daemon=True)
process.start()
ready = str(process.pid)
"""
)
WAITING = (
    APP
    + """
def hello(environ, start_response):
    print("the request has begun", file=sys.stderr, flush=True)
    until_it_goes()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"finished"]
"""
)
# Its end sends the signal once more, as `timeout` does, at a moment when nothing is served any more.
AGAIN = (
    APP
    + """
import aserve.lifecycle.signals
aserve.lifecycle.signals.SAME_SIGNAL_SECONDS = 60.0

def again():
    os.kill(os.getpid(), signal.SIGTERM)
    print("at exit", file=sys.stderr, flush=True)

atexit.register(again)
"""
)
# A parent, as in a terminal: SIGHUP would end it, whatever the signal does to this process.
IN_TERMINAL = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
LASTING = PROCESS.replace("target=time.sleep, args=(60,), daemon=True", "target=until_it_goes, name='of-the-app'")


@pytest.fixture
def start(start_process, tmp_path):
    """Start a server of an app with this code."""

    def start(code, *flags, **options):
        (tmp_path / "own.py").write_text(code)
        return start_process(f"{tmp_path}/own.py:hello", *flags, **options)

    return start


def test_the_apps_handler(start, raw_client):
    """A handler set by the app is announced, runs, and leaves the drain a drain."""
    server = start(HANDLER)
    assert "SIGTERM: the app's own handler, own.handler, runs before the server's" in server.log
    assert raw_client(server).fetch().status == 200
    server.signal()
    assert server.wait() == 0
    assert server.log.index("the app's handler 15") < server.log.index("SIGTERM: draining")


@pytest.mark.parametrize("flags", [(), later_on_pypy(("--workers", "1"))], ids=["single", "workers"])
def test_the_same_signal_at_the_end(start, flags):
    """A second signal right behind the first, as by `timeout` or a terminal's group, does not cut off the app's exit handlers."""
    server = start(AGAIN, *flags)
    server.signal()
    assert server.wait(30) == 0
    assert server.log.count("at exit") == 1 and "again" not in server.log


@pytest.mark.long_on_pypy
def test_a_terminal_that_goes(start, raw_client, tmp_path):
    """SIGHUP drains a single process: running requests are finished."""
    server = start(WAITING, "--bind", "127.0.0.1:0", launcher=[sys.executable, "-c", IN_TERMINAL])
    client = raw_client(server)
    client.request()
    server.wait_for_log("the request has begun")
    server.signal(signal.SIGHUP)
    server.wait_for_log("SIGHUP: draining, at most 30 s")
    (tmp_path / "go").touch()
    assert client.recv_response().body == b"finished"
    assert server.wait(30) == 0


@pytest.mark.long_on_pypy
def test_nohup_outlives_the_terminal(start, raw_client):
    server = start(APP, "--bind", "127.0.0.1:0", launcher=["nohup"])
    server.signal(signal.SIGHUP)
    assert raw_client(server).fetch().status == 200
    server.signal()
    assert server.wait(30) == 0
    assert "SIGHUP" not in server.log


@pytest.mark.parametrize(
    ("app", "word"),
    [(THREAD, "thread of-the-app"), later_on_pypy(LASTING, r"process of-the-app \(pid \d+\)")],
    ids=["thread", "process"],
)
def test_a_thread_or_process_is_waited_for(start, tmp_path, app, word):
    """A thread or process that is no daemon keeps the server's process, which names it, and ends with it."""
    server = start(app)
    server.signal()
    server.wait_for_log(f"waiting for the app's {word}; a second signal ends it")
    (tmp_path / "go").touch()
    assert server.wait() == 0


@pytest.mark.parametrize("number", first_on_pypy([signal.SIGTERM, signal.SIGINT]))
def test_nobody_need_wait_for_a_thread(start, number):
    """A second signal ends such a process."""
    server = start(THREAD)
    server.signal()
    server.wait_for_log("waiting for the app's thread")
    server.signal(number)
    assert server.wait() == 128 + number


@pytest.mark.long_on_pypy
def test_a_thread_has_its_time(start):
    """A thread without an end has the time of the drain, at least a second; then the process ends, and tells the thread's place."""
    server = start(THREAD, "--drain-timeout", "0.1")
    server.signal()
    assert server.wait() == 1
    assert re.search(
        r"leaving the app's thread of-the-app unfinished; stacks .*\n +of-the-app:\n.*until_it_goes", server.log
    )


def test_an_import_that_fails_beside_a_thread(tmp_path):
    """The command tells why it cannot serve, then names the thread; it ends."""
    (tmp_path / "own.py").write_text(FAILING)
    command = [sys.executable, "-Im", "aserve", f"{tmp_path}/own.py:hello"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "waiting for the app's thread of-the-app; " in line:
                (tmp_path / "go").touch()
        assert process.wait(30) != 0


def test_threads_that_end_by_themselves(start):
    """Threads of a pool end with the interpreter: nothing is told."""
    server = start(POOL)
    server.signal()
    assert server.wait() == 0
    assert "waiting for" not in server.log


@pytest.mark.long_on_pypy
def test_a_daemon_process(start, raw_client):
    """A daemon of multiprocessing is terminated at the end, and keeps nobody."""
    server = start(PROCESS)
    reply = raw_client(server).fetch()
    server.signal()
    assert server.wait() == 0
    assert not is_alive(int(reply.body))


@pytest.mark.parametrize("flags", first_on_pypy([[], ["--workers", "1"], ["--check"]]))
def test_an_import_that_fails_behind_an_exit_function_that_waits(tmp_path, flags):
    """The command ends by itself, and says where the app waits."""
    (tmp_path / "failing.py").write_text("import atexit, threading\natexit.register(threading.Event().wait)\n1 / 0\n")
    done = run_command("failing:app", "--bind", "127.0.0.1:0", *flags, cwd=tmp_path)
    assert done.returncode == 1 and "importing failing raised" in done.stderr
    assert "leaving what the app does at exit unfinished" in done.stderr
