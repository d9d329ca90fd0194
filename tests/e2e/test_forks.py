"""Processes of the app: none ends the server, answers for the server, or holds its connections."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import sys
import time

import pytest
from harness import sidecars
from harness.interpreter import has_module

APP = f"{pathlib.Path(__file__).parent / 'forking_app.py'}:app"
# Event loops, and the app on a worker or on the loop's own thread.
WAYS = [("asyncio", "4", "auto"), ("asyncio", "0", "auto")]
if has_module("uvloop"):
    WAYS = [("uvloop", "4", "auto"), ("uvloop", "0", "off"), ("asyncio", "4", "off")]
LONG_WAYS = [("asyncio", "4", "off")]  # each value is in another row


@pytest.fixture(
    params=[pytest.param(way, id="-".join(way), marks=pytest.mark.long if way in LONG_WAYS else ()) for way in WAYS]
)
def start_forking(request, start_process):
    """Start a server of the forking app."""
    loop, threads, lane = request.param

    def start(*flags):
        server = start_process(APP, "--loop", loop, "--threads", threads, "--lane", lane, *flags, PYTHONUNBUFFERED="")
        server.has_workers = threads != "0"
        return server

    return start


def fetch(server, client, path):
    """Return a path's answer; without one, fail with every process's stacks."""
    try:
        return client.fetch(path).body
    except socket.timeout:
        for pid in [server.pid, *children_of(server.pid)]:
            before, deadline = len(server.log), time.monotonic() + 5
            with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                os.kill(pid, signal.SIGUSR2)
            while len(server.log) == before and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)  # in turn, so that stacks are not mixed
        pytest.fail(f"{path} was not answered; the log, with the stacks of the server and its children:\n{server.log}")


def children_of(pid):
    """Return the processes whose parent this is, and theirs; Linux only, none elsewhere."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # ended meanwhile
            continue
    found = [pid]
    for parent in found:  # grows in the loop
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


@pytest.mark.long_on_pypy
@pytest.mark.skipif(sys.platform != "linux", reason="children are found in Linux' /proc")
def test_what_is_told_of_a_path_that_hangs(start_process, wait_until, end_child):
    """The failure names the path, and shows the stacks of server and children."""
    server = start_process(APP, "--threads", "4")

    class Client:
        def fetch(self, path):
            with socket.create_connection(server.address) as client:
                client.sendall(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
                [child] = wait_until(lambda: children_of(server.pid))
                end_child(child)
            raise socket.timeout

    with pytest.raises(pytest.fail.Exception) as caught:
        fetch(server, Client(), "/hold")
    text = str(caught.value)
    assert (
        text.startswith("/hold was not answered;") and "in hold\n" in text and text.count("most recent call first") >= 2
    )


def test_ends_of_children(start_forking, raw_client):
    """Processes end as the app means, by signals too, and the server goes on."""
    server = start_forking()
    client = raw_client(server)
    for name, result in (
        ("terminate", "-15"),
        ("terminate_running", "-15"),
        ("interrupt", "7"),
        ("leave_pool", "True"),
        ("use_executor", "32"),
        ("use_subprocess", "(3, -15)"),
        ("use_preexec", "-15"),
        ("serve_itself", "(True, 0)"),
    ):
        assert fetch(server, client, "/" + name).decode() == result, name
    assert client.fetch("/").body == b"%d" % server.pid
    client.close()
    server.signal()
    assert server.wait() == 0
    assert server.log.count("draining") == 2  # once in the serving child


def test_children_that_come_back(start_forking, raw_client):
    """A child that returns into the server leaves without an answer, and its parent goes on, on the same connection."""
    server = start_forking()
    client = raw_client(server)
    for name, status, said in (
        ("fork_and_return", 1, "returned into the server"),
        ("fork_and_raise", 1, 'KeyError: "a failure of the child\'s"'),
        ("fork_and_sys_exit", 3, "by SystemExit, with status 3"),
        ("fork_and_sys_exit_text", 1, "a message of the child's"),
        ("fork_and_os_exit", 4, ""),
        ("fork_and_kill", -9, ""),
        ("fork_and_write", 1, "returned into the server"),
        ("daemonize", 0, "by SystemExit, with status 0"),
        ("generate", None, "by SystemExit, with status 5"),
    ):
        before = len(server.log)
        body = fetch(server, client, "/" + name).decode()
        assert body == (f"{status}" if status is not None else "one 1 5 1"), name
        assert said in server.log[before:], name
        assert client.is_quiet(), name
    assert client.fetch("/").body == b"%d" % server.pid
    client.close()
    server.signal()
    assert server.wait() == 0
    assert "report this" not in server.log


@pytest.mark.long_on_pypy
def test_what_a_child_has_printed(start_forking, raw_client):
    """A child's output is written when it leaves, and its parent's earlier output once."""
    server = start_forking()
    assert raw_client(server).fetch("/print_and_fork").body == b"0"
    server.signal()
    assert server.process.stdout.read().decode() == "before the fork; in the child\n"
    assert server.wait() == 0


@pytest.fixture
def end_child():
    """Have this child killed at the end."""
    pids = []
    yield pids.append
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_child_holds_no_connection(start_forking, raw_client, tmp_path, end_child, wait_until):
    """While a child lives, other clients see the ends of their connections, and afterwards nobody listens."""
    own = "127.0.0.1"
    if sys.platform == "linux":  # where each process may have its own address: no stranger's server is met there
        own = ".".join(map(str, (127, 1 + (os.getpid() >> 16 & 63), os.getpid() >> 8 & 255, os.getpid() & 255)))
    server = start_forking("--bind", f"uwsgi://unix:{tmp_path}/sock", "--bind", f"{own}:0")
    address = own, int(server.wait_for_log(rf"serving on .*http://{re.escape(own)}:(\d+)")[1])
    idle, asking = raw_client(address), raw_client(address)
    idle.fetch()
    front = raw_client(f"{tmp_path}/sock")
    if server.has_workers:
        front.send(sidecars.uwsgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/wait"}))
        wait_until((tmp_path / "waiting").exists)
    pid = int(asking.fetch("/hold").body)
    end_child(pid)
    (tmp_path / "go").touch()
    if not server.has_workers:
        front.send(sidecars.uwsgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/wait"}))
    assert front.recv_to_end().endswith(b"gone")
    server.signal()
    assert idle.recv_to_end() == asking.recv_to_end() == b""
    assert server.wait() == 0
    os.kill(pid, 0)
    with pytest.raises(ConnectionRefusedError):  # nobody listens: the port can be bound
        raw_client(address)
    assert not (tmp_path / "sock").exists()
