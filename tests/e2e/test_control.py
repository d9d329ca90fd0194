"""The control socket of a real server: the commands, as somebody types them at 3 a.m."""

import json
import os
import pathlib
import re
import signal
import socket
import sys

import pytest
from harness.client import RawClient
from harness.combining import long
from harness.interpreter import NEEDS_LINUX, later_on_pypy
from harness.process import run_command
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


def run(control, *argv):
    """Run a command; return its exit status, standard output and error."""
    done = run_command(*argv, "--control", control)
    return done.returncode, done.stdout, done.stderr


def ready_pids(control):
    """Return the pids of serving processes."""
    return {worker["pid"] for worker in status_of(control)["workers"] if worker["state"] == "ready"}


def status_of(control):
    """Return the output of `aserve status --json`, without a process for the command."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(control)
        sock.sendall(b'{"ask": "status"}\n')
        with sock.makefile(encoding="utf-8") as lines:
            server, *others = map(json.loads, lines)
    return {**server, "workers": [message["worker"] for message in others]}


@pytest.mark.parametrize("flags", [("--workers", "1"), later_on_pypy(())], ids=["workers", "alone"])
def test_the_only_server_needs_no_name(start_process, tmp_path, flags):
    """In a folder of the unit or the user, `aserve status` finds the socket; a second server finds it taken, and serves without."""
    process = start_process("hello", *flags, XDG_RUNTIME_DIR=str(tmp_path))
    [path] = tmp_path.glob("aserve-*.control")
    assert path.stat().st_mode & 0o777 == 0o600
    other = start_process("hello", *flags, XDG_RUNTIME_DIR=str(tmp_path))  # of the same address, port 0
    other.wait_for_log("`aserve status` cannot ask this server: ")
    done = run_command("status", env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert f"pid {process.pid}: serving on " in done.stdout, done.stderr
    for one in (other, process):
        one.signal()
        assert one.wait() == 0
    assert not path.exists()
    start_process("hello", *flags, RUNTIME_DIRECTORY=str(tmp_path))
    assert (tmp_path / "control").is_socket()


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("flags", [("--workers", "1"), long(((),))], ids=["workers", "alone"])
def test_a_slow_request(start_workers, start_process, control, tmp_path, flags):
    """A slow request is told with its stack while it runs, and again at its end."""
    flags = (*flags, "--control", control, "--slow-request", "100ms")
    process = start_workers(*flags) if "--workers" in flags else start_process("steered", *flags)
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/x")
    wait_until(lambda: status_of(control)["slow"])
    (found,) = status_of(control)["slow"]
    assert found["request"] == f"GET /wait{tmp_path}/x" and found["end"] is None
    assert re.search(r", in (app|steered)\n", found["stack"])
    assert found["worker"] == (1 if "--workers" in flags else None)
    (tmp_path / "x.go").touch()
    assert client.recv_response().status == 200
    client.close()
    wait_until(lambda: status_of(control)["slow"][0]["end"] == "answered")
    process.wait_for_log(" has taken .* so far")


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("flags", [("--workers", "1"), long(((),))], ids=["workers", "alone"])
def test_process_titles_tell_the_request(start_workers, start_process, control, tmp_path, flags):
    """ps shows a process's request, without its query; the supervisor's command line stays."""
    pytest.importorskip("setproctitle")
    flags = (*flags, "--control", control, "--process-titles")
    process = start_workers(*flags) if "--workers" in flags else start_process("steered", *flags)
    wait_until(lambda: ready_pids(control))
    (pid,) = ready_pids(control)

    def title(of):
        return pathlib.Path(f"/proc/{of}/cmdline").read_text().replace("\0", " ").rstrip()

    name = "aserve worker 1" if "--workers" in flags else "aserve"
    wait_until(lambda: title(pid) == f"{name}: no requests")
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/x?token=y")
    wait_until(lambda: re.fullmatch(rf"{name}: 1 of \d+ threads busy; \d+ s: GET /wait.*", title(pid)))
    assert "token" not in title(pid) and ("--workers" not in flags or "--process-titles" in title(process.pid))
    (tmp_path / "x.go").touch()
    assert client.recv_response().status == 200
    client.close()
    wait_until(lambda: title(pid) == f"{name}: no requests")


@pytest.mark.long_on_pypy
@pytest.mark.timeout(300)  # seconds; a dozen starts of Python, 81 s on PyPy at a load of 15
@pytest.mark.parametrize("flags", [(), long((("--preload",),))], ids=["import", "preload"])
def test_a_day_in_the_life(start_workers, control, tmp_path, flags):
    """A request hangs: status names the request, stacks shows the place; then a reload, one more worker, broken code."""
    if flags and sys.implementation.name == "pypy":
        pytest.skip("PyPy has no --preload")
    process = start_workers("--workers", "2", "--control", control, *flags)
    wait_until(lambda: status_of(control)["workers_ready"] == 2)
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/x")
    wait_until((tmp_path / "x.in").exists)
    code, out, _ = run(control, "status")
    assert code == 0 and "with 2 workers" in out and f"GET /wait{tmp_path}"[:40] in out
    code, out, _ = run(control, "stacks")
    assert code == 0 and f", at GET /wait{tmp_path}/x:" in out and "site_app.py" in out  # a loop of looks and sleeps
    (tmp_path / "x.go").touch()
    assert client.recv_response().status == 200
    client.close()
    before = ready_pids(control)
    process.write_app("two")
    code, out, _ = run(control, "reload")
    assert code == 0 and re.fullmatch(r"done in [\d.]+ s: code and settings of 2 workers are new\n", out)
    assert not before & ready_pids(control)
    code, out, _ = run(control, "recycle", "1")
    told = re.fullmatch(r"worker 1 is replaced: pid (\d+) serves, ready after [\d.]+ s\n", out)
    assert code == 0 and int(told[1]) in ready_pids(control)
    assert run(control, "workers", "+1")[:2] == (0, "workers: 3; before: 2\n")
    wait_until(lambda: status_of(control)["workers_ready"] == 3)
    process.write_app("raise ValueError('broken')\n")
    code, out, err = run(control, "reload")
    assert code == 1 and out == "" and "nothing was reloaded: " in err and "ValueError: broken" in err
    code, out, err = run(control, "recycle", "2")
    if flags:  # forked from old code
        assert code == 0 and out.startswith("worker 2 is replaced: ")
    else:
        assert code == 1 and out == "" and "worker 2 is not replaced: " in err and "ValueError: broken" in err
    assert status_of(control)["workers_ready"] == 3


def test_a_worker_has_nothing_of_it(start_workers, control):
    """Only the supervisor holds the socket; its end is the end."""
    process = start_workers("--workers", "1", "--control", control)
    (worker,) = process.wait_for_workers(1)
    held = inode_of(control)
    assert held in sockets_of(process.pid) and held not in sockets_of(worker)
    process.signal()
    assert process.wait() == 0 and not os.path.exists(control)


def inode_of(path):
    """Return the number of the socket listening at a path."""
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines():
        if line.endswith(f" {path}"):
            return line.split()[6]
    raise AssertionError(path)


def sockets_of(pid):
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}


@pytest.mark.long_on_pypy
def test_new_code_of_the_server(start_workers, control):
    """After SIGUSR2 the supervisor of new code answers."""
    process = start_workers("--workers", "1", "--control", control)
    process.wait_for_workers(1)
    process.signal(signal.SIGUSR2)
    process.wait_for_log(r"SIGUSR2: done in")
    assert status_of(control)["pid"] == process.pid


@pytest.mark.long_on_pypy
def test_one_process_answers_for_itself(start_process, control):
    """A single process answers for itself; a second at the same path does not start."""
    process = start_process("steered", "--control", control)
    found = json.loads(run(control, "status", "--json")[1])
    assert found["workers_wanted"] == 0 and found["workers"][0]["pid"] == process.pid
    code, out, _ = run(control, "stacks")
    assert code == 0 and "waiting for requests: " in out
    code, _, err = run(control, "reload")
    assert code == 1 and "start it with --workers" in err
    process.signal()
    assert process.wait() == 0 and not os.path.exists(control)
    code, _, err = run(control, "status")
    assert code == 2 and "no server answers at" in err


LOCKED = """\
import threading
lock = threading.Lock()
def app(environ, start_response):
    lock.acquire()
    lock.acquire()
"""


def test_a_thread_that_is_stuck(start_workers, control):
    """The client of a stuck thread is answered, and status says that a worker has one trusted thread less."""
    process = start_workers(
        "--workers", "1", "--control", control, "--request-timeout", "100ms", "--drain-timeout", "100ms", app=LOCKED
    )
    client = RawClient(process.address)
    client.request("/")
    assert client.recv_response().status == 504
    client.close()
    (warning,) = wait_until(lambda: status_of(control)["warnings"])
    assert warning["text"].startswith("Worker 1 has 1 thread stuck") and not warning["is_failure"]
    assert status_of(control)["workers"][0]["threads_stuck"] == 1
    assert "timed out: no client waits for it" in run(control, "stacks")[1]
    process.stop()


@pytest.mark.long_on_pypy
def test_what_waits_in_a_stuck_worker(start_workers, control, tmp_path):
    """`aserve recycle` replaces the worker; requests not begun go to its successor, and are answered."""
    process = start_workers("--workers", "1", "--threads", "1", "--control", control, "--drain-timeout", "300ms")
    inside, waiting = RawClient(process.address), RawClient(process.address)
    inside.request(f"/wait{tmp_path}/x")
    wait_until((tmp_path / "x.in").exists)
    waiting.request("/")
    wait_until(lambda: [worker["waiting"] for worker in status_of(control)["workers"]] == [1])
    assert run(control, "recycle", "1")[0] == 0
    reply = waiting.recv_response()
    assert reply.status == 200
    assert inside.is_closed()
    for client in (inside, waiting):
        client.close()
    process.stop()
